"""Where things lie unless options or the environment say otherwise."""

import os
from pathlib import Path

import platformdirs

DEFAULT_MODEL = "mini"


def default_bank() -> Path:
    """The user's own bank."""
    return platformdirs.user_data_path("mbc") / "memory.mbc"


def default_runs() -> Path:
    """The folder of training runs."""
    return platformdirs.user_data_path("mbc") / "runs"


def runs_folder() -> Path:
    """Where a bare `--run NAME` lies without --runs."""
    return Path(os.environ.get("MBC_RUNS") or default_runs())


def question_history() -> Path:
    """Where the questions of conversations are kept."""
    return platformdirs.user_data_path("mbc") / "questions.history"


def states_cache() -> Path:
    """Where states of frozen encoders are kept between trainings; may be deleted at any time."""
    return platformdirs.user_cache_path("mbc") / "states"
