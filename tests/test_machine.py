"""What this process may use: cores and threads, by its limits and by what else runs, and products of integers."""

import os
from pathlib import Path

import numpy as np
import pytest

from mbc_engine.errors import ConfigError
from mbc_engine.machine import _has_integer_products, has_integer_products, idle_threads, usable_cores


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


@pytest.mark.parametrize(
    ("flags", "found", "has"),
    [
        ("sse2 avx2 avx_vnni fma", {}, True),
        ("sse2 avx512_vnni", {}, True),
        ("sse2 avx2", {"SIMD Extensions": {"baseline": ["X86_V2"], "found": ["X86_V3"]}}, False),
        (None, {"SIMD Extensions": {"found": ["X86_V3", "X86_V4", "AVX512_ICL"]}}, True),  # not on Linux
        (None, {"SIMD Extensions": {"baseline": ["X86_V2"]}}, False),
    ],
)
def test_products_of_integers(monkeypatch, flags, found, has):
    def read_text(_):
        if flags is None:
            raise FileNotFoundError
        return f"processor\t: 0\nflags\t\t: {flags}\nbugs\t: none\n"

    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setattr(np, "show_config", lambda mode: found)
    for precision, expected in {"auto": has, "float32": False}.items():
        _has_integer_products.cache_clear()
        monkeypatch.setenv("MBC_PRECISION", precision)
        assert has_integer_products() == expected
    monkeypatch.setenv("MBC_PRECISION", "fp32")
    with pytest.raises(ConfigError, match="fp32"):
        has_integer_products()
    _has_integer_products.cache_clear()
