"""Retention (paper, section 4.4.3): how well the first documents are still known while others arrive."""

from collections.abc import Generator
from statistics import fmean

from mbc_engine.errors import DataError
from mbc_engine.evaluation.results import Retention, RetentionStep
from mbc_engine.evaluation.session import BATCH, Session
from mbc_engine.evaluation.stream import Stream
from mbc_engine.events import Event
from mbc_engine.methods.method import Method
from mbc_engine.metrics import Golds


def retention(
    method: Method,
    stream: Stream,
    *,
    first: int = 200,
    step: int = 200,
    further: int = 1400,
    golds: Golds = "shortest",
    batch_size: int = BATCH,
) -> Generator[Event, None, Retention]:
    """Ask the questions about the first documents after these, and again each time that so many more were taken in.

    Args:
        method: what is evaluated; it is reset before, not after.
        stream: the documents and the questions; a shorter one gives fewer steps.
        first: how many documents are asked about.
        step: documents from one time to the next.
        further: documents beyond the first, at most.
        golds: which gold answers count.
        batch_size: documents, and questions, at a time.

    Raises:
        DataError: the stream ends before the first step.
    """
    sizes = range(first, min(first + further, len(stream.documents)) + 1, step)
    if len(sizes) < 2:
        raise DataError(
            f"{len(stream.documents):,} documents are too few for retention: {first:,} are asked about, and at least "
            f"{step:,} have to follow.",
            hint="Take more documents, or set `first` and `step` of [retention] to less.",
        )
    asked = stream.asked_about(first)
    session = Session(
        method, stream, golds=golds, batch_size=batch_size, documents=sizes[-1], questions=len(sizes) * len(asked)
    )
    steps: list[RetentionStep] = []
    for size in sizes:
        yield from session.adapt(size)
        answers = yield from session.ask(asked)
        exact_match = 100 * fmean(prediction.exact_match for prediction in answers.predictions)
        f1 = 100 * fmean(prediction.f1 for prediction in answers.predictions)
        at_first = steps[0].f1 if steps else f1
        retained = 100 * (f1 / at_first) if at_first else None
        kept = session.kept()
        steps.append(RetentionStep(size, exact_match, f1, retained, kept.on_disk, kept.paper_bytes))
    return Retention(len(asked), tuple(steps))
