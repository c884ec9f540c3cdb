"""How a piece of work is measured: its time, its memory, and in a new process."""

import ctypes
import json
import os
import resource
import runpy
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")


def newswire() -> dict[str, Any]:
    """The functions of the recipe for made-up news."""
    return runpy.run_path(str(Path(__file__).parents[1] / "recipes" / "newswire" / "generate.py"))


def seconds_of(work: Callable[[], Result]) -> tuple[Result, float]:
    """A result and the seconds it took."""
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


def growth_of(work: Callable[[], Result]) -> tuple[Result, int, float]:
    """A result, the peak memory growth of the process in bytes, and the seconds it took."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)  # memory freed by earlier work would be reused without being counted
    before = _resident("VmRSS")
    forget_peak = Path("/proc/self/clear_refs")
    if forget_peak.exists():
        forget_peak.write_text("5")
    result, seconds = seconds_of(work)
    return result, max(0, _resident("VmHWM") - before), seconds


def _resident(field: str) -> int:
    """Resident memory of this process in bytes, current (VmRSS) or peak (VmHWM)."""
    status = Path("/proc/self/status")
    if not status.exists():  # not Linux: only the peak is known, on macOS in bytes
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most
    (line,) = (line for line in status.read_text().splitlines() if line.startswith(f"{field}:"))
    return 1024 * int(line.split()[1])


def in_a_new_process(module: str, function: str, *arguments: object, one_thread: bool = True) -> Any:
    """Call a function of a module in this folder in a new process; returns its result, passed as JSON.

    Raises:
        subprocess.CalledProcessError: it failed; the reason is on stderr.
    """
    code = (
        f"import json, sys; sys.path.insert(0, {str(Path(__file__).parent.resolve())!r}); import {module}; "
        f"print(json.dumps({module}.{function}(*{arguments!r})))"
    )
    limited = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    quiet = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    environment = os.environ | quiet | (limited if one_thread else {})
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])
