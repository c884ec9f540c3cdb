"""Documents as people have them and questions as they type them: what the readers of `mini` are trained on last.

`everyday.jsonl.xz` has a document a line: `set`, the memory that it is in, `file`, its path, `text`, and `questions`,
each with an answer word for word (`a`; null if the document has none) and a piece of the text around it (`in`). They were
written for this project by a language model, and all people, firms and figures are invented. One set in eight is
`held_out`.
"""

import json
import lzma
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from mbc_engine import Memory, RetrieverReader
from mbc_engine.bank import MemoryBank
from mbc_engine.sources import Passages, matches

DATA: Final = Path(__file__).with_name("everyday.jsonl.xz")
_MOST_WRONG: Final = 4  # of how many passages found a wrong one is drawn
_WRONG: Final = 0.5  # how often a passage of another document, or another of the same, is read too
_LEAST_ALIKE: Final = 0.6  # of the words around an answer, in a passage that is not as its file is


@dataclass(frozen=True)
class Question:
    """A question about a file; `answer` is empty if the file has none, and `around` is what stands around it there."""

    text: str
    file: str
    answer: str
    around: str


@dataclass(frozen=True)
class Pair:
    """A question with a passage that was found for it, and where the passage answers it, if it does."""

    question: str
    text: str
    context: str
    gold: tuple[int, int] | None
    is_of_file: bool  # that the question is about

    @property
    def answers(self) -> tuple[str, ...]:
        return (self.text[slice(*self.gold)],) if self.gold else ()


def sets(*, held_out: bool) -> dict[str, list[dict[str, Any]]]:
    """The documents of each set."""
    with lzma.open(DATA, "rt", encoding="utf-8") as file:
        rows = list(map(json.loads, file))
    rows = [row for row in rows if row.get("held_out", False) == held_out]
    return {name: [row for row in rows if row["set"] == name] for name in sorted({row["set"] for row in rows})}


def memory_of(model: RetrieverReader, documents: Iterable[Mapping[str, Any]], folder: Path) -> list[Question]:
    """Make the memory of a set, `bank.mbc` in a folder, unless it is there; returns its questions."""
    questions = []
    is_new = not (folder / "bank.mbc").exists()
    for document in documents:
        path = folder / "documents" / document["file"]
        if is_new:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(document["text"], encoding="utf-8")
        for asked in document["questions"]:
            answer = asked["a"] or ""
            questions.append(Question(asked["q"], str(path.resolve()), answer, asked.get("in") or answer))
    if is_new:
        with Memory(folder / "bank.mbc", model) as memory:
            for _event in memory.add([folder / "documents"]):
                pass
    return questions


def held_out_memory(model: RetrieverReader, folder: Path) -> list[Question]:
    """The same for all that is held out, in one memory."""
    numbered = enumerate(sets(held_out=True).values())
    documents = [row | {"file": f"{number}/{row['file']}"} for number, rows in numbered for row in rows]
    return memory_of(model, documents, folder)


def pairs(model: RetrieverReader, folder: Path, *, held_out: bool, seed: int) -> Iterator[Pair]:
    """All questions with the passage of their file that answers them, or seems to, and some with another one."""
    random = np.random.default_rng(seed)
    for name, documents in sets(held_out=held_out).items():
        questions = memory_of(model, documents, folder / name)
        with MemoryBank.open(folder / name / "bank.mbc", read_only=True) as bank, bank.snapshot():
            found = model.search([question.text for question in questions], model.scope(bank), top=1024).chunks
            passages = Passages(bank, model.chunker)
            for question, hits in zip(questions, found, strict=True):
                sources = passages.of(hit.chunk for hit in hits)
                texts = {hit.chunk: sources[hit.chunk].passage or "" for hit in hits}
                own = [chunk for chunk in texts if sources[chunk].path == question.file]
                golds = {chunk: gold for chunk in own if (gold := place_of(question, texts[chunk]))}
                if not own or (question.answer and not golds):
                    continue
                best = min(golds, key=lambda chunk: -golds[chunk][2]) if golds else own[0]  # the first found wins a tie
                chosen = [best]
                if random.random() < _WRONG:
                    others = [chunk for chunk in list(texts)[:_MOST_WRONG] if chunk not in {best, *golds}]
                    chosen += others[int(random.integers(max(1, len(others)))) :][:1]
                for chunk in chosen:
                    context = passages.known(chunk).context
                    context = context if matches(question.text, context) else ""
                    gold = golds[chunk][:2] if chunk in golds else None
                    yield Pair(question.text, texts[chunk], context, gold, chunk == best)


def place_of(question: Question, passage: str) -> tuple[int, int, float] | None:
    """Where a passage has the answer, and how much of what is around it; None if it does not have it there."""
    places = [found.span() for found in re.finditer(re.escape(question.answer), passage)] if question.answer else []
    start = passage.find(question.around)
    if start >= 0:
        end = start + len(question.around)
        return next(((a, b, 1.0) for a, b in places if start <= a and b <= end), None)
    words = re.findall(r"\w+", question.around.lower())
    there = {*re.findall(r"\w+", passage.lower())}
    share = sum(word in there for word in words) / max(1, len(words))
    # The text of a table's row or of a page is not as its file has it.
    return (*places[0], share) if len(places) == 1 and share >= _LEAST_ALIKE else None
