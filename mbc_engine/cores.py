"""How many cores this process may use, which containers and schedulers make fewer than the machine has."""

import os


def usable_cores() -> int:
    """At least 1."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
