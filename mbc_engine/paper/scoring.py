"""Answering questions from a memory of their own documents, and scoring the answers and sources."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from mbc_engine.datasets.examples import QAExample
from mbc_engine.metrics import Scores, compare, shortest
from mbc_engine.paper.codebook import Codebook
from mbc_engine.paper.memories import CodeMemory, ReadableMemory, VectorMemory
from mbc_engine.paper.model import MBC
from mbc_engine.paper.read_modes import Reader
from mbc_engine.text.chunks import Chunker

# How many source documents an answer names.
SOURCES: Final = 5
_BATCH: Final = 32  # questions that are answered together

# A memory of texts, each one document, and the text index of each chunk, [chunks]; blank texts are not in the memory.
Memorised = tuple[ReadableMemory, NDArray[np.int64]]


def ask_all(
    model: MBC, examples: Sequence[QAExample], *, asked: Sequence[QAExample] | None = None, read_mode: str | None = None
) -> Iterator[tuple[QAExample, str, int | None]]:
    """Memorise the examples' documents, each once, and answer all questions, or those `asked`, from that memory.

    Yields each example, its answer, and the 0-based rank of its document among the sources; None beyond the first five.
    """
    asked = examples if asked is None else asked
    texts = list(dict.fromkeys(example.text for example in examples))
    numbers = {text: number for number, text in enumerate(texts)}
    questions = [example.question for example in asked]
    answers = answer_from(model, questions, memorise_documents(model, texts), read_mode=read_mode)
    for example, (answer, sources) in zip(asked, answers, strict=True):
        document = numbers[example.text]
        yield example, answer, sources.index(document) if document in sources else None


def answer_from(
    model: MBC,
    questions: Sequence[str],
    memorised: Memorised,
    *,
    read_mode: str | None = None,
    reader: Reader | None = None,
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Answer questions batch by batch: yields each answer and the indices of its source texts, best first."""
    reader, (memory, document_of) = reader or model.reader(), memorised
    for start in range(0, len(questions), _BATCH):
        batch = questions[start : start + _BATCH]
        for answer, hits in model.answer_from(batch, memory, read_mode=read_mode, top=SOURCES, reader=reader):
            yield answer, tuple(int(document_of[hit.chunk]) for hit in hits)


@torch.no_grad()
def answer_losses(model: MBC, texts: Sequence[str], asked: Sequence[QAExample]) -> list[float]:
    """The base LM's loss on each question's shortest gold answer, in nats per token, with a memory of the texts."""
    memory, _ = memorise_documents(model, texts)
    reader, losses = model.reader(), list[float]()
    for start in range(0, len(asked), _BATCH):
        batch = asked[start : start + _BATCH]
        questions = [example.question for example in batch]
        prefix = model.prefix(model.read(questions, memory, reader=reader).modulation)
        golds = [shortest(example.answers) for example in batch]
        losses += (-model.base.log_likelihood(prefix, questions, golds)).tolist()
    return losses


def memorise_documents(model: MBC, texts: Sequence[str]) -> Memorised:
    """A memory of texts of any length: codes, or vectors where the model does not quantise (yet)."""
    pieces = [model.chunker(text) for text in texts]
    lengths, chunks = list(map(len, pieces)), list(chain.from_iterable(pieces))
    if model.is_quantising:
        return memorised(model.memorise(chunks), lengths, model.require_codebook())
    return memorised(model.amortise(chunks), lengths)


def memorised(chunks: Any, lengths: Sequence[int], codebook: Codebook | None = None) -> Memorised:
    """A memory of chunks, given as codes of a codebook or else as vectors, of which each text has so many."""
    numbers = np.array(lengths, np.int64)
    counts, document_of = numbers[numbers > 0], np.repeat(np.arange(len(numbers)), numbers)
    return VectorMemory(chunks, counts) if codebook is None else CodeMemory(chunks, codebook, counts), document_of


def score(outcomes: Sequence[tuple[QAExample, str, int | None]]) -> Scores:
    """Means over what `ask_all` yielded, in percent; against the shortest gold answer, as in the paper."""
    matches = [compare(answer, example.answers) for example, answer, _ in outcomes]

    def percent(values: Sequence[float]) -> float:
        return 100 * sum(values) / max(1, len(values))

    return Scores(
        questions=len(outcomes),
        exact_match=percent([match.exact_match for match in matches]),
        f1=percent([match.f1 for match in matches]),
        first_source=percent([rank == 0 for *_, rank in outcomes]),
    )


def within_window(examples: Sequence[QAExample], chunker: Chunker) -> list[QAExample]:
    """Cut documents that exceed the window to their first chunk with the shortest answer, or else their first chunk."""
    texts = list(dict.fromkeys(example.text for example in examples))
    counted = zip(texts, chunker.token_counts(texts), strict=True)
    chunks, fitting = {text: chunker(text) for text, count in counted if count > chunker.capacity}, []
    for example in examples:
        pieces, answer = chunks.get(example.text, [example.text]), shortest(example.answers)
        fitting.append(replace(example, text=next((piece for piece in pieces if answer in piece), pieces[0])))
    return fitting
