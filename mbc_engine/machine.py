"""The machine that this process runs on: its processor, the cores that may be used, and the memory.

Optional parts of mbc: whether the packages that one brings are installed, before any of them is imported.

Work done again and again, and not so often that it takes more than its share of the time.
"""

import importlib.util
import os
import platform
from pathlib import Path

from mbc_engine.errors import ConfigError


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), platform.processor() or platform.machine())


def usable_cores() -> int:
    """How many cores this process may use, at least 1: containers and schedulers grant fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int | None:
    """Bytes of memory; None where the system does not tell, as Windows."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def installing(extra: str) -> str:
    """What brings an extra, typed in the folder of mbc: on the registries its name is another project's."""
    return f"pip install -c constraints.txt -e '.[{extra}]'"


def require_extra(extra: str, *packages: str, asked_by: str) -> None:
    """Make sure that the packages of an extra are there.

    Args:
        extra: its name.
        packages: what it brings.
        asked_by: what was typed that needs them.

    Raises:
        ConfigError: one of them is not installed.
    """
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise ConfigError(
            f"`{asked_by}` needs packages that are not installed: {', '.join(missing)}.",
            hint=f"Install them, in mbc's folder: {installing(extra)}",
        )


class SlowDown:
    """Says when something is due again that should take but a small part of the time, however long it takes.

    Args:
        share: the largest part of the time.
        least: seconds from one beginning to the next at least.
    """

    def __init__(self, share: float, least: float) -> None:
        self._share, self._least, self._next = share, least, -float("inf")

    def is_due(self, now: float) -> bool:
        """Whether enough time has passed."""
        return now >= self._next

    def seconds_left(self, now: float) -> float:
        """How long it is until then; 0 if it is due."""
        return max(0.0, self._next - now)

    def took(self, began: float, ended: float) -> None:
        """It was done, from then to then."""
        self._next = began + max(self._least, (ended - began) / self._share)
