"""What an experiment's folder holds, read for its report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from mbc_engine.errors import DataError
from mbc_engine.evaluation.folder import CellFolder, ExperimentFolder
from mbc_engine.evaluation.report.building import CellResults, MethodResults
from mbc_engine.evaluation.report.report import Missing, Origin
from mbc_engine.events import StageFinished, StageSkipped
from mbc_engine.work.event_log import EventFollower

# Of a grid that has just begun there are hundreds to do.
_MOST_NAMED: Final = 4


def origin_of(folder: ExperimentFolder) -> Origin:
    """Where an experiment's figures come from.

    Raises:
        DataError: its settings or environments cannot be read.
    """
    settings, environments = folder.settings(), folder.environments()
    first = environments[0] if environments else None
    return Origin(
        str(settings.get("title") or folder.path.name),
        date=first.date if first else "",
        command=first.command if first else "",
        seed=_seed(settings, folder),
        environments=tuple(asdict(environment) for environment in environments),
        settings=settings,
    )


def results_of(folder: ExperimentFolder) -> Iterator[CellResults]:
    """The results of an experiment's cells, bases and datasets in the order of its settings.

    Raises:
        DataError: a result is damaged.
    """
    settings = folder.settings()
    there = set(folder.cells())
    for base in _named(settings, "bases", folder):
        for dataset in _named(settings, "datasets", folder):
            name = f"{base['name']}-{dataset['name']}"
            if name in there:
                yield _cell(folder.cell(name), base, dataset)


def _named(settings: Mapping[str, Any], kind: str, folder: ExperimentFolder) -> list[Mapping[str, Any]]:
    """The bases, or datasets, of settings that another version may have written, or somebody by hand."""
    each = settings.get(kind, [])
    if not isinstance(each, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in each
    ):
        raise _unreadable(folder, f"{kind} without names")
    return each


def _seed(settings: Mapping[str, Any], folder: ExperimentFolder) -> int:
    seed = settings.get("seed", 0)
    if not isinstance(seed, int):
        raise _unreadable(folder, f"a seed of {seed!r}")
    return seed


def _unreadable(folder: ExperimentFolder, found: str) -> DataError:
    return DataError(
        f"The settings of {folder.path} cannot be read: {found}.", hint="Mend experiment.toml, or evaluate anew."
    )


def _cell(cell: CellFolder, base: Mapping[str, Any], dataset: Mapping[str, Any]) -> CellResults:
    methods = {}
    for name in cell.methods():
        method = cell.method(name)
        rate = method.rate.read()
        methods[name] = MethodResults(
            method.online.read(),
            method.predictions(),
            method.retention.read(),
            method.scaling.read(),
            None if rate is None else rate.best,
        )
    return CellResults(
        cell.name,
        base["name"],
        dataset["name"],
        str(base.get("title") or base["name"]),
        str(dataset.get("title") or dataset["name"]),
        methods,
        cell.code_usage.read(),
    )


def missing_of(folder: ExperimentFolder, planned: Sequence[tuple[str, str]] = ()) -> Sequence[Missing]:
    """The stages without a result, and why: those of a cell with one cause together.

    Args:
        folder: the experiment's, whose log tells what was last passed over.
        planned: cells and stages that have no result; those not passed over are still to be done.
    """
    missing: dict[tuple[str, str], StageSkipped] = {}
    for _, event in EventFollower(folder.events).poll().events:
        if isinstance(event, StageSkipped):
            missing[event.cell, event.stage] = event
        elif isinstance(event, StageFinished):
            missing.pop((event.cell, event.stage), None)
    found: dict[tuple[str, str], list[str]] = {}
    for skipped in missing.values():
        cause = skipped
        while cause.follows is not None and (cause.cell, cause.follows) in missing:
            cause = missing[cause.cell, cause.follows]
        found.setdefault((cause.cell, cause.reason), []).append(skipped.stage)
    waiting: dict[str, list[str]] = {}
    for cell, stage in planned:
        if (cell, stage) not in missing:
            waiting.setdefault(cell, []).append(stage)
    return [
        *(Missing(cell, ", ".join(stages), reason) for (cell, reason), stages in found.items()),
        *(Missing(cell, _few_or_count(stages), "not done yet") for cell, stages in waiting.items()),
    ]


def _few_or_count(stages: Sequence[str]) -> str:
    return ", ".join(stages) if len(stages) <= _MOST_NAMED else f"{len(stages)} stages"
