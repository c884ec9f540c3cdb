"""A folder is put in its place whole, or what was there stays."""

import pytest

from mbc_engine.sharing.hub import put_in_place


def test_what_cannot_be_replaced_stays(tmp_path, files):
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "a").write_text("a")
    with pytest.raises(FileNotFoundError):
        put_in_place(tmp_path / "nonesuch", tmp_path / "place", tmp_path / "aside")
    assert files(tmp_path / "place") == {"a": b"a"}
    assert not (tmp_path / "aside").exists()


def test_what_was_there_goes(tmp_path, files):
    for name in ("whole", "place"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    put_in_place(tmp_path / "whole", tmp_path / "place", tmp_path / "aside")
    assert files(tmp_path / "place") == {"whole": b""}
    assert not (tmp_path / "aside").exists()
