"""Paths as they are typed."""

from pathlib import Path

import pytest

from mbc_cli.tui.widgets.dialogs import existing_path


def test_what_is_typed_is_a_path_from_here_or_from_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    (home / "a").mkdir()
    assert [existing_path(typed) for typed in ("", "a", "./a/..", "~/a")] == [home, home / "a", home, home / "a"]
    for typed in ("b", "~nobody-has-this-name/a", "a\0b"):
        with pytest.raises(ValueError):
            existing_path(typed)
