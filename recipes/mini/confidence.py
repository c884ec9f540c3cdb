"""The confidence of `mini`: a logistic regression that says how likely an answer is right, and its threshold.

    python recipes/mini/confidence.py --data ../shared/data --out build/mini/confidence
    python recipes/mini/confidence.py --data ../shared/data --out build/mini/confidence --write

Asks banks of some 400 paragraphs of SQuAD's training set that the reader did not learn from: one of neighbouring
paragraphs of a few articles, two of paragraphs from everywhere. What the search and the reader say of each answer is
kept bank by bank in `--out`; run again, it goes on from there. `--write` puts the regression into mini's `config.toml`.

SQuAD's training set has one gold answer a question, where people give several. Of answers that share some words with
one gold of SQuADShifts' reviews and posts, but are not it, 39% (F1 below 0.5) and 55% (from 0.5 on) were another
annotator's, measured on 700 of its questions with three golds or more; so much they count here. One that shares no word
counts as wrong, as does anything but the gold itself that is read in another paragraph.
Nothing of `squad_val` is read.
"""

import json
import lzma
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from options import begin, stage_parser

from mbc_engine import RetrieverReader, load_model
from mbc_engine.bank import MemoryBank, Origin, StoredDocument
from mbc_engine.config import CONFIG, AnswerConfidence, RetrieverReaderConfig, packaged_model
from mbc_engine.lm.coding import signature
from mbc_engine.metrics import compare
from mbc_engine.mini.confidence import choose, features
from mbc_engine.mini.retrieval import Scope
from mbc_engine.text import Chunk

PARAGRAPHS = 400
BATCH = 8
# What an answer that is not the gold counts, by its F1; see above.
SOME_WORDS, HALF = 0.39, 0.55
# The threshold: of the answers that are given, so many are to be right, by the regression's own word.
PRECISION = 0.76


@dataclass(frozen=True)
class Asked:
    """A bank's paragraphs, and questions, each with its gold answer and the paragraph it is about."""

    name: str
    paragraphs: list[str]
    questions: list[tuple[str, str, int]]


