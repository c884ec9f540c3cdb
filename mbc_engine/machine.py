"""What this process runs on: processor, cores, memory, optional packages, and how it was launched. No torch."""

import ctypes
import importlib.util
import os
import platform
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from mbc_engine.errors import ConfigError

_LOW_PRIORITY: Final = 10  # of 19, as that of `nice`


def processor() -> str:
    """The processor's name."""
    return next(iter(_told_of_cpus("model name")), platform.processor() or platform.machine())


def _told_of_cpus(field: str) -> list[str]:
    """What Linux says of each processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
    return [line.partition(":")[2].strip() for line in lines if line.startswith(field)]


def has_integer_products() -> bool:
    """Whether the processor is known to sum products of 8-bit integers in one instruction, and may be used so.

    Not with `MBC_PRECISION=float32`. Raises ConfigError if that has another value than this or `auto`.
    """
    wanted = os.environ.get("MBC_PRECISION", "auto")
    if wanted not in ("auto", "float32"):
        raise ConfigError(f"MBC_PRECISION={wanted} is not a precision.", hint="Set it to auto or float32.")
    return wanted == "auto" and _has_integer_products()


@cache
def _has_integer_products() -> bool:
    import numpy as np

    found = np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", ())
    flags = " ".join(_told_of_cpus("flags")).split() if "AVX512_ICL" not in found else ()
    return "AVX512_ICL" in found or not {"avx_vnni", "avx512_vnni"}.isdisjoint(flags)


def usable_cores() -> int:
    """How many cores this process may use: fewer than the machine has if it, or its container, is limited to some."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # not Linux, or no limit
        group = Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip()
        microseconds, period = map(int, Path(f"/sys/fs/cgroup{group}/cpu.max").read_text().split())
        return max(1, min(cores, microseconds // period))
    return cores


def usable_threads() -> int:
    """How many threads to compute with: one for each core, or as many as `OMP_NUM_THREADS` allows."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(usable_cores(), max(1, int(limit))) if limit.isdecimal() else usable_cores()


def idle_threads() -> int:
    """How many threads to compute with that wait for each other, as torch's do: of those usable, as many as cores idle."""
    with suppress(OSError, ValueError):
        running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])  # this thread too
        return max(1, min(usable_threads(), (os.cpu_count() or 1) - running + 1))
    return usable_threads()


def memory() -> int | None:
    """Bytes of memory; None if the system does not report it, as on Windows."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def return_free_memory() -> None:
    """Return freed memory to the system, where the C library keeps it for later, as glibc does."""
    with suppress(OSError, AttributeError, TypeError):  # Windows, or another library
        ctypes.CDLL(None).malloc_trim(0)


def yield_to_others() -> None:
    """Let other programs go first from now on, at the processor and, on Linux, at the disk; not on Windows."""
    tasks = Path("/proc/self/task")  # Linux has priorities for each thread
    with suppress(OSError, AttributeError):
        threads = [int(task.name) for task in tasks.iterdir()] if tasks.is_dir() else [0]
        before = [os.getpriority(os.PRIO_PROCESS, thread) for thread in threads]
        changed = [thread for thread, now in zip(threads, before, strict=True) if now < _LOW_PRIORITY]
        for thread in changed:
            os.setpriority(os.PRIO_PROCESS, thread, _LOW_PRIORITY)
        if changed and tasks.is_dir() and (ionice := shutil.which("ionice")):
            subprocess.run([ionice, "-c", "idle", "-p", *map(str, changed)], capture_output=True, check=False)  # noqa: S603


def installed_version(package: str) -> str | None:
    """A package's version, None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    with suppress(PackageNotFoundError):
        return version(package)
    return None


def is_launched() -> bool:
    """Whether a launcher such as `accelerate launch` or `torchrun` started this process, alone or with others."""
    return "LOCAL_RANK" in os.environ


def is_main_process() -> bool:
    """Whether this process is the only one, or the first of those launched together."""
    return os.environ.get("RANK", "0") == "0"


def installing(extra: str) -> str:
    """The command that installs an extra, to be run in mbc's folder; elsewhere the name belongs to another project."""
    return f"pip install -c constraints.txt -e '.[{extra}]'"


def package_folder(package: str) -> Path | None:
    """The folder of a Python package, without importing it; None if it is not installed."""
    spec = importlib.util.find_spec(package)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def require_extra(extra: str, *packages: str, asked_by: str) -> None:
    """Raise ConfigError if packages of an extra, which `asked_by` needs, are not installed."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise ConfigError(
            f"{asked_by} needs packages that are not installed: {', '.join(missing)}.",
            hint=f"Install them, in mbc's folder: {installing(extra)}",
        )


class Throttle:
    """Limits repeated work to `max_share` of the time, with starts at least `min_interval` seconds apart."""

    def __init__(self, max_share: float, min_interval: float) -> None:
        self._max_share, self._min_interval, self._next = max_share, min_interval, -float("inf")

    def is_due(self, now: float) -> bool:
        return now >= self._next

    def seconds_left(self, now: float) -> float:
        return max(0.0, self._next - now)

    def record(self, began: float, ended: float) -> None:
        self._next = began + max(self._min_interval, (ended - began) / self._max_share)
