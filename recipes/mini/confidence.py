"""The confidence of a reader of `mini`: a logistic regression that says how likely an answer is right, and a threshold.

    python recipes/mini/confidence.py --data ../shared/data --out build/mini/confidence --reader large
    python recipes/mini/confidence.py --data ../shared/data --out build/mini/confidence --reader large --write

Asks two banks of articles that no reader learnt from. Every question is also asked with its paragraph taken out, which
nothing in the bank then answers; in what is learnt these count a quarter. What the search and the reader say of each
answer is kept bank by bank in `--out`; run again, it goes on from there. `--write` puts the regression into mini's
`config.toml`.

SQuAD's training set has one gold answer a question, where people give several. Of answers that share some words with
one gold of SQuADShifts' reviews and posts, but are not it, 39% (F1 below 0.5) and 55% (from 0.5 on) were another
annotator's, measured on 700 of its questions with three golds or more; so much they count here. One that shares no word
counts as wrong, as does anything but the gold itself that is read in another paragraph.
Nothing of `squad_val` is read.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from options import begin, stage_parser
from reader_data import is_held_out, read_rows

from mbc_engine import RetrieverReader, load_model
from mbc_engine.bank import MemoryBank, Origin, StoredDocument
from mbc_engine.config import CONFIG, AnswerConfidence, RetrieverReaderConfig, packaged_model
from mbc_engine.lm.coding import signature
from mbc_engine.metrics import compare
from mbc_engine.mini.confidence import choose, features
from mbc_engine.mini.retrieval import Scope
from mbc_engine.ranking import Hit
from mbc_engine.text import Chunk

QUESTIONS = 1200
BATCH = 8
# What an answer that is not the gold counts, by its F1; see above.
SOME_WORDS, HALF = 0.39, 0.55
# What a question without an answer in the bank counts beside one with an answer.
NONE_WEIGHT = 0.25
# The threshold: of the questions without an answer in the bank, so many are answered nevertheless.
FALSE_ANSWERS = 0.1


@dataclass(frozen=True)
class Asked:
    """A bank's paragraphs, and questions, each with its gold answer and the paragraph it is about."""

    name: str
    paragraphs: list[str]
    questions: list[tuple[str, str, int]]


def banks(data: Path) -> Iterator[Asked]:
    """The held-out articles in two halves, and some questions about each."""
    rows = [row for name in ("squad_train_part", "squad_realigned") for row in read_rows(data, name)]
    held_out = [row for row in rows if is_held_out(row)]
    titles = sorted({row.title for row in held_out})
    for number in range(2):
        own = [row for row in held_out if row.title in titles[number::2]]
        places = {text: place for place, text in enumerate(dict.fromkeys(row.text for row in own))}
        asked = [(row.question, row.answers[0], places[row.text]) for row in own]
        yield Asked(f"held-out-{number}", list(places), random.Random(number).sample(asked, min(len(asked), QUESTIONS)))


def measured(model: RetrieverReader, asked: Asked) -> NDArray[np.float64]:
    """Features, worth and weight of the answers to each question: [2 Q, features + 2]."""
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
    found = model.find(questions, scope, top=model.settings.candidates)
    for is_there in (True, False):
        several = [
            model.to_read(hits if is_there else _without(hits, about))
            for hits, (_, _, about) in zip(found, asked, strict=True)
        ]
        texts = [[text for text, _ in scope.bank.texts_at([hit.chunk for hit in hits])] for hits in several]
        read = model.reader.spans(questions, texts)
        for (question, gold, about), hits, spans in zip(asked, several, read, strict=True):
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
            yield [*features(question, spans, shares, best), worth, 1.0 if is_there else NONE_WEIGHT]


def _without(hits: list[Hit], chunk: int) -> list[Hit]:
    """What would have been found, had this chunk not been in the bank."""
    left = [hit for hit in hits if hit.chunk != chunk]
    total = 1 - sum(hit.share for hit in hits if hit.chunk == chunk)
    return [replace(hit, share=min(1.0, hit.share / max(total, 1e-9))) for hit in left]


def fitted(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights and intercept of a logistic regression towards soft targets, from what `measured` returns."""
    inputs, targets, weights = map(torch.from_numpy, (found[:, :-2], found[:, -2], found[:, -1]))
    line = torch.zeros(inputs.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([line], max_iter=500, line_search_fn="strong_wolfe", tolerance_grad=1e-10)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        odds = inputs @ line[:-1] + line[-1]
        value = torch.nn.functional.binary_cross_entropy_with_logits(odds, targets, weights)
        value = value + 1e-4 * line[:-1].square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return line.detach().numpy()


def probabilities(found: NDArray[np.float64], line: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-(found[:, :-2] @ line[:-1] + line[-1])))


def area(scores: NDArray[np.float64], is_right: NDArray[np.bool_]) -> float:
    """Area under the receiver operating characteristic: how often a right answer has more than a wrong one."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(1, len(scores) + 1)
    right, wrong = is_right.sum(), (~is_right).sum()
    return float((ranks[is_right].sum() - right * (right + 1) / 2) / (right * wrong))


def report(found: NDArray[np.float64], said: NDArray[np.float64], threshold: float) -> str:
    """How well probabilities distinguish answers, and how many a threshold lets through."""
    there, given = found[:, -1] == 1, said >= threshold
    return (
        f"AUC {area(said[there], found[there, -2] == 1):.3f}, said {said[there].mean():.3f}, "
        f"right {found[there, -2].mean():.3f}; answered {given[there].mean():.3f}, of these right "
        f"{found[there & given, -2].mean():.3f}; without the paragraph answered {given[~there].mean():.3f}"
    )


def main() -> None:
    parser = stage_parser(__doc__, "data", "out", "threads", "device", "seed")
    parser.add_argument("--reader", required=True, help="its name in mini's config.toml")
    parser.add_argument("--write", action="store_true", help="put the result into mini's config.toml")
    args = begin(parser)
    model = load_model("mini", device=args.device, reader=args.reader)
    assert isinstance(model, RetrieverReader)
    found = []
    for asked in banks(args.data):
        path = args.out / f"{args.reader}-{asked.name}.npy"
        if not path.exists():
            np.save(path, measured(model, asked))
        found.append(np.load(path))
    every = np.concatenate(found)
    line = fitted(every)
    said = probabilities(every, line)
    threshold = round(float(np.quantile(said[every[:, -1] < 1], 1 - FALSE_ANSWERS)), 2)
    for own, other in zip(found, found[::-1], strict=True):
        print(f"fitted on the other half: {report(own, probabilities(own, fitted(other)), threshold)}")
    print(f"weights {line[:-1].round(4).tolist()}, intercept {line[-1]:.4f}, threshold {threshold}")
    print(report(every, said, threshold))
    if args.write:
        confidence = AnswerConfidence(
            weights=tuple(float(value) for value in line[:-1].round(4)),
            intercept=round(float(line[-1]), 4),
            threshold=threshold,
        )
        readers = tuple(
            own.model_copy(update={"confidence": confidence}) if own.name == args.reader else own
            for own in model.settings.readers
        )
        settings = model.settings.model_copy(update={"readers": readers})
        path = packaged_model("mini") / CONFIG
        path.write_text(RetrieverReaderConfig(retriever_reader=settings).to_toml())


if __name__ == "__main__":
    main()