def rows(data: Path, name: str) -> list[dict[str, str]]:
    with lzma.open(data / "qa" / f"{name}.jsonl.xz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def banks(data: Path) -> Iterator[Asked]:
    """The banks; paragraphs with a question that the reader learnt from are left out."""
    learnt = {_plain(row["question"]) for name in ("squad_train_part", "squad_val") for row in rows(data, name)}
    for name, counts in (("squad_realigned", 1), ("squad_cs224n_val", 2)):
        every = rows(data, name)
        seen = {row["text"] for row in every if _plain(row["question"]) in learnt}
        titles: dict[str, list[str]] = {}
        for row in every:
            if row["text"] not in seen:
                titles.setdefault(row["title"], []).append(row["text"])
        shuffled = sorted(titles)
        random.Random(0).shuffle(shuffled)
        texts = [text for title in shuffled for text in dict.fromkeys(titles[title])]
        if len(titles) == 1:
            random.Random(1).shuffle(texts)
        for number in range(counts):
            own = texts[number * PARAGRAPHS : (number + 1) * PARAGRAPHS]
            places = {text: place for place, text in enumerate(own)}
            asked = [
                (row["question"], row["answers"][0], places[row["text"]]) for row in every if row["text"] in places
            ]
            yield Asked(f"{name}-{number}", own, asked)


def _plain(text: str) -> str:
    return re.sub(r"\W+", "", text.lower())


def measured(model: RetrieverReader, asked: Asked) -> NDArray[np.float64]:
    """Features and worth of the answer to each question: [Q, features + 1]."""
    bank = MemoryBank.create(None, signature(model), model.code_shape, model.codebooks.shape[-1], keeps_text=True)
    with bank:
        for start in range(0, len(asked.paragraphs), 64):
            texts = asked.paragraphs[start : start + 64]
            codes = model.memorise(texts)
            bank.put(
                [
                    StoredDocument(f"{place:032x}", 1, 1, (Origin(f"/{place}", "", None),), own[None], [Chunk(text, 0)])
                    for place, (text, own) in enumerate(zip(texts, codes, strict=True), start)
                ]
            )
        with bank.snapshot():
            scope, result = model.scope(bank), []
            for start in range(0, len(asked.questions), BATCH):
                result += _answers(model, scope, asked.questions[start : start + BATCH])
                if start % (50 * BATCH) == 0:
                    print(f"{asked.name}: {start} of {len(asked.questions)}", flush=True)
    return np.array(result)


def _answers(model: RetrieverReader, scope: Scope, asked: list[tuple[str, str, int]]) -> Iterator[list[float]]:
    questions = [question for question, _, _ in asked]
    found = model.find(questions, scope, top=model.settings.passages)
    texts = [[text for text, _ in scope.bank.texts_at([hit.chunk for hit in hits])] for hits in found]
    several = model.reader.spans(questions, texts)
    for (question, gold, about), hits, spans in zip(asked, found, several, strict=True):
        shares = [hit.share for hit in hits]
        best = choose(spans, shares)
        if best is None:
            continue
        span = spans[best]
        assert span is not None
        match = compare(span.text, [gold])
        worth = float(match.exact_match)
        if not match.exact_match and hits[best].chunk == about and match.f1:
            worth = SOME_WORDS if match.f1 < 0.5 else HALF
        yield [*features(question, spans, shares, best), worth]


def fitted(values: NDArray[np.float64], worth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights and intercept of a logistic regression towards soft targets."""
    inputs, targets = torch.from_numpy(values), torch.from_numpy(worth)
    line = torch.zeros(values.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([line], max_iter=500, line_search_fn="strong_wolfe", tolerance_grad=1e-10)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        odds = inputs @ line[:-1] + line[-1]
        value = torch.nn.functional.binary_cross_entropy_with_logits(odds, targets) + 1e-4 * line[:-1].square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return line.detach().numpy()


def probabilities(values: NDArray[np.float64], line: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-(values @ line[:-1] + line[-1])))


def area(scores: NDArray[np.float64], is_right: NDArray[np.bool_]) -> float:
    """Area under the receiver operating characteristic: how often a right answer has more than a wrong one."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(1, len(scores) + 1)
    right, wrong = is_right.sum(), (~is_right).sum()
    return float((ranks[is_right].sum() - right * (right + 1) / 2) / (right * wrong))


def threshold_for(found: NDArray[np.float64], precision: float) -> float:
    """The smallest probability from which on so many answers are right, by what the probabilities say."""
    order = np.sort(found)[::-1]
    kept = np.flatnonzero(np.cumsum(order) / np.arange(1, len(order) + 1) >= precision)
    return round(float(order[kept[-1]]), 2)


def main() -> None:
    parser = stage_parser(__doc__, "data", "out", "threads", "device", "seed")
    parser.add_argument("--write", action="store_true", help="put the result into mini's config.toml")
    args = begin(parser)
    model = load_model("mini", device=args.device)
    assert isinstance(model, RetrieverReader)
    found = []
    for asked in banks(args.data):
        path = args.out / f"{asked.name}.npy"
        if not path.exists():
            np.save(path, measured(model, asked))
        found.append(np.load(path))
    for place, own in enumerate(found):
        others = np.concatenate([other for at, other in enumerate(found) if at != place])
        line = fitted(others[:, :-1], others[:, -1])
        said = probabilities(own[:, :-1], line)
        print(
            f"bank {place + 1}, {len(own)} questions, fitted on the others: AUC {area(said, own[:, -1] == 1):.3f}, "
            f"mean {said.mean():.3f}, right {own[:, -1].mean():.3f}"
        )
    every = np.concatenate(found)
    line = fitted(every[:, :-1], every[:, -1])
    said = probabilities(every[:, :-1], line)
    threshold = threshold_for(said, PRECISION)
    print(f"weights {line[:-1].round(4).tolist()}, intercept {line[-1]:.4f}, threshold {threshold}")
    print(f"answered {(said >= threshold).mean():.3f}, right of these {every[said >= threshold, -1].mean():.3f}")
    if args.write:
        confidence = AnswerConfidence(
            weights=tuple(float(value) for value in line[:-1].round(4)),
            intercept=round(float(line[-1]), 4),
            threshold=threshold,
        )
        settings = model.settings.model_copy(update={"confidence": confidence})
        path = packaged_model("mini") / CONFIG
        path.write_text(RetrieverReaderConfig(retriever_reader=settings).to_toml())


if __name__ == "__main__":
    main()
