"""The confidence of a reader of `mini`: a logistic regression for the probability that an answer is right, and the
minimum margin over "not here" for giving an answer.

    python recipes/mini/confidence.py --data ../shared/data --out build/mini/confidence --reader large
    python recipes/mini/confidence.py --data ../shared/data --out build/mini/confidence --reader large --write

Queries two banks of articles that no reader was trained on: one holds whole articles, the other paragraphs. Every
question is also asked with its paragraph removed, so that nothing in the bank answers it; these weigh a quarter in the
fit. The reader's results are saved in `--out` bank by bank; a rerun resumes from there. `--write` puts the regression
into mini's `config.toml`.

SQuAD's training set has one gold answer per question, where people give several. Of the answers that share words with
one gold of SQuADShifts' reviews and posts, but are not equal to it, 39% (F1 below 0.5) and 55% (F1 of 0.5 or more) were
another annotator's, measured on 700 of its questions with at least three golds; these are their targets here. An answer
that shares no word is wrong, as is anything but the gold itself if it was read in another paragraph. Nothing of
`squad_val` is read.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from options import begin, stage_parser
from reader_data import Row, is_held_out, read_rows

from mbc_engine import RetrieverReader, load_model
from mbc_engine.bank import MemoryBank, Origin, StoredDocument
from mbc_engine.config import AnswerConfidence, RetrieverReaderConfig
from mbc_engine.metrics import compare
from mbc_engine.mini.confidence import features
from mbc_engine.mini.retrieval import Scope
from mbc_engine.model import signature
from mbc_engine.names import CONFIG, packaged_model
from mbc_engine.ranking import Hit
from mbc_engine.text import Chunk

QUESTIONS = 300
BATCH = 8
# Targets for answers that are not the gold, by F1; see above.
SOME_WORDS, HALF = 0.39, 0.55
# Weight of a question without an answer in the bank; one with an answer has 1.
NONE_WEIGHT = 0.25
# Sets the minimum margin: the share of questions without an answer in the bank that are still answered.
FALSE_ANSWERS = 0.1


@dataclass(frozen=True)
class Asked:
    """A bank's chunks by document, and questions, each with its gold answer and the chunks it is about."""

    name: str
    documents: list[list[Chunk]]
    questions: list[tuple[str, str, set[int]]]


def banks(model: RetrieverReader, data: Path) -> Iterator[Asked]:
    """The held-out articles in two halves, and some questions about each."""
    articles: dict[str, dict[str, list[Row]]] = {}
    for row in (row for name in ("squad_train_part", "squad_realigned") for row in read_rows(data, name)):
        if is_held_out(row):
            articles.setdefault(row.title, {}).setdefault(row.text, []).append(row)
    for number, name in enumerate(("articles", "paragraphs")):
        texts: list[tuple[str, list[Row]]] = []
        for title in sorted(articles)[number::2]:
            if name == "articles":
                rows = [row for own in articles[title].values() for row in own]
                texts.append(("\n\n".join(articles[title]), rows))
            else:
                texts += articles[title].items()
        documents, questions, first = [], [], 0
        for text, rows in texts:
            documents.append(model.chunker.chunks(text))
            for row in rows:
                start = text.index(row.text)
                end = start + len(row.text)
                places = enumerate(documents[-1], first)
                about = {place for place, own in places if own.start < end and own.start + len(own.text) > start}
                questions.append((row.question, row.answers[0], about))
            first += len(documents[-1])
        yield Asked(name, documents, random.Random(number).sample(questions, min(len(questions), QUESTIONS)))


def measured(model: RetrieverReader, asked: Asked) -> NDArray[np.float64]:
    """Margin, votes, target and weight of the answers to each question: [at most 2 Q, 4]."""
    bank = MemoryBank.create(None, signature(model), model.code_shape, model.codebooks.shape[-1], keeps_text=True)
    with bank:
        for number, chunks in enumerate(asked.documents):
            codes = np.concatenate([model.memorise([own.text]) for own in chunks])
            bank.put(
                [StoredDocument(f"{number:032x}", len(chunks), 1, (Origin(f"/{number}", "", None),), codes, chunks)]
            )
        with bank.snapshot():
            scope, result = model.scope(bank), []
            for start in range(0, len(asked.questions), BATCH):
                result += _answers(model, scope, asked.questions[start : start + BATCH])
                if start % (10 * BATCH) == 0:
                    print(f"{asked.name}: {start} of {len(asked.questions)}", flush=True)
    return np.array(result)


