"""Names that users give (models, runs, presets, read modes), and where they are found."""

import os
import re
import shlex
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Final, NamedTuple

import platformdirs

from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.runs import MODEL

# The ways to read a bank, and what each reads; N is the number that may follow the name.
READ_MODES: Final = {
    "flat": "all documents at once, as in the paper",
    "hierarchical": "groups of N documents, then the groups",
    "routed": "the N documents that fit best",
}
MINIMUM_NUMBERS: Final = {"hierarchical": 2, "routed": 1}
# Each number has only one spelling, so that read modes are equal exactly if their texts are.
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_MACHINE: Final = re.compile(r"[\w.-]{2,}:")


def is_on_cluster(bank: PurePath) -> bool:
    """Whether a bank is named as MACHINE:/PATH, as files are to scp: it is read by an actor of a Ray cluster."""
    return len(bank.parts) > 1 and _MACHINE.fullmatch(bank.parts[0]) is not None


class ReadMode(NamedTuple):
    """A way to read a bank, with its number, or None for the model's own."""

    name: str
    number: int | None


def parse_read_mode(text: str) -> ReadMode:
    """Parse NAME or NAME:NUMBER. Raises ConfigError if there is no such read mode, or it does not take the number."""
    name, colon, number = text.partition(":")
    if name not in READ_MODES or (colon and not _NUMBER.fullmatch(number)):
        raise ConfigError(
            f"There is no read mode {text!r}.",
            hint=f"Read modes: {', '.join(READ_MODES)}; a number may follow, as in routed:2.",
        )
    if not colon:
        return ReadMode(name, None)
    minimum = MINIMUM_NUMBERS.get(name)
    if minimum is None:
        raise ConfigError(f"The {name} read takes no number.", hint="Leave out the number.")
    if int(number) < minimum:
        raise ConfigError(
            f"The number of a {name} read must be at least {minimum}.", hint=f"For example {name}:{minimum}."
        )
    return ReadMode(name, int(number))


def preset_names() -> list[str]:
    """Names of the built-in presets, sorted."""
    return _names_in("presets")


def suite_names() -> list[str]:
    """Names of the built-in suites of `mbc eval`, sorted."""
    return _names_in("evaluation/suites")


def _names_in(folder: str) -> list[str]:
    names = (entry.name for entry in (files("mbc_engine") / folder).iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


CONFIG: Final = "config.toml"
WEIGHTS: Final = "model.safetensors"
ADAPTER: Final = "adapter"


def own_models() -> Path:
    """The folder of the user's own models, as NAME, and of pulled ones, as OWNER/NAME."""
    return platformdirs.user_data_path("mbc") / "models"


def own_runs() -> Path:
    """The default folder of the user's training runs."""
    return platformdirs.user_data_path("mbc") / "runs"


def packaged_model(name: str) -> Path:
    """The folder of a model of this package, which need not exist."""
    return Path(str(files("mbc_engine") / "models" / name))


def is_model(folder: Path) -> bool:
    """Whether a folder has a model's files."""
    try:
        return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()
    except OSError:  # no folder could have this name
        return False


def from_anywhere(name: str, is_there: Callable[[str], bool] = os.path.exists) -> str:
    """The name, or the absolute path of what it names here."""
    return str(Path(name).absolute()) if is_there(name) else name


def find_model(name: str) -> Path:
    """A model's folder, from a path, a run's folder, a model's name or a run's name. Raises ModelError if not found."""
    for folder in (
        Path(name),
        Path(name) / MODEL,
        own_models() / name,
        packaged_model(name),
        own_runs() / name / MODEL,
    ):
        if is_model(folder):
            return folder
    from mbc_engine.runs.training_runs import runs_in

    if own_runs() / name in runs_in(own_runs()):
        run = shlex.quote(name)
        hint = f"`mbc runs show {run}` shows its progress; if it was interrupted, `mbc runs resume {run}` continues it."
        raise ModelError(f"The run {name} has no model yet.", hint=hint)
    raise ModelError(
        f"There is no model {name!r}.",
        hint="Give `mini`, the name of a training run, or a folder; `mbc models pull` downloads shared models.",
    )
