"""The protocols: which documents of a stream a method memorises, and when it is asked which questions.

Online adaptation (paper, section 4.2): a method memorises all documents, then answers the questions about them.
Retention (paper, section 4.4.3): how well the first documents are remembered as others arrive.
Scaling: online adaptation with the stream split into memories of one size and another, on the same questions, except
that a smaller last memory is dropped.
"""

import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

from mbc_engine.datasets.examples import QAExample, evenly_spaced
from mbc_engine.errors import DataError
from mbc_engine.evaluation.methods import Method
from mbc_engine.evaluation.results import Cost, Measurement, Prediction, predict, score
from mbc_engine.evaluation.statistics import ratio
from mbc_engine.evaluation.suite import Retention
from mbc_engine.events import Event, Progressed
from mbc_engine.metrics import Golds


@dataclass(frozen=True)
class Stream:
    """Documents in order of arrival, all questions about them, and the most that are asked."""

    documents: tuple[str, ...]
    examples: tuple[QAExample, ...]
    most_questions: int | None = None

    @cached_property
    def index_of(self) -> dict[str, int]:
        return {text: index for index, text in enumerate(self.documents)}

    def about(self, start: int, end: int) -> list[QAExample]:
        return [example for example in self.examples if start <= self.index_of[example.text] < end]

    def asked_about(self, end: int) -> list[QAExample]:
        return evenly_spaced(self.about(0, end), self.most_questions)


def stream(examples: Sequence[QAExample], documents: int | None = 1665, questions: int | None = None) -> Stream:
    """The first documents of a dataset and the questions about them; protocols ask at most `questions`, evenly spaced.

    Raises DataError if there are no questions.
    """
    if not examples:
        raise DataError("There are no questions to ask.", hint="Give a dataset with questions to test with.")
    texts = tuple(dict.fromkeys(example.text for example in examples))[:documents]
    taken = set(texts)
    return Stream(texts, tuple(example for example in examples if example.text in taken), questions)


class _Answered(NamedTuple):
    predictions: list[Prediction]
    cost: Cost
    names_sources: bool

    def measured(self, seed: int, **others: Any) -> Measurement:
        scores = score(self.predictions, names_sources=self.names_sources, seed=seed)
        return Measurement(scores, self.cost, predictions=self.predictions, **others)


def _rounds(
    method: Method,
    stream: Stream,
    rounds: Sequence[tuple[int, Sequence[QAExample]]],
    *,
    separate: bool,
    golds: Golds,
    batch_size: int,
) -> Generator[Event, None, list[_Answered]]:
    """Have a method memorise the stream up to one index after another, answering questions at each.

    `separate` rounds have a memory each. Questions are answered in batches, by length, after an untimed warm-up. Times
    are those of whole batches, averaged per document and question; work that a method defers until it is asked counts
    as answering time.
    """
    method.reset()
    method.adapt([stream.examples[0].text])
    method.answer([stream.examples[0].question])
    method.reset()
    total, answered = sum(len(asked) for _, asked in rounds), list[_Answered]()
    start = end = done = 0
    for until, asked in rounds:
        if separate:
            method.reset()
            start = end
        added, adapting, asking = until - end, 0.0, 0.0
        while end < until:
            texts, began = stream.documents[end : min(until, end + batch_size)], _now()
            method.adapt(texts)
            adapting += _now() - began
            end += len(texts)
            yield Progressed("take in documents", end, rounds[-1][0])
        found, names_sources = dict[int, Prediction](), False
        order = sorted(range(len(asked)), key=lambda number: len(asked[number].question))
        for batch in (order[first : first + batch_size] for first in range(0, len(order), batch_size)):
            began = _now()
            answers = method.answer([asked[number].question for number in batch])
            asking += _now() - began
            for number, answer in zip(batch, answers, strict=True):
                index = stream.index_of[asked[number].text]
                found[number] = predict(asked[number], answer, index, start=start, golds=golds)
                names_sources |= answer.sources is not None
            done += len(batch)
            yield Progressed("answer questions", done, total)
        stored = method.footprint()
        # The paper counts a row for every question, asked or not.
        rows = stored.paper_row and stored.paper_row * len(stream.about(start, end)) + stored.paper_fixed
        text = sum(len(one.encode(errors="surrogatepass")) for one in stream.documents[start:end])
        means = adapting / added, asking / max(1, len(asked))
        cost = Cost(end - start, *means, stored.on_disk, rows, stored.paper_fixed, text)
        answered.append(_Answered([found[number] for number in range(len(asked))], cost, names_sources))
    return answered


