"""The tables and the plot of what quality.py measured, and the pages they are written to."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Final

import numpy as np
import plots
from numpy.typing import NDArray
from wording import plot, table, write_section

from mbc_engine.evaluation.statistics import interval
from mbc_engine.paper.calibration import roc_auc

Row = dict[str, Any]
Parts = Mapping[str, Any]
Value = str | Callable[[Row], Any]  # a column, or a function of a row

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
END: Final = "<!-- end of what it writes -->"
ALL: Final = 10_000  # questions at most
BINS: Final = 10
ANSWER_RATE: Final = 0.8  # the share of answerable questions that should be answered
SCORES: Final = tuple(f"{measure}, {golds}" for golds in ("any", "shortest") for measure in ("EM", "F1"))


def write(parts: Parts) -> None:
    """Write the tables to their pages, and draw the plot."""
    _write_section(DOCS / "mini.md", "details", details(parts))
    draw(parts["squad"]["rows"])


def write_answers(parts: Parts) -> None:
    """Write how surely questions are answered, which is measured by itself."""
    _write_section(DOCS / "mini.md", "answers", answers_table(parts))
    _write_section(DOCS.parent / "README.md", "answers", answers_in_words(parts))


def write_writing(found: Parts) -> None:
    """Write the table of written answers, which is measured by itself."""
    _write_section(DOCS / "mini.md", "written answers", writing_table(found))


def _write_section(page: Path, name: str, lines: Iterable[str]) -> None:
    write_section(page, f"<!-- {name}, written by python benchmarks/quality.py -->", END, lines)


def value_of(row: Row, value: Value) -> float:
    return float(row[value] if isinstance(value, str) else value(row))


def share(rows: Sequence[Row], value: Value) -> str:
    """The mean in percent."""
    return f"{100 * mean(value_of(row, value) for row in rows):.1f}" if rows else ""


def with_interval(rows: Sequence[Row], value: Value) -> str:
    """The same with half the width of its 95% interval, from resampling documents with all their questions."""
    if not rows:
        return ""
    mean_of_all = interval([value_of(row, value) for row in rows], [row["source"] or row["question"] for row in rows])
    return f"{100 * mean_of_all.value:.1f} ± {50 * (mean_of_all.high - mean_of_all.low):.1f}"


def found(rows: Sequence[Row], column: str, shown: Callable[[Sequence[Row], Value], str] = with_interval) -> str:
    """How often the right document is first / among five."""
    return f"{shown(rows, lambda row: row[column] == 0)} / {shown(rows, lambda row: row[column] is not None)}"


# How an answer is given, and whether it is right.
WAYS: Final[Mapping[str, Callable[[Row], bool]]] = {
    "right": lambda row: bool(row["is_given"] and row["EM, any"]),
    "wrong": lambda row: bool(row["is_given"] and not row["EM, any"]),
    "perhaps, right": lambda row: bool(row["is_tentative"] and row["EM, any"]),
    "perhaps, wrong": lambda row: bool(row["is_tentative"] and not row["EM, any"]),
    "not in this memory": lambda row: not row["is_given"] and not row["is_tentative"],
}


def by_answerable(parts: Parts) -> tuple[list[Row], list[Row]]:
    """The typed questions with an answer, and those without."""
    rows = parts["wikinews"]["rows"]
    return [row for row in rows if row["golds"]], [row for row in rows if not row["golds"]]


def answers_table(parts: Parts) -> Iterator[str]:
    """How questions are answered by default: typed ones, and some with and without the paragraph that answers them."""
    (typed, others), news = by_answerable(parts), parts["wikinews"]
    kinds = {
        f"{len(typed)} as typed, about {news['documents']} articles": typed,
        f"{len(others)} as typed, without an answer there": others,
    }
    if removed := parts.get("removed"):
        kinds |= {
            f"{len(removed['there'])} about {removed['documents']} paragraphs": removed["there"],
            "the same, without the paragraph that answers it": removed["gone"],
        }
    rows = [[title, *(share(rows, way) for way in WAYS.values())] for title, rows in kinds.items()]
    yield from table(["% of questions", *WAYS], rows)
    yield f"{news['date']}, {news['machine']}, {news['threads']} threads, seed {news['key']['seed']}."


def answers_in_words(parts: Parts) -> Iterator[str]:
    (typed, others), news = by_answerable(parts), parts["wikinews"]
    right, wrong, perhaps, mistaken, _ = (sum(map(way, typed)) for way in WAYS.values())
    absent = WAYS["not in this memory"]
    yield (
        f"Of {len(typed)} questions typed by hand about {news['documents']} news articles, `mini`, the embedded model, "
        f'answered {right} rightly and {wrong} wrongly. Before {perhaps + mistaken} more answers it said "Perhaps", and '
        f'{perhaps} of these were right; {sum(map(absent, typed))} times it said "Not in this memory." Of {len(others)} '
        f"questions that the articles do not answer, it said so to {sum(map(absent, others))}, answered "
        f'{sum(bool(row["is_tentative"]) for row in others)} with "Perhaps" and '
        f"{sum(bool(row['is_given']) for row in others)} as if sure. {news['date']}."
    )


def details(parts: Parts) -> Iterator[str]:
    """A table for each kind of figure, with 95% intervals, and how they were measured."""
    yield from finding_table(parts)
    yield from reading_table(parts)
    yield from confidence_table(parts)
    squad = parts["squad"]
    asked = "" if squad["key"]["questions"] == ALL else f" --questions {squad['key']['questions']}"
    yield (
        f"`python benchmarks/quality.py --data ../shared/data{asked}`, {squad['date']}, {squad['machine']}, "
        f"{squad['threads']} threads, seed {squad['key']['seed']}."
    )


def finding_table(parts: Parts) -> Iterator[str]:
    squad, many, wikinews = parts["squad"], parts["many"], parts["wikinews"]
    typed, _ = by_answerable(parts)
    yield "### Retrieval"
    yield ""
    yield (
        f"How often the right document is first / among the first five, for {len(squad['rows']):,} questions about "
        f"{squad['documents']} paragraphs of SQuAD; {len(many['rows']):,} about {many['documents']:,} paragraphs of SQuAD and "
        f"Wikipedia, of which {len(many['read']):,} were also answered; and {len(typed)} as typed about "
        f"{wikinews['documents']} articles. *Found* is the ranking before reading, *answered* that of the sources given with "
        "the answer. BM25 uses stemming and ignores stop words."
    )
    rows = [
        [
            f"{squad['documents']} paragraphs",
            *(found(squad["rows"], search) for search in ("bm25", "codes", "found", "rank")),
        ],
        [
            f"{many['documents']:,} paragraphs",
            found(many["rows"], "bm25"),
            "",
            found(many["rows"], "found"),
            found(many["read"], "rank"),
        ],
        [f"{wikinews['documents']} articles", found(typed, "bm25"), "", "", found(typed, "rank")],
    ]
    yield from table(["%", "BM25", "address codes alone", "`mini`, found", "`mini`, answered"], rows)


def reading_table(parts: Parts) -> Iterator[str]:
    yield "### Reading"
    yield ""
    yield "EM and F1 against the best-matching gold answer, as in SQuAD's script, or the shortest, as in the paper."
    given, squad = parts["given"]["rows"], parts["squad"]
    yield from table(
        ["%, every question answered", *(f"{score} gold" for score in SCORES)],
        [
            [title, *(with_interval(rows, score) for score in SCORES)]
            for title, rows in (
                ("right paragraph given", given),
                (f"{squad['documents']} paragraphs in the bank", squad["rows"]),
            )
        ],
    )


def confidence_table(parts: Parts) -> Iterator[str]:
    squad = parts["squad"]["rows"]
    without = parts["removed"]["gone"], parts["missing"]["rows"]
    confidences, correct = probabilities(squad)
    yield "### Confidence"
    yield ""
    yield (
        f"The share of {len(squad):,} questions that are answered for sure, the share of these answers that are correct (any "
        f"gold), and the share of {len(without[0])} questions that are still answered when the right paragraph is removed, "
        "or only its sentences with the answer."
    )
    least = float(np.quantile(confidences, 1 - ANSWER_RATE))
    ways: list[tuple[str, Callable[[Row], bool]]] = [
        ("by default", lambda row: row["is_given"]),
        (
            f"confidence of at least {least:.2f}, which answers {ANSWER_RATE:.0%}",
            lambda row: row["is_given"] if row["probability"] is None else row["probability"] >= least,
        ),
    ]
    rows = [
        [
            title,
            with_interval(squad, is_answered),
            with_interval([row for row in squad if is_answered(row)], "EM, any"),
            *(with_interval(rows_without, is_answered) for rows_without in without),
        ]
        for title, is_answered in ways
    ]
    head = [
        "%",
        "answered",
        "correct, of those answered",
        "answered, paragraph missing",
        "answered, sentences missing",
    ]
    yield from table(head, rows)
    area = area_under_curve(confidences, correct)
    yield (
        f"Expected calibration error (ECE): {100 * calibration_error(confidences, correct):.1f}%, in {BINS} bins of equal "
        "width. AUC, how often a right answer gets a higher confidence than a wrong one: "
        f"{'none' if area is None else f'{area:.3f}'}."
    )
    yield from plot("confidence", "Reliability diagram; precision by share of questions answered")


def probabilities(rows: Sequence[Row]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The confidence in each answer that has one, withheld or not, and whether it is right."""
    known = [row for row in rows if row["probability"] is not None]
    return np.array([row["probability"] for row in known]), np.array([row["EM, any"] == 1 for row in known])


