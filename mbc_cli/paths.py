"""Where the user's files are unless options say otherwise, by which names, and the questions asked so far."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import platformdirs

from mbc_cli.config import config_path, read_config
from mbc_engine.atomic_write import PRIVATE_FILE, atomic_write, make_private_folder
from mbc_engine.errors import ConfigError
from mbc_engine.names import own_runs

DEFAULT_MODEL = "mini"
_MAX_QUESTIONS: Final = 1000


def default_bank() -> Path:
    return platformdirs.user_data_path("mbc") / "memory.mbc"


def runs_folder() -> Path:
    """Where a bare `--run NAME` is looked up without --runs: MBC_RUNS, the config file's `runs`, or the default."""
    chosen: Any = os.environ.get("MBC_RUNS")
    with suppress(ConfigError):
        chosen = chosen or read_config(config_path()).get("runs")
    # "~nobody" stays as it is.
    return Path(os.path.expanduser(chosen)) if chosen and isinstance(chosen, str) else own_runs()  # noqa: PTH111


def evaluations_folder() -> Path:
    return platformdirs.user_data_path("mbc") / "evaluations"


def evaluation_names() -> list[str]:
    dated = []
    for path in evaluations_folder().glob("*/experiment.toml"):
        with suppress(OSError):  # deleted meanwhile
            dated += [(path.parent.stat().st_mtime, path.parent.name)] * path.is_file()
    return [name for _, name in sorted(dated, reverse=True)]


def question_history(bank: Path) -> Path:
    """The file of questions asked of a bank so far, one per line, readable only by its owner."""
    return platformdirs.user_data_path("mbc") / "questions" / f"{_name_of(bank)}.history"


def read_questions(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    except OSError:
        return []
    return [line for line in lines if line and "\0" not in line][-_MAX_QUESTIONS:]


def add_question(path: Path, line: str) -> None:
    """Save a question at once, as a closing terminal leaves no time later. Write errors are ignored."""
    lines = [*read_questions(path), line.replace("\n", " ")][-_MAX_QUESTIONS:]
    with suppress(OSError):
        make_private_folder(path.parent)
        path.touch(PRIVATE_FILE)
        path.chmod(PRIVATE_FILE)  # it may have been made by another program
        with atomic_write(path) as file:
            file.write("".join(f"{question}\n" for question in lines if question).encode(errors="surrogateescape"))


def dashboard_settings() -> Path:
    return platformdirs.user_state_path("mbc") / "dashboard.json"


def states_cache() -> Path:
    """Where states of frozen encoders are cached between training runs; may be deleted at any time."""
    return platformdirs.user_cache_path("mbc") / "states"


def resolve_name(name: str, folder: Path) -> Path:
    """Resolve a name: a bare one is in `folder`, anything with a slash is a path."""
    is_bare = len(Path(name).parts) == 1 and Path(name).name == name
    return (folder / name if is_bare else Path(name)).absolute()


def short_name(path: Path, folder: Path) -> str:
    """A name that `resolve_name` resolves from any working folder: bare if the path is in `folder`, else the path."""
    return path.name if path.parent == folder.absolute() else str(path)


def activity_log(bank: Path) -> Path:
    return platformdirs.user_state_path("mbc") / "activity" / f"{_name_of(bank)}.jsonl"


def _name_of(bank: Path) -> str:
    real = os.path.realpath(bank)
    return f"{Path(real).stem}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:16]}"
