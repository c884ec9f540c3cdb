"""Two methods, or two experiments, on the questions that both were asked."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from mbc_engine.evaluation.results import Figure, Prediction


@dataclass(frozen=True)
class Difference:
    """A figure of the first and of the second in percent, the first less the second with its 95% interval, and the
    paired test's p-value."""

    first: float
    second: float
    difference: Figure
    p: float

    @property
    def is_gain(self) -> bool:
        """Whether the first is better beyond chance: p < 0.05, and the whole interval above 0."""
        return self.p < 0.05 and self.difference.low > 0

    @property
    def is_loss(self) -> bool:
        """Whether the first is worse beyond chance."""
        return self.p < 0.05 and self.difference.high < 0


@dataclass(frozen=True)
class Paired:
    """The first against the second, by their names, on `questions` questions."""

    first: str
    second: str
    questions: int
    exact_match: Difference
    f1: Difference


Asked = tuple[str, Sequence[Prediction]]
_Answers = tuple[Prediction, Prediction]


def pair_all(tests: Sequence[tuple[Asked, Asked]]) -> list[Paired | None]:
    """Several tests, each of a first and a second by name; those on the same questions share what is drawn."""
    paired: list[Paired | None] = [None] * len(tests)
    groups: dict[tuple[int, ...], list[tuple[int, list[_Answers]]]] = {}
    known = {
        id(asked): by_question(asked) for asked in {id(asked): asked for test in tests for _, asked in test}.values()
    }
    for number, ((_, first), (_, second)) in enumerate(tests):
        others = known[id(second)]
        shared = [(one, others[key]) for key, one in known[id(first)].items() if key in others]
        if shared:
            groups.setdefault(tuple(one.document for one, _ in shared), []).append((number, shared))
    for documents, members in groups.items():
        exact_matches = _differences([shared for _, shared in members], documents, lambda one: one.exact_match)
        f1s = _differences([shared for _, shared in members], documents, lambda one: one.f1)
        for (number, _), exact_match, f1 in zip(members, exact_matches, f1s, strict=True):
            (first_name, _), (second_name, _) = tests[number]
            paired[number] = Paired(first_name, second_name, len(documents), exact_match, f1)
    return paired


def by_question(predictions: Sequence[Prediction]) -> dict[tuple[str, str, int], Prediction]:
    """Predictions by what a question is known by: its id, its words, and how often both were there before."""
    before: Counter[tuple[str, str]] = Counter()
    known = {}
    for prediction in predictions:
        name = prediction.id, prediction.question
        known[*name, before[name]] = prediction
        before[name] += 1
    return known


def _differences(
    each: Sequence[Sequence[_Answers]], documents: Sequence[int], value: Callable[[Prediction], float]
) -> list[Difference]:
    from mbc_engine.evaluation.statistics import compare_pairs

    values = [
        ([100.0 * value(one) for one, _ in shared], [100.0 * value(other) for _, other in shared]) for shared in each
    ]
    return [
        Difference(fmean(ones), fmean(others), Figure(gap.mean, gap.low, gap.high), compared.p_value)
        for (ones, others), compared in zip(values, compare_pairs(values, documents), strict=True)
        for gap in (compared.difference,)
    ]
