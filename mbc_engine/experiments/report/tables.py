"""The tables of a report as plain text, for a page, Markdown and a terminal; the whole report as Markdown; and two
experiments side by side."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mbc_engine.evaluation.results import ExperimentFolder, Measurement, PairedTest, Prediction, pair_all
from mbc_engine.evaluation.statistics import Difference, Interval
from mbc_engine.experiments.registry import METHODS, title_of
from mbc_engine.experiments.report.formatting import (
    NOTHING,
    difference,
    flat,
    in_markdown,
    interval,
    moment,
    p_value,
    percent,
    seconds,
    size,
)
from mbc_engine.experiments.report.report import CellReport, MethodReport, Report, origin_of, read_results

OUTCOMES: Final = {"worse": "✗✗", "no": "✗", "unchecked": "?", "partly": "◐", "yes": "✓"}
NOTHING_TO_BEAT: Final = "No method here has a control to beat, so nothing shows whether a memory helped."
LENIENT: Final = (
    "* The released code's match: the answer is cut to the gold answer's length before they are compared. "
    "It is not the paper's EM and stands here for comparison only."
)


@dataclass(frozen=True)
class Entry:
    """A figure or name, a smaller note beside it, and what it is sorted by; None for text."""

    text: str
    note: str = ""
    order: float | None = None


@dataclass(frozen=True)
class Table:
    """A table; `lines` have as many entries as `columns`, the first names the line.

    `emphasis` are lines in bold, `muted` controls'; a detail is for those who ask for it; the note stands below.
    """

    title: str
    columns: tuple[str, ...]
    lines: tuple[tuple[Entry, ...], ...]
    emphasis: tuple[int, ...] = ()
    muted: tuple[int, ...] = ()
    is_detail: bool = False
    note: str = ""


def tables_of(cell: CellReport) -> list[Table]:
    """The tables that the cell has results for."""
    tables = (scores_table(cell), costs_table(cell), _tests(cell), _retention(cell), _scaling(cell), _usage(cell))
    return [table for table in tables if table is not None]


def scores_table(cell: CellReport) -> Table | None:
    """EM, F1 and sources of each method, beside the paper's figures; None where there are none."""
    rows = [row for row in cell.rows if row.online or row.published]
    has_published = any(row.published for row in rows)
    columns = (
        *("method", "EM", "F1"),
        *(("paper's EM", "paper's F1") if has_published else ()),
        *("lenient match*", "source first", "in five", "questions"),
    )
    lines = []
    for row in rows:
        scores = row.online.scores if row.online else None
        ours = (_mean(scores.exact_match), _mean(scores.f1)) if scores else (Entry(NOTHING),) * 2
        theirs = (_published(row, "exact_match"), _published(row, "f1")) if has_published else ()
        rest: tuple[Entry, ...] = (Entry(NOTHING),) * 4
        if scores:
            shares = (scores.lenient_match, scores.first_source, scores.in_five)
            rest = (*map(_percent, shares), _count(scores.questions))
        lines.append((Entry(row.title), *ours, *theirs, *rest))
    return _table("Figures, in percent, with 95% intervals", columns, lines, rows, cell, LENIENT)


def _published(row: MethodReport, figure: str) -> Entry:
    if row.published is None:
        return Entry(NOTHING)
    theirs = row.published[figure]
    gap = difference(getattr(row.online.scores, figure).value - theirs) if row.online else ""
    return Entry(f"{theirs:.2f}", f"ours {gap}" if gap else "", theirs)


def costs_table(cell: CellReport) -> Table | None:
    """Seconds and bytes of each method; None where there are none."""
    rows = [row for row in cell.rows if row.online]
    has_rates = any(row.rate is not None for row in rows)
    columns = ("method", "documents", "a document", "an answer", "bytes, paper's count", "bytes on disk")
    lines = []
    for row in rows:
        assert row.online is not None
        documents = _count(row.online.cost.documents, f"{row.online.banks} memories" if row.online.banks > 1 else "")
        rate = Entry(NOTHING) if row.rate is None else Entry(f"{row.rate:g}", order=row.rate)
        lines.append((Entry(row.title), documents, *_costs(row.online), *((rate,) if has_rates else ())))
    return _table("Time and memory", columns + (("learning rate",) if has_rates else ()), lines, rows, cell)


