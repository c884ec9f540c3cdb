"""The plots of a cell."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from mbc_engine.evaluation.report.figures import seconds, size
from mbc_engine.evaluation.report.report import Cell, Row
from mbc_engine.evaluation.report.svg import Axis, Bar, Series, bars, lines
from mbc_engine.evaluation.results import CodeUsage, Figure, QuestionScores, RetentionStep, ScalingStep


@dataclass(frozen=True)
class Plot:
    """A drawing and what it shows; `legend` names its lines with their styles."""

    title: str
    drawing: str
    legend: tuple[tuple[str, int], ...] = ()


def styles_of(cell: Cell) -> dict[str, int]:
    """Numbers of line styles by method, the same in all plots of a cell; controls' are negative."""
    methods = [row.method for row in cell.rows if not row.is_control]
    controls = [row.method for row in cell.rows if row.is_control]
    return {name: number for number, name in enumerate(methods)} | {
        name: -number for number, name in enumerate(controls, 1)
    }


def plots_of(cell: Cell) -> Iterator[Plot]:
    """Every plot that the cell has results for."""
    styles = styles_of(cell)
    for title, figure_of in _SCORES:
        rows = [
            Bar(row.title, styles[row.method], figure_of(row.online.scores))
            for row in cell.rows
            if row.online is not None
        ]
        if rows:
            yield Plot(title, bars(f"{title}: {cell.title}", rows))
    for title, axis, value_of in _RETENTION:
        yield from _lines(cell, title, _ALONG, axis, styles, _retention(value_of))
    for title, axis, cost_of in _SCALING:
        yield from _lines(cell, title, _DOCUMENTS, axis, styles, _scaling(cost_of))
    if cell.code_usage is not None:
        yield from _usage(cell.code_usage, cell)


Points = Callable[[Row], list[tuple[float, float]]]


def _whole(value: float) -> str:
    return f"{value:,.0f}" if value < 10_000 else f"{value / 1000:,.0f}k"


def _plain(value: float) -> str:
    return f"{value:g}" if value == round(value, 1) else f"{value:.1f}"


def _bytes(value: float) -> str:
    return size(round(value))


_ALONG = Axis("documents taken in", _whole)
_DOCUMENTS = Axis("documents in memory", _whole, is_log=True)
_PERCENT = Axis("", _plain)
_SIZE = Axis("", _bytes, is_log=True)
_SECONDS = Axis("", seconds, is_log=True)

_SCORES: tuple[tuple[str, Callable[[QuestionScores], Figure]], ...] = (
    ("Exact match, % (95% interval)", lambda scores: scores.exact_match),
    ("F1, % (95% interval)", lambda scores: scores.f1),
)
_RETENTION: tuple[tuple[str, Axis, Callable[[RetentionStep], float | None]], ...] = (
    ("Retention: F1 of the first documents, % of the first step", _PERCENT, lambda step: step.retention),
    ("Retention: F1 of the first documents, %", _PERCENT, lambda step: step.f1),
    ("Memory as the paper counts it", _SIZE, lambda step: step.paper_bytes),
    ("Memory on disk", _SIZE, lambda step: step.on_disk),
)
_SCALING: tuple[tuple[str, Axis, Callable[[ScalingStep], float | None]], ...] = (
    ("Scaling: exact match, %", _PERCENT, lambda step: step.scores.exact_match.value),
    ("Scaling: F1, %", _PERCENT, lambda step: step.scores.f1.value),
    ("Scaling: time to take a document in", _SECONDS, lambda step: step.cost.seconds_per_document),
    ("Scaling: time to answer a question", _SECONDS, lambda step: step.cost.seconds_per_answer),
    ("Scaling: memory on disk", _SIZE, lambda step: step.cost.on_disk),
)


def _retention(value_of: Callable[[RetentionStep], float | None]) -> Points:
    def points(row: Row) -> list[tuple[float, float]]:
        steps = row.retention.steps if row.retention is not None else ()
        return [(step.documents, value) for step in steps if (value := value_of(step)) is not None]

    return points


def _scaling(value_of: Callable[[ScalingStep], float | None]) -> Points:
    def points(row: Row) -> list[tuple[float, float]]:
        steps = row.scaling.steps if row.scaling is not None else ()
        return [(step.cost.documents, value) for step in steps if (value := value_of(step)) is not None]

    return points


def _lines(cell: Cell, title: str, x: Axis, y: Axis, styles: Mapping[str, int], points_of: Points) -> Iterator[Plot]:
    series = [Series(row.title, styles[row.method], points) for row in cell.rows if (points := points_of(row))]
    if drawing := lines(f"{title}: {cell.title}", x, y, series):
        yield Plot(title, drawing, tuple((one.name, one.style) for one in series))


def _usage(usage: CodeUsage, cell: Cell) -> Iterator[Plot]:
    title = f"Perplexity of code usage, of {usage.codes:,} codes"
    series = [
        Series(name, style, list(zip(curve.steps, curve.perplexity, strict=True)))
        for name, style, curve in (
            ("with reset", 0, usage.with_reset),
            ("without reset", 1, usage.without_reset),
        )
    ]
    if drawing := lines(f"{title}: {cell.title}", Axis("steps of training", _whole), _PERCENT, series):
        yield Plot(title, drawing, tuple((one.name, one.style) for one in series))
