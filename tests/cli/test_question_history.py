import stat

from mbc_cli.config import add_question, read_questions


def test_questions_are_saved(home):
    path = home / "new" / "history"
    for line in ("Who?", "", "Wo ist Žofie?", "a\nb"):
        add_question(path, line)
    assert read_questions(path) == ["Who?", "Wo ist Žofie?", "a b"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_history_is_limited(home):
    path = home / "history"
    for line in "abcd":
        add_question(path, line, limit=3)
    assert path.read_text() == "b\nc\nd\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(home.iterdir()) == [path]


def test_invalid_utf8_is_kept(home):
    path = home / "history"
    path.write_bytes(b"a\n\xff\n")
    add_question(path, "d", limit=2)
    assert path.read_bytes() == b"\xff\nd\n"


def test_unwritable_history_is_ignored(home):
    (home / "file").touch()
    add_question(home / "file" / "history", "Who?")
    assert read_questions(home / "file" / "history") == []