def _now() -> float:
    """The time in seconds, after pending GPU work has finished."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


def online(
    method: Method,
    stream: Stream,
    *,
    bank_documents: int | None = None,
    golds: Golds = "shortest",
    batch_size: int = 32,
    seed: int = 0,
) -> Generator[Event, None, Measurement]:
    """Have a method memorise the stream, then ask it the questions; it is reset before, not after.

    `bank_documents` splits the stream into memories of that many documents, each started empty and asked about its own;
    a smaller last one is dropped unless it is the only one. Costs are then means over the memories, and predictions are
    in their order. `seed` is for the bootstrap intervals.
    """
    size = min(bank_documents or len(stream.documents), len(stream.documents))
    rounds = [(end, list[QAExample]()) for end in range(size, len(stream.documents) + 1, size)]
    for example in stream.asked_about(len(rounds) * size):
        rounds[stream.index_of[example.text] // size][1].append(example)
    each = yield from _rounds(method, stream, rounds, separate=True, golds=golds, batch_size=batch_size)

    def mean(name: str) -> Any:
        values = [getattr(one.cost, name) for one in each]
        return None if None in values else round(fmean(values))

    adapting = fmean(one.cost.seconds_per_document for one in each)
    asking = fmean([one.cost.seconds_per_answer for one in each], [len(one.predictions) for one in each])
    cost = Cost(size, adapting, asking, *map(mean, ("on_disk", "paper_bytes", "shared", "text")))
    predictions = [prediction for one in each for prediction in one.predictions]
    return _Answered(predictions, cost, any(one.names_sources for one in each)).measured(seed, banks=len(rounds))


def evaluate(
    method: Method,
    examples: Sequence[QAExample],
    *,
    documents: int | None = None,
    bank_documents: int | None = None,
    questions: int | None = None,
    golds: Golds = "shortest",
    seed: int = 0,
) -> Generator[Event, None, Measurement]:
    """Measure how well a method answers questions about documents it has memorised; see `online`.

        measured = run_to_completion(evaluate(RetrieveAndRead(load_model("mini")), load_examples("questions.jsonl")))

    For a model of the paper's method, use `MemoryMethod(model)`. `documents`, `bank_documents` (per memory) and
    `questions` (evenly spaced) are upper limits; None takes all. What is measured has scores in percent, seconds, bytes,
    and every answer. Raises DataError if there are no questions.
    """
    taken = stream(examples, documents, questions)
    return online(method, taken, bank_documents=bank_documents, golds=golds, seed=seed)


def retention(
    method: Method, stream: Stream, settings: Retention, *, golds: Golds = "shortest", seed: int = 0
) -> Generator[Event, None, tuple[Measurement, ...]]:
    """Ask about the `first` documents once they are memorised, and again after every `step` of up to `further` others.

    A shorter stream gives fewer steps; raises DataError if it ends before the first.
    """
    first, step = settings.first, settings.step
    sizes = range(first, min(first + settings.further, len(stream.documents)) + 1, step)
    if len(sizes) < 2:
        raise DataError(
            f"{len(stream.documents):,} documents are too few for retention, which needs {first:,} to ask about "
            f"and at least {step:,} more.",
            hint="Use more documents, or lower `first` and `step` of [retention].",
        )
    rounds = [(size, stream.asked_about(first)) for size in sizes]
    each = yield from _rounds(method, stream, rounds, separate=False, golds=golds, batch_size=32)
    f1 = [[prediction.f1 for prediction in one.predictions] for one in each]
    clusters = [prediction.cluster for prediction in each[0].predictions]
    kept = [ratio(now, f1[0], clusters, seed=seed) for now in f1]
    return tuple(one.measured(seed, retained=share) for one, share in zip(each, kept, strict=True))
