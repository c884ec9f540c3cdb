"""A file is either as it was, or complete."""

import os
import threading

import pytest

from mbc_engine.atomic_write import atomic_write, make_private_folder


def mode_of(path):
    return path.stat().st_mode & 0o7777


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"before")
    return tmp_path / "a.txt"


def test_the_file_changes_at_once(path):
    with atomic_write(path) as file:
        file.write(b"after")
        file.flush()
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_changes_nothing(path):
    with pytest.raises(KeyboardInterrupt), atomic_write(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"before"
    assert list(path.parent.iterdir()) == [path]


def test_only_files_are_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Not a file"), atomic_write(tmp_path / "pipe"):
        pass
    assert [found.is_fifo() for found in tmp_path.iterdir()] == [True]


@pytest.mark.parametrize("is_private", [False, True])
def test_permissions(path, umask, is_private):
    for mode in (None, 0o600, 0o640, 0o666, 0o400):
        if mode is None:
            path.unlink()
        else:
            path.chmod(mode)
        with atomic_write(path, is_private=is_private) as file:
            file.write(b"after")
            (partial,) = path.parent.glob("*.partial")
            during = mode_of(partial)
        if mode is None:
            assert during == mode_of(path) == (0o600 if is_private else 0o666 & ~umask)
        else:
            assert not during & ~mode
            assert mode_of(path) == mode


def test_links_are_not_followed(path, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"before")
    (tmp_path / f".a.txt.{os.getpid()}-{threading.get_native_id()}.partial").symlink_to(other)
    with pytest.raises(FileExistsError), atomic_write(path):
        pass
    assert other.read_bytes() == b"before"
    with atomic_write(path) as file:  # the link is gone
        file.write(b"after")
    assert path.read_bytes() == b"after"


def test_new_folders_are_private(path, umask):
    outer = path.parent / "open"
    outer.mkdir(mode=0o755)
    before = mode_of(outer)
    for _ in range(2):
        make_private_folder(outer / "a" / "b")
    assert [mode_of(folder) for folder in (outer, outer / "a", outer / "a" / "b")] == [before, 0o700, 0o700]
    with pytest.raises(FileExistsError):
        make_private_folder(path)
