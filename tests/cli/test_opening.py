"""A source's file in the user's editor: at its line, in the editor's own syntax, and only if the file exists."""

import subprocess
from pathlib import Path

import pytest

from mbc_cli.render.answer import open_file
from mbc_engine.errors import DataError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "-a b.txt"
    path.write_text("one\ntwo\n")
    return path


@pytest.fixture
def commands(monkeypatch):
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
def test_editor_opens_at_the_line(file, commands, monkeypatch, editor, expected):
    monkeypatch.setenv("EDITOR", editor)
    monkeypatch.setenv("PAGER", "less")
    open_file(file, 2)
    open_file(file)
    assert commands == [[word.replace("{}", str(file)) for word in expected], [*editor.split(), str(file)]]


def test_pager_without_an_editor(file, commands, monkeypatch):
    monkeypatch.setenv("PAGER", "most")
    open_file(file, 2)
    assert commands == [["most", "+2", str(file)]]


@pytest.mark.parametrize("path", ["/gone/a.txt", "stdin:0123", "0123abcd"])
def test_only_files_are_opened(commands, path):
    with pytest.raises(DataError, match="cannot be opened"):
        open_file(Path(path))
    assert not commands
