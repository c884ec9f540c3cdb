"""Where things lie unless options or the environment say otherwise."""

import hashlib
import os
from pathlib import Path

import platformdirs

from mbc_cli.config import configured
from mbc_engine.model_folder import own_runs

DEFAULT_MODEL = "mini"


def default_bank() -> Path:
    return platformdirs.user_data_path("mbc") / "memory.mbc"


def runs_folder() -> Path:
    """Where a bare `--run NAME` lies without --runs."""
    return Path(os.environ.get("MBC_RUNS") or configured("runs") or own_runs())


def evaluations_folder() -> Path:
    return platformdirs.user_data_path("mbc") / "evaluations"


def evaluation_names() -> list[str]:
    """The evaluations in the user's data folder, the latest first."""
    try:
        found = [path for path in evaluations_folder().iterdir() if (path / "experiment.toml").is_file()]
    except OSError:
        return []
    return [path.name for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)]


def question_history() -> Path:
    return platformdirs.user_data_path("mbc") / "questions.history"


def states_cache() -> Path:
    """Where states of frozen encoders are kept between trainings; may be deleted at any time."""
    return platformdirs.user_cache_path("mbc") / "states"


def placed(name: str, folder: Path) -> Path:
    """What is meant by a name: a bare one lies in `folder`, anything with a slash is a path."""
    is_bare = len(Path(name).parts) == 1 and Path(name).name == name
    return (folder / name if is_bare else Path(name)).absolute()


def name_in(path: Path, folder: Path) -> str:
    """What finds a path again from any working folder: its name where it lies in `folder`."""
    return path.name if path.parent == folder.absolute() else str(path)


def activity_log(bank: Path) -> Path:
    """Where the ingests into a bank keep their events, for others to watch."""
    real = os.path.realpath(bank)
    name = f"{Path(real).stem}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:16]}"
    return platformdirs.user_state_path("mbc") / "activity" / f"{name}.jsonl"
