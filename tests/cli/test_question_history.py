import stat

from mbc_cli.config import add_question, read_questions


def test_questions_are_kept_for_next_time(home):
    path = home / "new" / "history"
    for line in ("Who?", "", "Wo ist Žofie?", "a\nb"):
        add_question(path, line)
    assert read_questions(path) == ["Who?", "Wo ist Žofie?", "a b"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_only_the_last_lines_are_kept(home):
    path = home / "history"
    for line in "abcd":
        add_question(path, line, limit=3)
    assert path.read_text() == "b\nc\nd\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(home.iterdir()) == [path]


def test_bytes_that_are_no_text_stay(home):
    path = home / "history"
    path.write_bytes(b"\xff\nb\n")
    add_question(path, "c", limit=2)
    add_question(path, "d", limit=3)
    assert path.read_bytes() == b"b\nc\nd\n"
    path.write_bytes(b"\xff\nb\nc\n")
    add_question(path, "d", limit=3)
    assert path.read_bytes() == b"b\nc\nd\n"
    path.write_bytes(b"a\n\xff\n")
    add_question(path, "d", limit=2)
    assert path.read_bytes() == b"\xff\nd\n"


def test_a_history_that_cannot_be_written_is_no_error(home):
    (home / "file").touch()
    add_question(home / "file" / "history", "Who?")
    assert read_questions(home / "file" / "history") == []
