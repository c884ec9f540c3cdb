"""Documents as people have them and questions as they type them: what the readers of `mini` are trained on last.

`everyday.jsonl.xz` has a document a line: `set`, the memory that it is in, `file`, its path, `text`, and `questions`,
each with an answer word for word (`a`; null if the document has none) and a piece of the text around it (`in`). They
were written for this project by a language model, and all people, firms and figures are invented. Of 106 sets, five are
the `part` for calibration and eight the one for tests, on which nothing is fitted.
"""

import json
import lzma
import math
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from mbc_engine import Memory, RetrieverReader
from mbc_engine.bank import MemoryBank
from mbc_engine.sources import Passages, matches

Part = Literal["training", "calibration", "test"]

DATA: Final = Path(__file__).with_name("everyday.jsonl.xz")
_WRONG_AMONG: Final = 4  # of how many passages, the first found, a wrong one is drawn
_NONE: Final = 0.8  # passages without an answer for each with one, whatever the words of the question
_FOLDS: Final = 5
_FEWEST: Final = 5  # questions that a word is in, to count
_RIDGE: Final = 1e-3
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
    is_best: bool  # the one that answers, or of its file the first found

    @property
    def answers(self) -> tuple[str, ...]:
        return (self.text[slice(*self.gold)],) if self.gold else ()


def sets(part: Part) -> dict[str, list[dict[str, Any]]]:
    """The documents of each set of a part."""
    with lzma.open(DATA, "rt", encoding="utf-8") as file:
        rows = list(map(json.loads, file))
    rows = [row for row in rows if row.get("part", "training") == part]
    return {name: [row for row in rows if row["set"] == name] for name in sorted({row["set"] for row in rows})}


def make_memory(model: RetrieverReader, texts: Mapping[str, str], folder: Path) -> None:
    """Make a memory of texts by file, `bank.mbc` in a folder with the files, unless it is there."""
    files = {folder / "documents" / name: text for name, text in texts.items()}
    if (folder / "bank.mbc").exists() and all(
        file.exists() and file.read_text(encoding="utf-8") == text for file, text in files.items()
    ):
        return
    if folder.exists():
        shutil.rmtree(folder)
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    with Memory(folder / "bank.mbc", model) as memory:
        for _event in memory.add([folder / "documents"]):
            pass


def ask_about(model: RetrieverReader, documents: Sequence[Mapping[str, Any]], folder: Path) -> list[Question]:
    """The questions about documents, whose memory is made in a folder."""
    make_memory(model, {document["file"]: document["text"] for document in documents}, folder)
    return [
        Question(asked["q"], str(file), asked["a"] or "", asked.get("in") or asked["a"] or "")
        for document in documents
        for file in [(folder / "documents" / document["file"]).resolve()]
        for asked in document["questions"]
    ]


def ask_about_part(model: RetrieverReader, part: Part, folder: Path) -> list[Question]:
    """The same for all sets of a part, in one memory."""
    numbered = enumerate(sets(part).values())
    documents = [row | {"file": f"{number}/{row['file']}"} for number, rows in numbered for row in rows]
    return ask_about(model, documents, folder)


def pairs(model: RetrieverReader, part: Part, folder: Path, seed: int) -> Iterator[Pair]:
    """All questions with the passage of their file that answers them, or seems to.

    For training, with passages of other documents, or others of the same, that were found for some, and without some of
    those that have no answer: so many that the words of a question do not tell whether it has one.
    """
    random = np.random.default_rng(seed)
    asked = {name: ask_about(model, documents, folder / name) for name, documents in sets(part).items()}
    odds = odds_of_none(asked) if part == "training" else {}
    for name, questions in asked.items():
        with MemoryBank.open(folder / name / "bank.mbc", read_only=True) as bank, bank.snapshot():
            found = model.search([question.text for question in questions], model.scope(bank), top=1024).chunks
            passages = Passages(bank, model.chunker)
            for question, hits in zip(questions, found, strict=True):
                guess = odds.get(question.text, _NONE)
                if not question.answer and random.random() >= _NONE / guess:
                    continue
                sources = passages.of(hit.chunk for hit in hits)
                texts = {hit.chunk: sources[hit.chunk].passage or "" for hit in hits}
                own = [chunk for chunk in texts if sources[chunk].path == question.file]
                golds = {chunk: gold for chunk in own if (gold := place_of(question, texts[chunk]))}
                if not own or (question.answer and not golds):
                    continue
                best = min(golds, key=lambda chunk: -golds[chunk][2]) if golds else own[0]  # the first found wins a tie
                chosen = [best]
                others = [chunk for chunk in list(texts)[:_WRONG_AMONG] if chunk not in {best, *golds}]
                if question.answer and others and random.random() < _NONE - guess:
                    chosen.append(int(random.choice(others)))
                for chunk in chosen:
                    context = passages.known(chunk).context
                    context = context if matches(question.text, context) else ""
                    gold = golds[chunk][:2] if chunk in golds else None
                    yield Pair(question.text, texts[chunk], context, gold, chunk == best)


def odds_of_none(asked: Mapping[str, Sequence[Question]]) -> dict[str, float]:
    """The odds that a question has no answer, by its words alone: a logistic regression fitted to other sets.

    Args:
        asked: questions by set.
    """
    every = [question for questions in asked.values() for question in questions]
    fold = torch.tensor([at % _FOLDS for at, questions in enumerate(asked.values()) for _ in questions])
    words = [[*dict.fromkeys(re.findall(r"\w+", question.text.lower()))] for question in every]
    counts = Counter(chain.from_iterable(words))
    columns = {word: at for at, word in enumerate(word for word, count in counts.items() if count >= _FEWEST)}
    there = torch.zeros(len(every), len(columns) + 1)
    there[:, -1] = 1.0  # for the intercept
    for row, said in enumerate(words):
        there[row, [columns[word] for word in said if word in columns]] = 1.0
    is_none = torch.tensor([not question.answer for question in every], dtype=torch.float32)
    logits = torch.zeros(len(every))
    for number in range(_FOLDS):
        others = fold != number
        logits[~others] = there[~others] @ _regression(there[others], is_none[others])
    return {question.text: math.exp(logit) for question, logit in zip(every, logits.tolist(), strict=True)}


def _regression(inputs: Tensor, targets: Tensor) -> Tensor:
    """The weights of a logistic regression with ridge penalty."""
    weights = torch.zeros(inputs.shape[1], requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> float:
        optimizer.zero_grad()
        fit = binary_cross_entropy_with_logits(inputs @ weights, targets) + _RIDGE * weights.square().sum()
        fit.backward()
        return fit.item()

    optimizer.step(loss)
    return weights.detach()


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
