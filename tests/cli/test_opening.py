"""A source's file in the user's editor: at its line, however the editor takes it, and never for a file that is gone."""

import subprocess
from dataclasses import replace

import pytest

from mbc_cli.opening import open_source
from mbc_engine.errors import DataError
from mbc_engine.question import Source


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "-a b.txt"
    path.write_text("one\ntwo\n")
    return Source(str(path), "", 1.0, 0, "unchanged", "two", "two", "file", 0, None, "b.mbc", 2)


@pytest.fixture
def ran(monkeypatch):
    commands = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: commands.append(command))
    for name in ("VISUAL", "EDITOR", "PAGER"):
        monkeypatch.delenv(name, raising=False)
    return commands


@pytest.mark.parametrize(
    ("editor", "expected"),
    [
        ("nano -w", ["nano", "-w", "+2", "{}"]),
        ("/usr/bin/code --wait", ["/usr/bin/code", "--wait", "--goto", "{}:2"]),
        ("hx", ["hx", "{}:2"]),
    ],
)
def test_an_editor_opens_at_the_line(source, ran, monkeypatch, editor, expected):
    monkeypatch.setenv("EDITOR", editor)
    monkeypatch.setenv("PAGER", "less")
    open_source(source)
    open_source(replace(source, line=None))
    assert ran == [[word.replace("{}", source.path) for word in expected], [*editor.split(), source.path]]


def test_a_pager_shows_it_without_an_editor(source, ran, monkeypatch):
    monkeypatch.setenv("PAGER", "most")
    open_source(source)
    assert ran == [["most", "+2", source.path]]


@pytest.mark.parametrize("path", ["/gone/a.txt", "stdin:0123", "0123abcd"])
def test_what_is_no_file_is_not_opened(source, ran, path):
    with pytest.raises(DataError, match="cannot be opened"):
        open_source(replace(source, path=path))
    assert not ran
