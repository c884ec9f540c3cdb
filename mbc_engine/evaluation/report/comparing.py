"""Two experiments side by side: what differs between them, on the questions that both asked."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from mbc_engine.evaluation.folder import ExperimentFolder
from mbc_engine.evaluation.report.building import CellResults, origin_of, results_of
from mbc_engine.evaluation.report.report import Paired, pair_all
from mbc_engine.evaluation.report.tables import NOTHING, Entry, Table, difference_entries, flat, percent
from mbc_engine.evaluation.results import Prediction

# What no two experiments share.
_ALWAYS_ANOTHER: Final = ("date", "command")


@dataclass(frozen=True)
class Compared:
    """A method of a cell in both experiments. The test's first is the second experiment, so that a gain is a plus; it
    is None where they share no question."""

    cell: str
    cell_title: str
    method: str
    title: str
    test: Paired | None


@dataclass(frozen=True)
class Change:
    """A setting, or a fact of the environment, that is another in each experiment; None where it has none."""

    name: str
    first: str | None
    second: str | None


@dataclass(frozen=True)
class ExperimentComparison:
    """Two experiments. Differences are the second less the first.

    Attributes:
        first, second: what the experiments are called here, by their folders.
        compared: methods that both have answers of.
        only_first, only_second: cell and method of those that one alone has.
    """

    first: str
    second: str
    compared: tuple[Compared, ...]
    only_first: tuple[tuple[str, str], ...]
    only_second: tuple[tuple[str, str], ...]
    settings: tuple[Change, ...]
    environment: tuple[Change, ...]

    def to_json(self) -> dict[str, Any]:
        """The comparison as a JSON object."""
        return asdict(self)

    def tables(self) -> list[Table]:
        """For each cell the methods that both have, with the second's gain on the first."""
        cells = dict.fromkeys((compared.cell, compared.cell_title) for compared in self.compared)
        columns = ("method", "questions", "EM before", "EM", "EM difference", "p", "F1 difference", "p")
        return [
            Table(title, columns, tuple(_line(compared) for compared in self.compared if compared.cell == cell))
            for cell, title in cells
        ]


def compare_experiments(
    first: ExperimentFolder, second: ExperimentFolder, *, titles: Mapping[str, str]
) -> ExperimentComparison:
    """Hold the second experiment against the first, cell by cell and method by method.

    Args:
        first, second: their folders.
        titles: methods by name, in the order they are to stand.

    Raises:
        DataError: a folder holds no experiment, or something in it is damaged.
    """
    ones, others = ({cell.name: cell for cell in results_of(folder)} for folder in (first, second))
    before, now = _names(first, second)
    compared, only_first, only_second = [], [], []
    for name in {**ones, **others}:
        old, new = _asked(ones.get(name)), _asked(others.get(name))
        only_first += [(name, method) for method in old if method not in new]
        only_second += [(name, method) for method in new if method not in old]
        both = [method for method in {**dict.fromkeys(titles), **old} if method in old and method in new]
        tests = pair_all([((now, new[method]), (before, old[method])) for method in both])
        compared += [
            Compared(name, f"{ones[name].base} on {ones[name].dataset}", method, titles.get(method, method), test)
            for method, test in zip(both, tests, strict=True)
        ]
    origins = origin_of(first), origin_of(second)
    return ExperimentComparison(
        before,
        now,
        tuple(compared),
        tuple(only_first),
        tuple(only_second),
        settings=_changes(*(origin.settings for origin in origins)),
        environment=_changes(*(origin.environments[-1] if origin.environments else {} for origin in origins)),
    )


def _names(first: ExperimentFolder, second: ExperimentFolder) -> tuple[str, str]:
    """The folders' names, or their paths where those are the same."""
    if first.path.name != second.path.name:
        return first.path.name, second.path.name
    return str(first.path), str(second.path)


def _asked(cell: CellResults | None) -> dict[str, Sequence[Prediction]]:
    if cell is None:
        return {}
    return {name: results.predictions for name, results in cell.methods.items() if results.predictions}


def _changes(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[Change, ...]:
    before, now = dict(flat(first)), dict(flat(second))
    return tuple(
        Change(name, before.get(name), now.get(name))
        for name in {**before, **now}
        if name not in _ALWAYS_ANOTHER and before.get(name) != now.get(name)
    )


def _line(compared: Compared) -> tuple[Entry, ...]:
    test = compared.test
    if test is None:
        return (Entry(compared.title), Entry("0", order=0), *(Entry(NOTHING),) * 6)
    return (
        Entry(compared.title),
        Entry(f"{test.questions:,}", order=test.questions),
        Entry(percent(test.exact_match.second), order=test.exact_match.second),
        Entry(percent(test.exact_match.first), order=test.exact_match.first),
        *difference_entries(test),
    )
