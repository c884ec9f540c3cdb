"""Atomic replacement of files, and folders that only their owner can access."""

import errno
import io
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700


@contextmanager
def atomic_write(path: Path, *, is_private: bool = False) -> Iterator[io.BufferedWriter]:
    """A file that replaces the one at `path` when the block succeeds; otherwise it is deleted.

    Permissions are kept; a new file is readable only by its owner if `is_private`. Raises OSError.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "Not a file", str(path))
    before = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    beside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_native_id()}.partial")
    mode = PRIVATE_FILE if is_private or before is not None else 0o666
    try:
        # Exclusive creation does not follow a link that somebody put there.
        with open(beside, "xb", opener=partial(os.open, mode=mode)) as file:
            if before is not None:
                beside.chmod(before)
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def make_private_folder(path: Path) -> None:
    """Create a folder and its missing parents for the owner only; existing ones keep their permissions."""
    for folder in (*reversed(path.parents), path):
        if folder == path or not folder.exists():
            folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
