"""Locks that tell other processes that someone is at work; the system lifts them when the process ends, however."""

from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

# Whoever looks at a lock holds it for an instant; whoever wants it waits that out, and many times over.
_PATIENCE: Final = 1.0


def work_lock(path: Path) -> FileLock:
    """A lock to hold while at work. If another process is, acquiring it raises `filelock.Timeout`."""
    return FileLock(path, timeout=_PATIENCE)


def is_held(path: Path) -> bool:
    """Whether someone is at work."""
    try:
        if not path.exists():
            return False
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # a folder that belongs to others
        return False
