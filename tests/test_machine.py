"""How many cores and threads this process uses, by its limits and by what else runs."""

import os
from pathlib import Path

import pytest

from mbc_engine.machine import idle_threads, usable_cores


@pytest.mark.parametrize(
    ("limit", "running", "variable", "cores", "threads"),
    [
        ("max 100000", "1/90", "", 8, 8),
        ("max 100000", "4/90", "", 8, 5),
        ("max 100000", "20/90", "", 8, 1),
        ("250000 100000", "4/90", "", 2, 2),
        ("50000 100000", "1/90", "", 1, 1),
        ("max 100000", "4/90", "3", 8, 3),
    ],
)
def test_threads_follow_limits_and_load(monkeypatch, limit, running, variable, cores, threads):
    files = {
        "/proc/self/cgroup": "0::/user\n",
        "/sys/fs/cgroup/user/cpu.max": limit,
        "/proc/loadavg": f"0.5 0.5 0.5 {running} 7",
    }
    monkeypatch.setattr(Path, "read_text", lambda path: files[str(path)])
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert (usable_cores(), idle_threads()) == (cores, threads)
