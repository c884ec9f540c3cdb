"""Two experiments side by side: what differs between them, on the questions that both asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mbc_engine.evaluation.results import ExperimentFolder, Prediction, pair_all
from mbc_engine.experiments.registry import METHODS, title_of
from mbc_engine.experiments.report.formatting import NOTHING, flat, percent
from mbc_engine.experiments.report.report import origin_of, read_results
from mbc_engine.experiments.report.tables import Entry, Table, difference_entries


@dataclass(frozen=True)
class ExperimentComparison:
    """Two experiments, called by their folders. Differences are the second less the first.

    `compared` has cell and method, with their titles, that both have answers of, and the test between them, whose first
    is the second experiment, so that a gain is a plus; None where they share no question. `settings` and `environment`
    have what differs there: name, first and second value.
    """

    first: str
    second: str
    compared: tuple[dict[str, Any], ...]
    only_first: tuple[tuple[str, str], ...]
    only_second: tuple[tuple[str, str], ...]
    settings: tuple[dict[str, str | None], ...]
    environment: tuple[dict[str, str | None], ...]

    def tables(self) -> list[Table]:
        columns = ("method", "questions", "EM before", "EM", "EM difference", "p", "F1 difference", "p")
        return [
            Table(title, columns, tuple(_line(own) for own in self.compared if own["cell"] == cell))
            for cell, title in dict.fromkeys((own["cell"], own["cell_title"]) for own in self.compared)
        ]


def compare_experiments(first: ExperimentFolder, second: ExperimentFolder) -> ExperimentComparison:
    """Compare the second experiment with the first, cell by cell and method by method."""
    titles, sides = dict[str, str](), list[dict[str, dict[str, Sequence[Prediction]]]]()
    for folder in (first, second):
        sides.append({})
        for cell, results in read_results(folder):
            name = cell.name
            titles.setdefault(name, f"{cell.base.title} on {cell.dataset.title}")
            sides[-1][name] = {method: own.predictions for method, own in results.items() if own.predictions}
    is_one_name = first.path.name == second.path.name
    before, now = (str(folder.path) if is_one_name else folder.path.name for folder in (first, second))
    compared, only_first, only_second = [], list[tuple[str, str]](), list[tuple[str, str]]()
    for name in titles:
        ones, others = (side.get(name, {}) for side in sides)
        only_first += [(name, method) for method in ones if method not in others]
        only_second += [(name, method) for method in others if method not in ones]
        both = [method for method in {**dict.fromkeys(METHODS), **ones} if method in ones and method in others]
        tests = pair_all([((now, others[method]), (before, ones[method])) for method in both])
        compared += [
            {"cell": name, "cell_title": titles[name], "method": method, "title": title_of(method), "test": test}
            for method, test in zip(both, tests, strict=True)
        ]
    origins = origin_of(first), origin_of(second)
    environments = [origin["environments"][-1] if origin["environments"] else {} for origin in origins]
    return ExperimentComparison(
        before,
        now,
        tuple(compared),
        tuple(only_first),
        tuple(only_second),
        settings=_changes(*(origin["settings"] for origin in origins)),
        environment=_changes(*environments),
    )


def _changes(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[dict[str, str | None], ...]:
    before, now = dict(flat(first)), dict(flat(second))
    return tuple(
        {"name": name, "first": before.get(name), "second": now.get(name)}
        for name in {**before, **now}
        if name not in ("date", "command") and before.get(name) != now.get(name)
    )


def _line(compared: Mapping[str, Any]) -> tuple[Entry, ...]:
    test, title = compared["test"], Entry(compared["title"])
    if test is None:
        return (title, Entry("0", order=0), *(Entry(NOTHING),) * 6)
    return (
        title,
        Entry(f"{test.questions:,}", order=test.questions),
        Entry(percent(test.exact_match.second), order=test.exact_match.second),
        Entry(percent(test.exact_match.first), order=test.exact_match.first),
        *difference_entries(test),
    )
