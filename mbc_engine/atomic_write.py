"""Files that are never there in part: written beside their place, moved there when they are complete.

What is private to a person (`is_private`, `make_private_folder`) is for its owner alone, whatever the umask says. What is
there already keeps its permissions.
"""

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700


@contextmanager
def whole_file(path: Path, *, is_private: bool = False) -> Iterator[io.BufferedWriter]:
    """A file to write, which takes the place of what is at `path` when the block succeeds; else nothing is left of it.

    It takes over the permissions of a file that was there. The name it is written under is hidden.

    Args:
        path: its place.
        is_private: where no file was there, only the owner may read and write it; otherwise the umask decides.

    Raises:
        OSError: it cannot be written, or something else than a file is there: a device would be gone for everybody.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "Not a file", str(path))
    before = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    mode = PRIVATE_FILE if is_private or before is not None else 0o666
    try:
        # Only ever a new file: a link that somebody put there leads nowhere.
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
    """Make a folder, and those above it that are missing, for the owner alone; those that are there stay as they are.

    Raises:
        OSError: it cannot be made.
    """
    for folder in (*reversed(path.parents), path):
        # The last one tells, if it is something else than a folder.
        if folder == path or not folder.exists():
            folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
