"""A training run's folder: the names of its files, and what the training and whoever watches it tell each other there.

The one at work holds `lock` and writes `usage.safetensors`; the other writes `request`, which the training looks at
between two steps.
"""

from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from mbc_engine.whole_file import whole_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONFIG = "config.toml"
EVENTS = "events.jsonl"
SNAPSHOT = "snapshot.safetensors"
MODEL = "model"
LOCK = "lock"
TRACKED = "tracked"
_REQUEST = "request"
_USAGE = "usage.safetensors"
_USAGE_AXES = 3


class Request(StrEnum):
    """What is asked of a training that is at work."""

    PAUSE = "pause"
    STOP = "stop"


def make_request(run: Path, request: Request | None) -> None:
    """Ask the training at work for something in place of what was asked before; None is to go on."""
    if request is None:
        clear_request(run)
        return
    with whole_file(run / _REQUEST) as file:
        file.write(f"{request}\n".encode())


def clear_request(run: Path) -> None:
    """Ask for nothing any more: a pause ends."""
    (run / _REQUEST).unlink(missing_ok=True)


def request_in(run: Path) -> Request | None:
    """What is asked of the training at work."""
    try:
        return Request((run / _REQUEST).read_text().strip())
    except (OSError, ValueError):
        return None


def is_at_work(run: Path) -> bool:
    """Whether a training is at work in the folder, in whatever process."""
    from mbc_engine.work.lock import is_held

    return is_held(run / LOCK)


def write_usage(run: Path, usage: "NDArray[np.float32]", step: int) -> None:
    """Show the codes' usage [levels, positions, num_codes] after `step` steps to whoever watches."""
    from safetensors.numpy import save

    with suppress(OSError), whole_file(run / _USAGE) as file:  # training does not end because nobody can watch
        file.write(save({"usage": usage}, {"step": str(step)}))


def read_usage(run: Path) -> "NDArray[np.float32] | None":
    """The codes' usage [levels, positions, num_codes] of late; None while there is none."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        usage: NDArray[np.float32] = load((run / _USAGE).read_bytes())["usage"]
    except (OSError, SafetensorError, KeyError):
        return None
    return usage if usage.ndim == _USAGE_AXES and usage.size else None


def runs_in(folder: Path) -> list[Path]:
    """The runs that lie in a folder, the one changed last first."""
    changed = {}
    with suppress(OSError):
        for run in folder.iterdir():
            with suppress(OSError):
                changed[run] = (run / EVENTS).stat().st_mtime_ns
    return sorted(changed, key=lambda run: (-changed[run], run.name))