def _costs(found: Measurement) -> tuple[Entry, ...]:
    cost = found.cost
    times = (cost.seconds_per_document, cost.seconds_per_answer)
    return (*(Entry(seconds(value), order=value) for value in times), _size(cost.paper_bytes), _size(cost.on_disk))


def _tests(cell: CellReport) -> Table | None:
    columns = ("first", "second", "questions", "EM difference", "p", "F1 difference", "p")
    titles = {row.method: Entry(row.title) for row in cell.rows}
    lines = [
        (titles[test.first], titles[test.second], _count(test.questions), *_difference_entries(test))
        for test in (*cell.against_leader, *cell.against_controls)
    ]
    return _detail("Paired tests: against the leader, and against controls", columns, lines)


def _difference_entries(test: PairedTest) -> tuple[Entry, ...]:
    """Differences in EM and F1, each with its p-value."""
    return (*_difference(test.exact_match), *_difference(test.f1))


def _retention(cell: CellReport) -> Table | None:
    has_published = any(row.published_after(step.cost.documents) for row in cell.rows for step in row.retention)
    columns = (
        *("method", "documents", "EM", "F1", "F1 kept"),
        *(("paper's F1 kept",) if has_published else ()),
        "bytes, paper's count",
        *(("paper's bytes",) if has_published else ()),
        "bytes on disk",
    )
    lines = []
    for row in cell.rows:
        for step in row.retention:
            theirs, cost = row.published_after(step.cost.documents) or {}, step.cost
            kept, stored = [_percent(theirs.get("retention"))], [_size(theirs.get("bank_bytes"))]
            if not has_published:
                kept, stored = [], []
            shares = map(_percent, (step.scores.exact_match.value, step.scores.f1.value, step.retained))
            sizes = (_size(cost.paper_bytes), *stored, _size(cost.on_disk))
            lines.append((Entry(row.title), _count(cost.documents), *shares, *kept, *sizes))
    return _detail("Retention of the first documents, in percent", columns, lines)


def _scaling(cell: CellReport) -> Table | None:
    columns = ("method", "documents", "EM", "F1", "a document", "an answer", "bytes, paper's count", "bytes on disk")
    lines = [
        (
            Entry(row.title),
            _count(step.cost.documents),
            *map(_mean, (step.scores.exact_match, step.scores.f1)),
            *_costs(step),
        )
        for row in cell.rows
        for step in row.scaling
    ]
    return _detail("Scaling with the number of documents", columns, lines)


def _usage(cell: CellReport) -> Table | None:
    usage, published = cell.code_usage, cell.published_usage
    if usage is None:
        return None
    theirs: tuple[str, ...] = ("", "")
    if published:
        low, *high = (f"{value:g}" for value in published["with_reset"])
        theirs = f"{low} to {high[0]}" if high else f"from {low}", f"falls to {published['without_reset']:g}"
    lines = [
        (
            Entry(name),
            _count(curve[-1][0]),
            Entry(f"{curve[-1][1]:.1f}", f"of {usage.codes:,}", curve[-1][1]),
            *((Entry(text),) if text else ()),
        )
        for name, curve, text in zip(
            ("with reset", "without reset"), (usage.with_reset, usage.without_reset), theirs, strict=True
        )
        if curve
    ]
    columns = ("training", "step", "perplexity", *(("paper's",) if published else ()))
    return _detail("Code usage at the end of training", columns, lines)


