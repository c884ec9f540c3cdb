"""Whether this process is one of several launched to train together, as their environment tells; no torch."""

import os


def is_launched() -> bool:
    """Whether a launcher such as `accelerate launch` or `torchrun` started this process, alone or with others."""
    return "LOCAL_RANK" in os.environ


def is_main_process() -> bool:
    """Whether this process is the only one, or the first of those launched together."""
    return os.environ.get("RANK", "0") == "0"
