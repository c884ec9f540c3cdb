"""Which files an assistant may have memorised."""

import os
import sys
from pathlib import Path

import pytest

from mbc_cli.mcp import allowed_folders, find_allowed


def test_places_are_below_the_allowed_folders(notes, home):
    other = home / "other"
    other.mkdir()
    for file in (other / "x.txt", home / "secret.txt", notes / ".env"):
        file.write_text("text")
    (notes / "away").symlink_to(home)
    (home / "near").symlink_to(notes)
    folders = allowed_folders([notes, other])
    ada, bruno = notes / "ada.txt", notes / "bruno.md"
    for name, files in (
        (str(ada), (ada,)),
        ("bruno.md", (bruno,)),
        ("x.txt", (other / "x.txt",)),
        (str(home / "near" / "ada.txt"), (ada,)),
    ):
        assert find_allowed([name], folders).files == files
    for name in (
        *(str(home), str(home / "secret.txt"), str(home / "missing.txt"), "/", "../secret.txt", "away/secret.txt"),
        *("away", ".env", "~root", "~nobody-of-this-name", "nul\0", "x" * 5000, f"{notes}-else"),
    ):
        with pytest.raises(Exception, match="is not allowed"):
            find_allowed([name], folders)
    with pytest.raises(Exception, match="does not exist"):
        find_allowed(["missing.txt"], folders)


def test_links_below_lead_nowhere_else(notes, home):
    outside = home / "outside"
    outside.mkdir()
    for name in ("a.txt", "b.txt", "c.png"):
        (outside / name).write_text("secret")
    (notes / "folder").symlink_to(outside)
    (notes / "file.txt").symlink_to(outside / "a.txt")
    (notes / "broken.txt").symlink_to(home / "missing")
    (notes / "within.txt").symlink_to(notes / "ada.txt")
    found = find_allowed([str(notes)], allowed_folders([notes]))
    assert [path.name for path in found.files] == ["ada.txt", "bruno.md"]
    assert [(Path(skipped.source).name, skipped.reason) for skipped in found.skipped] == [
        (name, "is a link, which is not followed") for name in ("broken.txt", "file.txt", "folder", "within.txt")
    ]


def test_patterns_that_cannot_be_read_are_named(notes):
    (notes / ".mbcignore").write_text("[z-a]")
    (skipped,) = find_allowed([str(notes)], allowed_folders([notes])).skipped
    assert Path(skipped.source).name == ".mbcignore" and "links" not in skipped.reason


@pytest.mark.skipif(sys.platform != "linux", reason="file names are UTF-8 elsewhere")
def test_an_allowed_folder_may_have_any_name(home):
    folder = home / os.fsdecode(b"n\xff")
    folder.mkdir()
    (folder / "ada.txt").write_text("text")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    found = find_allowed([str(folder)], allowed_folders([folder]))
    assert found.files == (folder / "ada.txt",)
    assert [Path(skipped.source).name for skipped in found.skipped] == ["picture.png"]
