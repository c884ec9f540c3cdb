"""A run's folder while a training is at work in it: nobody else's, its model there whole or not at all."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import Timeout
from safetensors import SafetensorError

from mbc_engine.config import Config
from mbc_engine.errors import ConfigError
from mbc_engine.model.checkpoint import save_model
from mbc_engine.model.mbc import MBC
from mbc_engine.work.lock import work_lock
from mbc_engine.work.run_folder import LOCK, MODEL, clear_request


@contextmanager
def at_work(run: Path) -> Iterator[None]:
    """Inside, the run's folder is this training's alone, and so are the requests in it.

    Raises:
        ConfigError: another training is at work there, or its files cannot be read or written, be it for want of room.
    """
    try:
        run.mkdir(parents=True, exist_ok=True)
        lock = work_lock(run / LOCK)  # which the system lifts when the process ends, however
        lock.acquire()
        try:
            clear_request(run)  # what was asked of an earlier training is over
            yield
        finally:
            clear_request(run)
            lock.release()
    except Timeout as error:
        raise ConfigError(
            f"Another training is at work in {run}.", hint="Wait for it, or use another --run."
        ) from error
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"The training in {run} cannot read or write its files: {error}.",
            hint="Check the path and the room on the disk; --resume goes on from the last snapshot.",
        ) from error


def keep_model(model: MBC, config: Config, run: Path, *, writes: bool) -> None:
    """Make the present model the run's model, whole or not at all; for `writes` see `save_model`."""
    folder = run / MODEL
    new, old = folder.with_name("model-new"), folder.with_name("model-old")
    if writes:
        shutil.rmtree(new, ignore_errors=True)
    save_model(model, config, new, writes=writes)
    if not writes:
        return
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)  # left by a kill after the last replacement
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def recover_model(run: Path) -> None:
    """Finish a replacement of the run's model that was cut off in the middle."""
    folder = run / MODEL
    old = folder.with_name("model-old")
    if not folder.exists() and old.exists():
        old.rename(folder)
