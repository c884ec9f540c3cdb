"""Where things lie unless options or the environment say otherwise."""

import hashlib
import os
from pathlib import Path

import platformdirs

from mbc_cli.config_file import configured
from mbc_engine.model_folder import own_runs

DEFAULT_MODEL = "mini"


def default_bank() -> Path:
    """The user's own bank."""
    return platformdirs.user_data_path("mbc") / "memory.mbc"


def runs_folder() -> Path:
    """Where a bare `--run NAME` lies without --runs."""
    return Path(os.environ.get("MBC_RUNS") or configured("runs") or own_runs())


def evaluations_folder() -> Path:
    """Where evaluations lie that are given by a bare name."""
    return platformdirs.user_data_path("mbc") / "evaluations"


def question_history() -> Path:
    """Where the questions of conversations are kept."""
    return platformdirs.user_data_path("mbc") / "questions.history"


def states_cache() -> Path:
    """Where states of frozen encoders are kept between trainings; may be deleted at any time."""
    return platformdirs.user_cache_path("mbc") / "states"


def activity_log(bank: Path) -> Path:
    """Where the ingests into a bank keep their events, for others to watch."""
    real = os.path.realpath(bank)
    name = f"{Path(real).stem}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:16]}"
    return platformdirs.user_state_path("mbc") / "activity" / f"{name}.jsonl"
