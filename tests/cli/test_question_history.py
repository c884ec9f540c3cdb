import stat

from mbc_cli.question_history import QuestionHistory


def test_what_is_typed_is_there_next_time(home):
    path = home / "new" / "history"
    for line in ("Who?", "", "Wo ist Žofie?", "a\nb"):
        QuestionHistory(path).add(line)
    assert QuestionHistory(path).read() == ["Who?", "Wo ist Žofie?", "a b"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_only_the_last_lines_are_kept(home):
    path = home / "history"
    for line in "abcd":
        QuestionHistory(path, most=3).add(line)
    assert path.read_text() == "b\nc\nd\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(home.iterdir()) == [path]


def test_bytes_that_are_no_text_stay(home):
    path = home / "history"
    path.write_bytes(b"\xff\nb\n")
    QuestionHistory(path, most=2).add("c")
    QuestionHistory(path, most=3).add("d")
    assert path.read_bytes() == b"b\nc\nd\n"
    path.write_bytes(b"\xff\nb\nc\n")
    QuestionHistory(path, most=3).add("d")
    assert path.read_bytes() == b"b\nc\nd\n"
    path.write_bytes(b"a\n\xff\n")
    QuestionHistory(path, most=2).add("d")
    assert path.read_bytes() == b"\xff\nd\n"


def test_where_nothing_can_be_kept_nothing_is_missed(home):
    (home / "file").touch()
    history = QuestionHistory(home / "file" / "history")
    history.add("Who?")
    assert history.read() == []
