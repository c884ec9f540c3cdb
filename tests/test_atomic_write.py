"""A file is either as it was, or complete."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mbc_engine.atomic_write import atomic_write, make_private_folder


def test_the_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"before")
    with atomic_write(path) as file:
        file.write(b"after")
        file.flush()
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt), atomic_write(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="Not a file"), atomic_write(pipe):
        pass
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_a_new_file_is_readable_as_the_umask_says_or_private(tmp_path: Path, umask: int) -> None:
    for is_private in (False, True):
        with atomic_write(tmp_path / f"{is_private}", is_private=is_private) as file:
            file.write(b"after")
            (partial,) = tmp_path.glob("*.partial")
            assert mode_of(partial) == (0o600 if is_private else 0o666 & ~umask)
    assert mode_of(tmp_path / "False") == 0o666 & ~umask
    assert mode_of(tmp_path / "True") == 0o600


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o400])
@pytest.mark.parametrize("is_private", [False, True])
def test_a_replaced_file_keeps_its_permissions(tmp_path: Path, umask: int, mode: int, is_private: bool) -> None:
    path = tmp_path / "a.txt"
    path.touch()
    path.chmod(mode)
    with atomic_write(path, is_private=is_private) as file:
        file.write(b"after")
        (partial,) = tmp_path.glob(".*.partial")
        assert not mode_of(partial) & ~mode
    assert mode_of(path) == mode
    assert path.read_bytes() == b"after"


def test_a_link_where_it_is_written_is_not_followed(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "a.txt"
    other.write_bytes(b"before")
    (tmp_path / f".a.txt.{os.getpid()}-{threading.get_native_id()}.partial").symlink_to(other)
    with pytest.raises(FileExistsError), atomic_write(path):
        pass
    assert other.read_bytes() == b"before"
    with atomic_write(path) as file:  # the link is gone
        file.write(b"after")
    assert path.read_bytes() == b"after"


def test_private_folders_are_made_and_others_stay_as_they_are(tmp_path: Path, umask: int) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    before = mode_of(tmp_path / "open")
    make_private_folder(tmp_path / "open" / "a" / "b")
    make_private_folder(tmp_path / "open" / "a" / "b")
    assert [mode_of(tmp_path / name) for name in ("open", "open/a", "open/a/b")] == [before, 0o700, 0o700]
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_private_folder(tmp_path / "file")
