"""Evaluations by name: where they lie, and how to go on with one."""

import shlex
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from mbc_cli.paths import evaluations_folder, name_in, placed
from mbc_engine.errors import DataError

if TYPE_CHECKING:
    from mbc_engine.evaluation.folder import ExperimentFolder


def find_evaluation(name: str) -> Path:
    """An evaluation's folder: a bare name lies in the user's data folder, anything with a slash is a path."""
    return placed(name, evaluations_folder())


def new_evaluation(stem: str) -> Path:
    """The first folder of today and this stem that is not there yet."""
    folder, dated = evaluations_folder(), f"{datetime.now().astimezone().date()}-{stem}"
    names = (dated if number == 1 else f"{dated}-{number}" for number in count(1))
    return next(folder / name for name in names if not (folder / name).exists()).absolute()


def existing_evaluation(name: str) -> "ExperimentFolder":
    """An evaluation that was begun: by its name, or by the path of its folder, which may be a bare one here.

    Raises:
        DataError: there is none.
    """
    from mbc_engine.evaluation.folder import ExperimentFolder

    with suppress(OSError, ValueError):  # no folder could have this name
        for folder in (ExperimentFolder(find_evaluation(name)), ExperimentFolder(Path(name).absolute())):
            if folder.is_there:
                return folder
    raise DataError(f"There is no evaluation {name!r}.", hint=_known())


def name_of(folder: Path) -> str:
    """What --run takes to find an evaluation again, from any working folder."""
    return name_in(folder, evaluations_folder())


def way_on(folder: Path) -> str:
    """How to go on with an evaluation that ended early."""
    return f"Go on with: mbc eval --run {shlex.quote(name_of(folder))}"


def evaluation_names() -> list[str]:
    """The evaluations in the user's data folder, the latest first."""
    try:
        found = [path for path in evaluations_folder().iterdir() if (path / "experiment.toml").is_file()]
    except OSError:
        return []
    return [path.name for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)]


def _known() -> str:
    names = evaluation_names()
    return f"The latest: {', '.join(names[:5])}." if names else "`mbc eval --data SPEC` makes one."
