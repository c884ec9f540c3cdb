"""Walking folders and reading text and Markdown."""

import hashlib
import os
from pathlib import Path

import pytest

from mbc_engine.documents import Document, Skipped, find_files, read, read_files
from mbc_engine.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a/z.md", "a/.hidden.txt", ".git/c.txt", "c.TXT", "picture.png", "README"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def found(root: Path, *paths: Path) -> tuple[list[str], list[tuple[str, str]]]:
    result = find_files(paths)
    return (
        [path.relative_to(root).as_posix() for path in result.files],
        [(Path(skip.source).relative_to(root).as_posix(), skip.reason) for skip in result.skipped],
    )


def test_walk_is_sorted_leaves_out_hidden_files_and_says_what_it_skips(folder: Path) -> None:
    assert found(folder, folder) == (
        ["a/z.md", "b.txt", "c.TXT"],
        [("README", "has no suffix"), ("picture.png", "is a .png file, which cannot be read yet")],
    )


def test_named_paths_keep_their_order_and_may_be_hidden(folder: Path) -> None:
    assert found(folder, folder / "c.TXT", folder / ".git", folder / "b.txt")[0] == ["c.TXT", ".git/c.txt", "b.txt"]


def test_what_is_reached_twice_counts_once(folder: Path) -> None:
    (folder / "a" / "loop").symlink_to(folder)
    (folder / "link.txt").symlink_to(folder / "b.txt")
    again = (folder / "a", folder / "b.txt", folder / "a" / "..")
    assert found(folder, folder, *again)[0] == ["a/z.md", "b.txt", "c.TXT"]


def test_missing_path_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="gone does not exist") as caught:
        find_files([tmp_path, tmp_path / "gone"])
    assert caught.value.hint


def test_broken_links_pipes_and_closed_folders_do_not_stop_the_walk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "broken.txt").symlink_to(folder / "nowhere.txt")
    os.mkfifo(folder / "pipe.txt")
    (folder / "closed").mkdir()
    listdir = os.listdir

    def guarded(path: Path) -> list[str]:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", guarded)
    files, skipped = found(folder, folder)
    assert files == ["a/z.md", "b.txt", "c.TXT"]
    assert ("broken.txt", "cannot be read: no such file or directory") in skipped
    assert ("pipe.txt", "is not a regular file") in skipped
    assert ("closed", "cannot be read: permission denied") in skipped


def test_document_says_where_it_came_from(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("Zoë\r\nhere".encode())
    os.utime(path, (0, 86_400 * 365))
    (tmp_path / "link.txt").symlink_to(path)
    assert read(tmp_path / "link.txt") == Document(
        source=str(path.resolve()),
        text="Zoë\nhere",
        digest=hashlib.sha256("Zoë\r\nhere".encode()).hexdigest(),
        size=10,
        date="1971-01-01",
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("\ufeffmark".encode(), "mark"),
        ("naïve “quote”".encode("cp1252"), "naïve “quote”"),
        (b"caf\xe9 \x81", "café \x81"),
    ],
)
def test_text_is_decoded(tmp_path: Path, data: bytes, text: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    assert read(path).text == text


def test_markdown_loses_front_matter_and_comments_only(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("---\ntitle: x\ndate: 2024-05-01\n---\n# Head\n<!-- a\n-- b -->*Text* <!-- open\n---\n")
    document = read(path)
    assert document.text == "# Head\n*Text* <!-- open\n---\n"
    assert document.date == "2024-05-01"


@pytest.mark.parametrize(
    "text", ["---\n\nBetween rules.\n\n---\n", "---\ntitle: never closed\n", "text\n---\na: b\n---\n"]
)
def test_markdown_rules_are_no_front_matter(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.md"
    path.write_text(text)
    assert read(path).text == text


@pytest.mark.parametrize(
    ("written", "day"),
    [
        ("2024-05-01", "2024-05-01"),
        ("'2024-05-01T01:00:00+02:00'  # local", "2024-04-30"),
        ("2024-05-01T10:00:00Z", "2024-05-01"),
        ("2024-05-01 10:00:00 +0200", "2024-05-01"),
        ("1 May 2024", "1970-01-02"),
        ("", "1970-01-02"),
    ],
)
def test_date_is_the_written_one_else_that_of_the_file(tmp_path: Path, written: str, day: str) -> None:
    path = tmp_path / "a.md"
    path.write_text(f"---\ntitle: t\ndate: {written}\n---\ntext")
    os.utime(path, (0, 86_400))
    assert read(path).date == day


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", b"PK\0\1", "looks binary"),
        ("a.txt", b"\xef\xbb\xbf \n", "is empty"),
        ("a.md", b"---\na: b\n---\n<!-- -->", "is empty"),
        ("a.xyz", b"text", "is a .xyz file, which cannot be read yet"),
        (os.fsdecode(b"caf\xe9.txt"), b"text", "has a name that is not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_an_error_or_skipped(tmp_path: Path, name: str, data: bytes, reason: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(DataError, match=reason) as caught:
        read(path)
    caught.value.message.encode()
    (skip,) = read_files([path])
    assert isinstance(skip, Skipped)
    assert skip.reason == reason
    skip.source.encode()


def test_a_file_that_vanished_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("b")
    first, second = read_files([tmp_path / "a.txt", tmp_path / "b.txt"])
    assert first == Skipped(str(tmp_path / "a.txt"), "cannot be read: no such file or directory")
    assert isinstance(second, Document)


@pytest.mark.timeout(5)
def test_hostile_markdown_takes_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    for text in ("<!--" * 200_000, "---\na: b\n" + "---x\n" * 200_000, "---\na: b\n" + "--- " * 200_000):
        path.write_text(text)
        assert read(path).text == text
