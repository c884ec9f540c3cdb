"""The first lines of a report: whether each method beats its controls, and what its figures do not show."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from mbc_engine.evaluation.report.figures import difference, interval, p_value, percent
from mbc_engine.evaluation.report.known import Known
from mbc_engine.evaluation.report.paired import Difference, Paired
from mbc_engine.evaluation.report.report import Cell, Outcome, Verdict

# Below this, one question is a percentage point or more.
_FEW_QUESTIONS: Final = 100


def verdicts_of(cell: Cell, known: Known) -> Iterator[Verdict]:
    """How the methods of the cell do against their controls; `most_telling_first` orders those of several cells."""
    tests = {(test.first, test.second): test for test in cell.against_controls}
    # A method's spoilt banks make a sentence, and so do the methods that are held against the same other method.
    groups: dict[tuple[str, Outcome], list[_Pair]] = {}
    for method, control in known.pairs:
        row = cell.row(method)
        if row is None or row.online is None:
            continue
        test, bank = tests.get((method, control)), known.spoilt_bank(control)
        groups.setdefault((method if bank else control, _outcome(test)), []).append(
            _Pair(method, control, known.title(method), bank or known.title(control), test)
        )
    where = f"{cell.dataset} ({cell.base})"
    for (_, outcome), group in groups.items():
        methods = tuple(dict.fromkeys(pair.method for pair in group))
        others = tuple(dict.fromkeys(pair.control for pair in group))
        is_of_banks = bool(known.spoilt_bank(others[0]))
        claim, figures = (_of_banks if is_of_banks else _of_methods)(group, outcome, where)
        yield Verdict(cell.name, methods, others, outcome, claim, figures)


def most_telling_first(verdicts: Iterable[Verdict], known: Known) -> tuple[Verdict, ...]:
    """What spoilt banks tell before the rest, and bad news before good."""
    order = get_args(Outcome)
    return tuple(
        sorted(
            verdicts,
            key=lambda verdict: (not known.spoilt_bank(verdict.controls[0]), order.index(verdict.outcome)),
        )
    )


@dataclass(frozen=True)
class _Pair:
    """A method and a control by names and titles, a spoilt bank by what it is; the test between them, if any."""

    method: str
    control: str
    title: str
    other: str
    test: Paired | None


def _outcome(test: Paired | None) -> Outcome:
    if test is None:
        return "unchecked"
    if test.exact_match.is_gain:
        return "yes"
    if test.exact_match.is_loss:
        return "worse"
    return "partly" if test.f1.is_gain else "no"


_OF_BANKS: Final[Mapping[Outcome, str]] = {
    "worse": "does harm",
    "no": "does not help",
    "partly": "helps in F1 and not in EM",
    "yes": "helps",
}
# Of one method, and of several.
_OF_METHODS: Final[Mapping[Outcome, tuple[str, str]]] = {
    "worse": ("is worse than", "are worse than"),
    "no": ("does not beat", "do not beat"),
    "partly": ("beats in F1, and not in EM,", "beat in F1, and not in EM,"),
    "yes": ("beats", "beat"),
}


def _of_banks(group: Sequence[_Pair], outcome: Outcome, where: str) -> tuple[str, str]:
    """Claim and figures about a method with its own bank and with spoilt ones."""
    title = group[0].title
    banks = [(pair.other, pair.test) for pair in group]
    told = [(bank, test) for bank, test in banks if test is not None]
    if not told:
        return f"{title}'s bank was not checked on {where} against {_listed([bank for bank, _ in banks])}", ""
    figures = "; ".join(
        f"{name} {percent(of(told[0][1]).first)} with it, "
        + ", ".join(f"{percent(of(test).second)} with {bank} ({_test(of(test))})" for bank, test in told)
        for name, of in _figures(outcome)
    )
    return f"{title}'s bank {_OF_BANKS[outcome]} on {where}", figures


def _of_methods(group: Sequence[_Pair], outcome: Outcome, where: str) -> tuple[str, str]:
    """Claim and figures about methods that are held against the same other method."""
    other, names = group[0].other, _listed([pair.title for pair in group])
    told = [(pair.title, pair.test) for pair in group if pair.test is not None]
    if not told:
        return f"{names} {'was' if len(group) == 1 else 'were'} not checked on {where} against {other}", ""
    figures = "; ".join(
        f"{name} {percent(of(told[0][1]).second)} for {other}, "
        + ", ".join(f"{percent(of(test).first)} for {title} ({_test(of(test))})" for title, test in told)
        for name, of in _figures(outcome)
    )
    return f"{names} {_OF_METHODS[outcome][len(told) > 1]} {other} on {where}", figures


def _figures(outcome: Outcome) -> list[tuple[str, Callable[[Paired], Difference]]]:
    """What a sentence tells: EM, by which methods are judged, and F1 where that says something else."""
    exact_match = ("EM", lambda test: test.exact_match)
    return [exact_match, ("F1", lambda test: test.f1)] if outcome == "partly" else [exact_match]


def _test(figures: Difference) -> str:
    """The difference and its interval; and the p-value where it alone keeps the difference from counting."""
    told = f"difference {difference(figures.difference.value)}, 95% {interval(figures.difference)}"
    is_apart = figures.difference.low > 0 or figures.difference.high < 0
    return told if figures.is_gain or figures.is_loss or not is_apart else f"{told}, but p = {p_value(figures.p)}"


def cautions_of(cell: Cell, documents_of_paper: int = 0) -> Iterator[str]:
    """What a reader of the cell's figures could take for more than it is; the paper's are of so many documents."""
    where = f"{cell.dataset} ({cell.base})"
    asked = {row.online.scores.questions for row in cell.rows if row.online is not None}
    if asked and min(asked) < _FEW_QUESTIONS:
        yield f"{where}: figures from {min(asked)} questions. Read the intervals, not the digits."
    if len(asked) > 1:
        yield f"{where}: the methods were not all asked the same number of questions ({min(asked)} to {max(asked)})."
    held = {row.online.cost.documents for row in cell.rows if row.online is not None and row.published is not None} - {
        documents_of_paper
    }
    if held and documents_of_paper:
        yield (
            f"{where}: the paper's figures are of {documents_of_paper:,} documents in a memory, these of "
            f"{_listed([f'{count:,}' for count in sorted(held)])}. More documents are harder to tell apart."
        )
    leader = cell.row(cell.leader) if cell.leader is not None else None
    if leader is None or leader.online is None:
        return
    best = leader.online.scores.exact_match
    close = [
        row.title
        for row in cell.rows
        if row.online is not None
        and row.method != leader.method
        and not (row.is_control or row.is_bound)
        and row.online.scores.exact_match.high >= best.low
        and row.online.scores.exact_match.low <= best.high
    ]
    if close:
        yield (
            f"{where}: {leader.title} leads with an EM of {percent(best.value)} ({interval(best)}), "
            f"but the intervals of {_listed(close)} overlap with it; the paired tests say whether the lead is chance."
        )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
