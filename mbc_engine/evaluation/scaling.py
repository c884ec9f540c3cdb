"""Scaling: how quality, time and bytes change as the memory grows, on the same questions at every size."""

from collections.abc import Generator, Sequence

from mbc_engine.errors import DataError
from mbc_engine.evaluation.predictions import score
from mbc_engine.evaluation.results import Cost, Scaling, ScalingStep
from mbc_engine.evaluation.session import BATCH, Session
from mbc_engine.evaluation.stream import Stream
from mbc_engine.events import Event
from mbc_engine.methods.method import Method
from mbc_engine.metrics import Golds


def scaling(
    method: Method,
    stream: Stream,
    sizes: Sequence[int],
    *,
    golds: Golds = "shortest",
    batch_size: int = BATCH,
    seed: int = 0,
) -> Generator[Event, None, Scaling]:
    """Ask the questions about the first documents, as many as the smallest size, of memories of every size.

    Other documents only come in between: what changes from size to size is how many a method has to tell apart, or has
    learnt since, and nothing else. Times to take a document in are of those that were added for a size; see `online`.

    Args:
        method: what is evaluated; it is reset before, not after.
        stream: the documents and the questions.
        sizes: documents of the memories, in any order; those of more than the stream has are left out.
        golds: which gold answers count.
        batch_size: documents, and questions, at a time.
        seed: of the intervals' draws.

    Raises:
        DataError: the stream fills no memory.
    """
    filled = sorted({size for size in sizes if size <= len(stream.documents)})
    if not filled:
        raise DataError(
            f"{len(stream.documents):,} documents are too few for scaling, which begins with {min(sizes):,}.",
            hint="Take more documents, or give `scaling` smaller sizes.",
        )
    asked = stream.asked_about(filled[0])
    session = Session(
        method, stream, golds=golds, batch_size=batch_size, documents=filled[-1], questions=len(filled) * len(asked)
    )
    session.warm_up()
    steps: list[ScalingStep] = []
    for size in filled:
        added = size - session.end
        adapting = yield from session.adapt(size)
        answers = yield from session.ask(asked)
        kept = session.kept()
        cost = Cost(size, adapting / added, answers.seconds / len(asked), kept.on_disk, kept.paper_bytes)
        steps.append(ScalingStep(score(answers.predictions, names_sources=answers.names_sources, seed=seed), cost))
    return Scaling(tuple(steps))