def bins(confidences: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Indices of answers by confidence, in bins of equal width."""
    numbers = np.minimum((confidences * BINS).astype(int), BINS - 1)
    return [np.flatnonzero(numbers == number) for number in range(BINS)]


def calibration_error(confidences: NDArray[np.float64], correct: NDArray[np.bool_]) -> float:
    """The gap between a bin's mean confidence and its share of right answers, averaged over all answers."""
    return sum(abs(float(confidences[at].sum() - correct[at].sum())) for at in bins(confidences)) / len(confidences)


def area_under_curve(confidences: NDArray[np.float64], correct: NDArray[np.bool_]) -> float | None:
    """How often a right answer has more confidence than a wrong one; ties count half."""
    if correct.all() or not correct.any():
        return None
    return roc_auc(confidences[correct], confidences[~correct])


def precision_curve(
    confidences: NDArray[np.float64], correct: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The shares answered, most confident first, and the share of these that is right."""
    answered = np.arange(1, len(confidences) + 1)
    return answered / len(confidences), np.cumsum(correct[np.argsort(-confidences, kind="stable")]) / answered


def writing_table(found: Parts) -> Iterator[str]:
    extracted, written = found["extracted"], found["written"]
    over, under = ([row for row in written if row["is_given"] == given] for given in (True, False))
    rows = [
        [title, *(f"{share(way, f'EM, {golds}')} / {share(way, f'F1, {golds}')}" for way in (extracted, written))]
        for title, golds in (("EM / F1, any gold", "any"), ("EM / F1, shortest gold", "shortest"))
    ]
    rows += [
        ["a gold answer is in it, word for word", share(extracted, "holds"), share(written, "holds")],
        [f"of these, the {len(over)} questions answered by default", "", share(over, "holds")],
        [f"of these, the {len(under)} not answered by default", "", share(under, "holds")],
        ["the extracted answer is in it", "", share(written, "holds extracted")],
    ]
    yield from table([f"%, {len(written)} questions, regardless of confidence", "extracted", "written"], rows)
    words = mean(len(row["answer"].split()) for row in written)
    yield f"A written answer has {words:.0f} words on average, which lowers its EM and F1. {found['date']}."


def draw(rows: Sequence[Row]) -> None:
    """Draw the reliability diagram, and precision against the share answered."""
    confidences, correct = probabilities(rows)
    plt, colour = plots.plt, plots.COLOURS["flat"]
    with plt.rc_context(plots.STYLE):
        figure, (reliable, precision) = plt.subplots(1, 2, figsize=(7.2, 3.4), layout="constrained")
        filled = [places for places in bins(confidences) if len(places)]
        middles = [100 * float(confidences[places].mean()) for places in filled]
        sources = [row["source"] for row in rows if row["probability"] is not None]
        values = [interval(correct[places], [sources[place] for place in places]) for places in filled]
        heights = [100 * value.value for value in values]
        errors = [
            [100 * (value.value - value.low) for value in values],
            [100 * (value.high - value.value) for value in values],
        ]
        reliable.plot((0, 100), (0, 100), color="0.7", lw=1, ls="--")
        reliable.errorbar(middles, heights, errors, color=colour, marker="o", ms=4, capsize=2)
        for x, y, places in zip(middles, heights, filled, strict=True):
            reliable.annotate(f"{len(places):,}", (x, y), (6, -10), textcoords="offset points", fontsize=7)
        reliable.set(
            xlabel="confidence, %", ylabel="right, % (with the number of answers)", xlim=(0, 100), ylim=(0, 100)
        )
        answered, shares = precision_curve(confidences, correct)
        precision.plot(100 * answered, 100 * shares, color=colour)
        if given := [row["EM, any"] for row in rows if row["is_given"]]:
            default = 100 * len(given) / len(rows), 100 * mean(given)
            precision.plot(*default, "o", color=colour, label="default")
            precision.legend(frameon=False)
        precision.set(xlabel="answered, %", ylabel="correct, of those answered, %", xlim=(0, 100), ylim=(0, 100))
        for axes in (reliable, precision):
            axes.grid(True, alpha=0.3)
        plots.save(figure, DOCS / "plots", "confidence")