def _answers(model: RetrieverReader, scope: Scope, asked: list[tuple[str, str, set[int]]]) -> Iterator[list[float]]:
    def texts_of(hits: Iterable[Hit]) -> dict[int, str | None]:
        several = [hit.chunk for hit in hits]
        return {chunk: text for chunk, (text, _) in zip(several, scope.bank.texts_at(several), strict=True)}

    questions = [question for question, *_ in asked]
    found = model.search(questions, scope).chunks
    for is_there in (True, False):
        hits = [own if is_there else _without(own, about) for own, (*_, about) in zip(found, asked, strict=True)]
        for (_, gold, about), answered in zip(asked, model.read(questions, hits, texts_of), strict=True):
            if answered.best is None:
                continue
            several, spans = [hit for hit, *_ in answered.read_chunks], [span for *_, span in answered.read_chunks]
            place = answered.best.passage
            match = compare(answered.best.text, [gold])
            worth = float(match.exact_match)
            if not match.exact_match and several[place].chunk in about and match.f1:
                worth = SOME_WORDS if match.f1 < 0.5 else HALF
            values = features(spans, [hit.share for hit in several], place)
            yield [*values, worth, 1.0 if is_there else NONE_WEIGHT]


def _without(hits: Sequence[Hit], chunks: set[int]) -> list[Hit]:
    """The hits that there would be without these chunks in the bank."""
    left = [hit for hit in hits if hit.chunk not in chunks]
    total = 1 - sum(hit.share for hit in hits if hit.chunk in chunks)
    return [replace(hit, share=min(1.0, hit.share / max(total, 1e-9))) for hit in left]


def fitted(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights and intercept of a logistic regression on soft targets, from what `measured` returns."""
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
    """Area under the ROC curve: how often a right answer scores higher than a wrong one."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(1, len(scores) + 1)
    right, wrong = is_right.sum(), (~is_right).sum()
    return float((ranks[is_right].sum() - right * (right + 1) / 2) / (right * wrong))


def report(found: NDArray[np.float64], said: NDArray[np.float64], least: float) -> str:
    """How well probabilities separate right answers from wrong ones, and how many pass the minimum margin."""
    there, given = found[:, -1] == 1, found[:, 0] >= least
    return (
        f"AUC {area(said[there], found[there, -2] == 1):.3f}, mean confidence {said[there].mean():.3f}, "
        f"right {found[there, -2].mean():.3f}; answered {given[there].mean():.3f}, right of those answered "
        f"{found[there & given, -2].mean():.3f}; answered without the paragraph {given[~there].mean():.3f}"
    )


def main() -> None:
    parser = stage_parser(__doc__, "data", "out", "threads", "device", "seed")
    parser.add_argument("--reader", required=True, help="the reader's name in mini's config.toml")
    parser.add_argument("--write", action="store_true", help="write the result to mini's config.toml")
    args = begin(parser)
    model = load_model("mini", device=args.device, reader=args.reader)
    assert isinstance(model, RetrieverReader)
    found = []
    for asked in banks(model, args.data):
        path = args.out / f"{args.reader}-{asked.name}.npy"
        if not path.exists():
            np.save(path, measured(model, asked))
        found.append(np.load(path))
    every = np.concatenate(found)
    line = fitted(every)
    least = round(float(np.quantile(every[every[:, -1] < 1, 0], 1 - FALSE_ANSWERS)), 2)
    for own, other in zip(found, found[::-1], strict=True):
        print(f"fitted on the other half: {report(own, probabilities(own, fitted(other)), least)}")
    print(f"weights {line[:-1].round(4).tolist()}, intercept {line[-1]:.4f}, minimum margin {least}")
    print(report(every, probabilities(every, line), least))
    if args.write:
        confidence = AnswerConfidence(
            weights=tuple(float(value) for value in line[:-1].round(4)),
            intercept=round(float(line[-1]), 4),
            least_margin=least,
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
