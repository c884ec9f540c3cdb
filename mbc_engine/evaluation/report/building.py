"""What makes a report of an experiment's results: it tests, judges and orders them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mbc_engine.evaluation.report.known import Known, KnownMethod
from mbc_engine.evaluation.report.paired import Paired, pair_all
from mbc_engine.evaluation.report.report import Cell, Missing, Origin, Published, Report, Row
from mbc_engine.evaluation.report.verdicts import cautions_of, most_telling_first, verdicts_of
from mbc_engine.evaluation.results import CodeUsage, Online, Prediction, Retention, Scaling


@dataclass(frozen=True)
class MethodResults:
    """What the stages of a method in a cell left; None for those not done, or not yet.

    Attributes:
        rate: the learning rate that its sweep chose; None for methods without one.
    """

    online: Online | None = None
    predictions: Sequence[Prediction] = ()
    retention: Retention | None = None
    scaling: Scaling | None = None
    rate: float | None = None


@dataclass(frozen=True)
class CellResults:
    """A base LM on a dataset, by their names and titles, and what each method did there, by its name."""

    name: str
    base_name: str
    dataset_name: str
    base: str
    dataset: str
    methods: Mapping[str, MethodResults]
    code_usage: CodeUsage | None = None

    @property
    def place(self) -> tuple[str, str]:
        """The names of the base LM and of the dataset."""
        return self.base_name, self.dataset_name


def build_report(
    origin: Origin, cells: Sequence[CellResults], known: Known, *, missing: Sequence[Missing] = ()
) -> Report:
    """Test, judge and order what an experiment found out.

    Args:
        origin: where the figures come from.
        cells: the results.
        known: the methods, what they have to beat, and the paper's figures.
        missing: stages without a result.
    """
    built = tuple(_cell(cell, known) for cell in cells)
    return Report(
        verdicts=most_telling_first((verdict for cell in built for verdict in verdicts_of(cell, known)), known),
        cautions=tuple(caution for cell in built for caution in cautions_of(cell, known.documents)),
        origin=origin,
        cells=built,
        missing=tuple(missing),
    )


def _cell(cell: CellResults, known: Known) -> Cell:
    published = {method: told for method in known.methods if (told := _published(cell.place, method, known))}
    rows = tuple(
        _row(
            name,
            known.methods.get(name, KnownMethod(name)),
            cell.methods.get(name, MethodResults()),
            published.get(name),
        )
        for name in {**dict.fromkeys(known.methods), **dict.fromkeys(cell.methods)}
        if name in cell.methods or name in published
    )
    asked = {name: results.predictions for name, results in cell.methods.items() if results.predictions}
    leader = _leader(rows)
    to_lead = [(row.method, leader) for row in rows if leader and row.method != leader and not row.is_control]
    return Cell(
        cell.name,
        cell.base,
        cell.dataset,
        rows,
        leader,
        against_leader=_tests(asked, to_lead),
        against_controls=_tests(asked, known.pairs),
        code_usage=cell.code_usage,
        published_usage=known.code_usage.get(cell.place),
    )


def _published(place: tuple[str, str], method: str, known: Known) -> Published | None:
    scores = known.scores.get((*place, method))
    if scores is None:
        return None
    return Published(scores.exact_match, scores.f1, known.retention.get((*place, method), ()))


def _tests(asked: Mapping[str, Sequence[Prediction]], names: Sequence[tuple[str, str]]) -> tuple[Paired, ...]:
    both = [((one, asked[one]), (other, asked[other])) for one, other in names if one in asked and other in asked]
    return tuple(test for test in pair_all(both) if test is not None)


def _row(name: str, known: KnownMethod, results: MethodResults, published: Published | None) -> Row:
    return Row(
        name,
        known.title,
        bool(known.spoilt_bank),
        known.is_told,
        results.online,
        results.retention,
        results.scaling,
        results.rate,
        published,
    )


def _leader(rows: Sequence[Row]) -> str | None:
    scores = {
        row.method: (row.online.scores.exact_match.value, row.online.scores.f1.value)
        for row in rows
        if row.online is not None and not row.is_control and not row.is_bound
    }
    return max(scores, key=lambda name: scores[name], default=None)
