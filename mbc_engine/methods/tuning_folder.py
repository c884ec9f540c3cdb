"""The folder of a tuning: it belongs to one training, and what goes wrong with its files is said."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from mbc_engine.errors import ConfigError


@contextmanager
def tuning_folder(folder: Path) -> Iterator[None]:
    """A folder, made where it is not there, to work in.

    Raises:
        ConfigError: it cannot be read or written, be it for want of room.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"The training in {folder} cannot read or write its files: {error}.",
            hint="Check the path and the room on the disk; called again, it goes on from the last snapshot.",
        ) from error


def require_same(folder: Path, told: str, settings: str, *, otherwise: str) -> None:
    """Make sure that a folder is of this training.

    Args:
        folder: which.
        told: what it says it was begun with.
        settings: what this training is begun with.
        otherwise: what it holds if it is of another.

    Raises:
        ConfigError: it is of another.
    """
    if told != settings:
        raise ConfigError(f"{folder} holds {otherwise}.", hint="Delete it to train again, or take another folder.")