def _table(
    title: str,
    columns: tuple[str, ...],
    lines: Sequence[tuple[Entry, ...]],
    rows: Sequence[MethodReport],
    cell: CellReport,
    note: str = "",
) -> Table | None:
    if not lines:
        return None
    emphasis = tuple(number for number, row in enumerate(rows) if row.method == cell.leader)
    muted = tuple(number for number, row in enumerate(rows) if row.is_control)
    return Table(title, columns, tuple(lines), emphasis, muted, note=note)


def _detail(title: str, columns: tuple[str, ...], lines: Sequence[tuple[Entry, ...]]) -> Table | None:
    return Table(title, columns, tuple(lines), is_detail=True) if lines else None


def _mean(found: Interval) -> Entry:
    return Entry(percent(found.value), interval(found), found.value)


def _difference(found: Difference) -> tuple[Entry, Entry]:
    gap = found.difference
    return Entry(difference(gap.value), interval(gap), gap.value), Entry(p_value(found.p), order=found.p)


def _count(count: int, note: str = "") -> Entry:
    return Entry(f"{count:,}", note, count)


def _percent(value: float | None) -> Entry:
    return Entry(percent(value), order=value)


def _size(count: int | None) -> Entry:
    return Entry(size(count), order=count)


def markdown(report: Report) -> str:
    """The whole report, without the questions."""
    return "\n".join(_paragraphs(report))


def _paragraphs(report: Report) -> Iterator[str]:
    origin = report.origin
    yield f"# {in_markdown(origin['title'])}\n"
    for verdict in report.verdicts:
        figures = f": {in_markdown(verdict.figures)}." if verdict.figures else "."
        yield f"- {OUTCOMES[verdict.outcome]} **{in_markdown(verdict.claim)}**{figures}"
    yield "" if report.verdicts else f"{NOTHING_TO_BEAT}\n"
    for caution in report.cautions:
        yield f"> {in_markdown(caution)}\n"
    facts = [("Date", moment(origin["date"])), ("Seed", str(origin["seed"])), ("Command", origin["command"])]
    yield "".join(f"{name}: {in_markdown(value)}  \n" for name, value in facts if value)
    for cell in report.cells:
        yield f"## {in_markdown(cell.title)}\n"
        for table in tables_of(cell):
            yield f"### {table.title}\n"
            yield _line(map(in_markdown, table.columns))
            yield _line("---" if number == 0 else "---:" for number in range(len(table.columns)))
            for number, entries in enumerate(table.lines):
                yield _line(_markdown_cell(entry, number in table.emphasis) for entry in entries)
            yield f"\n{in_markdown(table.note)}\n" if table.note else ""
    if report.missing:
        yield "## What is missing\n"
        for missing in report.missing:
            cell_name, stage, reason = (in_markdown(missing[name]) for name in ("cell", "stage", "reason"))
            yield f"- {cell_name}, {stage}: {reason}"
        yield ""
    for title, background in backgrounds(origin):
        yield f"## {title}\n"
        yield from (f"- {in_markdown(name)}: {in_markdown(value)}" for name, value in background)
        yield ""


def _markdown_cell(entry: Entry, is_bold: bool) -> str:
    text = in_markdown(entry.text)
    return (f"**{text}**" if is_bold else text) + (f" ({in_markdown(entry.note)})" if entry.note else "")


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def backgrounds(origin: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Environments and settings with their headings, as dotted names and values."""
    for number, environment in enumerate(origin["environments"], 1):
        title = "Environment" if len(origin["environments"]) == 1 else f"Environment {number}"
        yield title, list(flat(environment))
    if origin["settings"]:
        yield "Settings", list(flat(origin["settings"]))


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
            Table(title, columns, tuple(_gain(own) for own in self.compared if own["cell"] == cell))
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


def _gain(compared: Mapping[str, Any]) -> tuple[Entry, ...]:
    test, title = compared["test"], Entry(compared["title"])
    if test is None:
        return (title, _count(0), *(Entry(NOTHING),) * 6)
    before, now = _percent(test.exact_match.second), _percent(test.exact_match.first)
    return (title, _count(test.questions), before, now, *_difference_entries(test))
