"""The tables of what quality.py measured, and the pages they are written to."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Final

from wording import table, write_section

from mbc_engine.evaluation.statistics import interval

Row = dict[str, Any]
Parts = Mapping[str, Any]
Value = str | Callable[[Row], Any]  # a column, or a function of a row

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
END: Final = "<!-- end of what it writes -->"
ALL: Final = 10_000  # questions at most
SCORES: Final = tuple(f"{measure}, {golds}" for golds in ("any", "shortest") for measure in ("EM", "F1"))


def write(parts: Parts) -> None:
    """Write the tables to their page."""
    _write_section(DOCS / "mini.md", "details", details(parts))


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


def by_answerable(parts: Parts, name: str = "wikinews") -> tuple[list[Row], list[Row]]:
    """The questions of a part with an answer, and those without."""
    rows = parts[name]["rows"]
    return [row for row in rows if row["golds"]], [row for row in rows if not row["golds"]]


def answers_table(parts: Parts) -> Iterator[str]:
    """How questions are answered by default: typed ones, and some with and without the paragraph that answers them."""
    (typed, others), news = by_answerable(parts), parts["wikinews"]
    kinds = {
        f"{len(typed)} as typed, about {news['documents']} articles": typed,
        f"{len(others)} as typed, without an answer there": others,
    }
    if files := parts.get("everyday"):
        answered, unanswered = by_answerable(parts, "everyday")
        kinds |= {
            f"{len(answered)} everyday, about {files['documents']} files": answered,
            f"{len(unanswered)} everyday, without an answer there": unanswered,
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
        f"Of {len(typed)} questions typed by hand about {news['documents']} news articles, `mini`, the built-in model, "
        f'answered {right} rightly and {wrong} wrongly. {perhaps + mistaken} more answers began with "Perhaps", of which '
        f'{perhaps} were right; {sum(map(absent, typed))} times it said "Not in this memory." It also said this to '
        f"{sum(map(absent, others))} of {len(others)} questions that the articles do not answer; to "
        f'{sum(bool(row["is_tentative"]) for row in others)} of them it gave an answer with "Perhaps", and to '
        f"{sum(bool(row['is_given']) for row in others)} one without. Measured on {news['date']}."
    )
    if files := parts.get("everyday"):
        answered, unanswered = by_answerable(parts, "everyday")
        right, wrong, _, _, none = (share(answered, way) for way in WAYS.values())
        yield ""
        yield (
            f"Notes, mails, tables, manuals and the like are harder. Of {len(answered)} questions about "
            f"{files['documents']} such files, {right}% were answered with just the expected words, {wrong}% with other "
            f'words, and {none}% with "Not in this memory."; the rest began with "Perhaps". Of {len(unanswered)} that the '
            f'files do not answer, {share(unanswered, "is_given")}% got an answer without "Perhaps".'
        )


def details(parts: Parts) -> Iterator[str]:
    """A table for each kind of figure, with 95% intervals, and how they were measured."""
    yield from finding_table(parts)
    yield from reading_table(parts)
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


def writing_table(found: Parts) -> Iterator[str]:
    extracted, written = found["extracted"], found["written"]
    rows = [
        [title, *(f"{share(way, f'EM, {golds}')} / {share(way, f'F1, {golds}')}" for way in (extracted, written))]
        for title, golds in (("EM / F1, any gold", "any"), ("EM / F1, shortest gold", "shortest"))
    ]
    rows += [
        ["a gold answer is in it, word for word", share(extracted, "holds"), share(written, "holds")],
    ]
    yield from table([f"%, {len(written)} questions, regardless of confidence", "extracted", "written"], rows)
    words = mean(len(row["answer"].split()) for row in written)
    yield f"A written answer has {words:.0f} words on average, which lowers its EM and F1. {found['date']}."
