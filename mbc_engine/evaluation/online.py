"""Online adaptation (paper, section 4.2): a method takes in all documents, then answers the questions about them."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from statistics import fmean

from mbc_engine.datasets.example import QAExample
from mbc_engine.evaluation.predictions import score
from mbc_engine.evaluation.results import Cost, Online, Prediction
from mbc_engine.evaluation.session import BATCH, Kept, Session
from mbc_engine.evaluation.stream import Stream, stream
from mbc_engine.events import Event
from mbc_engine.methods.method import Method
from mbc_engine.metrics import Golds


@dataclass(frozen=True)
class Outcome:
    """What online adaptation came to, and every answer of it."""

    online: Online
    predictions: list[Prediction]


def online(
    method: Method,
    stream: Stream,
    *,
    bank_documents: int | None = None,
    golds: Golds = "shortest",
    batch_size: int = BATCH,
    seed: int = 0,
) -> Generator[Event, None, Outcome]:
    """Let a method take in the stream, and ask it the questions.

    Times are of whole batches, shared out among their documents and questions; what a method puts off until it is
    asked counts as time to answer. One document and one question come before, untimed, and are forgotten again.

    Args:
        method: what is evaluated; it is reset before, not after.
        stream: the documents and the questions.
        bank_documents: how many documents a memory holds. The stream is then cut into as many as it fills, a method
            begins each anew and is asked about its documents alone; a last, smaller one is left out unless it is the
            only one. None puts all documents in one memory.
        golds: which gold answers count.
        batch_size: documents, and questions, at a time.
        seed: of the intervals' draws.

    Returns:
        The figures, and the predictions in the order of the memories. Costs are means over the memories.
    """
    size = min(bank_documents or len(stream.documents), len(stream.documents))
    banks = len(stream.documents) // size
    asked = stream.asked_about(banks * size)
    session = Session(method, stream, golds=golds, batch_size=batch_size, documents=banks * size, questions=len(asked))
    session.warm_up()
    members: list[list[QAExample]] = [[] for _ in range(banks)]
    for example in asked:
        members[stream.place_of[example.text] // size].append(example)
    asked_seconds, adapted_seconds, names_sources = 0.0, 0.0, False
    predictions: list[Prediction] = []
    kept: list[Kept] = []
    for own in members:
        session.begin_anew()
        adapted_seconds += yield from session.adapt(session.start + size)
        answers = yield from session.ask(own)
        asked_seconds += answers.seconds
        names_sources |= answers.names_sources
        predictions += answers.predictions
        kept.append(session.kept())
    papers = [own.paper_bytes for own in kept if own.paper_bytes is not None]
    cost = Cost(
        documents=size,
        seconds_per_document=adapted_seconds / (banks * size),
        seconds_per_answer=asked_seconds / len(predictions),
        on_disk=round(fmean(own.on_disk for own in kept)),
        paper_bytes=round(fmean(papers)) if papers else None,
    )
    scores = score(predictions, names_sources=names_sources, seed=seed)
    return Outcome(Online(banks, scores, cost), predictions)


def evaluate(
    method: Method,
    examples: Sequence[QAExample],
    *,
    documents: int | None = None,
    bank_documents: int | None = None,
    questions: int | None = None,
    golds: Golds = "shortest",
    seed: int = 0,
) -> Generator[Event, None, Outcome]:
    """How well a method answers questions about documents that it takes in first; see `online`.

        outcome = result_of(evaluate(RetrieveAndRead(load_model("mini")), load_examples("questions.jsonl")))

    Args:
        method: what is evaluated, such as `RetrieveAndRead(model)`, or `Compressed(model)` for a model of the paper's method.
        examples: questions and their documents.
        documents: most documents; None takes all.
        bank_documents: how many documents a memory holds; None puts all in one.
        questions: most questions, spread evenly; None asks all.
        golds: which gold answers count.
        seed: of the intervals' draws.

    Returns:
        An `Outcome`. `online.scores` has exact match, F1 and how often the right document came first, in percent;
        `online.cost` seconds and bytes; `predictions` every answer.

    Raises:
        DataError: there are no questions.
    """
    taken = stream(examples, documents, questions)
    return online(method, taken, bank_documents=bank_documents, golds=golds, seed=seed)
