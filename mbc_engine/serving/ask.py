"""Answering questions from a bank, with the sources and the sentence in each that fits the question best."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from torch import Tensor

from mbc_engine.bank import BankSizes, ChunkSource, MemoryBank
from mbc_engine.documents import chunk, read, split_sentences
from mbc_engine.errors import BankError, DataError
from mbc_engine.model.checkpoint import signature
from mbc_engine.model.mbc import MBC, Answer
from mbc_engine.model.memory import CodeMemory

State = Literal["unchanged", "changed", "gone", "unreadable"]
# Chunks looked at for each answer; the shares of a document's chunks add up.
CHUNKS = 50


@dataclass(frozen=True)
class Source:
    """A document an answer came from.

    Attributes:
        path: where it was read from.
        share: routed, the probability the router gives it; flat, its share of the attention. In [0, 1].
        state: whether the file is still what was memorised.
        sentence: the sentence that fits the question best; None where the text memorised is not to be had.
        date: when it was written, ISO 8601, if known.
    """

    path: str
    share: float
    state: State
    sentence: str | None
    date: str | None


@dataclass(frozen=True)
class Timings:
    """Seconds an answer took: loading the bank's codes, reading them and generating, and finding the sentences."""

    bank: float
    answer: float
    sources: float


@dataclass(frozen=True)
class Reply:
    """An answer with everything a person may want to know of it; sizes in bytes are the whole bank's."""

    question: str
    answer: str
    sources: tuple[Source, ...]
    timings: Timings
    documents: int
    chunks: int
    sizes: BankSizes


class Recall:
    """A model and a bank, ready to be asked. Each call reads the bank as it is then.

    Args:
        model: the bank's own model.
        bank: what is remembered.

    Raises:
        ModelMismatch: another model wrote the bank.
    """

    def __init__(self, model: MBC, bank: MemoryBank) -> None:
        bank.require(signature(model))
        self._model, self._bank = model, bank

    def ask(
        self,
        questions: Sequence[str],
        *,
        read_mode: str | None = None,
        sources: int = 3,
        max_new_tokens: int = 16,
        beams: int = 1,
    ) -> list[Reply]:
        """Answer questions, all in one batch.

        Args:
            questions: one or more.
            read_mode: `flat` or `routed`; None takes the model's own.
            sources: how many documents to name for each answer.
            max_new_tokens: longest answer.
            beams: beam search's width, 1 is greedy.

        Raises:
            BankError: the bank is empty.
            MBCError: the read does not fit the model.
        """
        began = time.perf_counter()
        with self._bank.snapshot():
            blocks = list(self._bank.blocks())
            if not blocks:
                raise BankError(f"{self._bank.name} is empty.", hint="Fill it with `mbc ingest FOLDER`.")
            memory = CodeMemory(np.concatenate(blocks), self._model.codebook)
            loaded = time.perf_counter()
            answers = self._model.answer(
                questions, memory, read_mode=read_mode, top=CHUNKS, max_new_tokens=max_new_tokens, beams=beams
            )
            answered = time.perf_counter()
            found = [
                self._sources(question, answer, sources) for question, answer in zip(questions, answers, strict=True)
            ]
            documents, chunks, sizes = self._bank.num_documents, self._bank.num_chunks, self._bank.sizes()
        timings = Timings(loaded - began, answered - loaded, time.perf_counter() - answered)
        return [
            Reply(question, answer.text, named, timings, documents, chunks, sizes)
            for question, answer, named in zip(questions, answers, found, strict=True)
        ]

    def _sources(self, question: str, answer: Answer, most: int) -> tuple[Source, ...]:
        """The best documents, each with the shares of its named chunks added up and its best chunk's sentence."""
        best: dict[str, ChunkSource] = {}
        shares: dict[str, float] = {}
        for place, share in zip(self._bank.sources(answer.documents), answer.shares, strict=True):
            best.setdefault(place.source, place)
            shares[place.source] = shares.get(place.source, 0.0) + share
        ranked = sorted(shares, key=lambda source: -shares[source])[:most]
        wanted = self._model.documents.sentence_vectors([question])[0]
        return tuple(self._source(wanted, best[source], shares[source]) for source in ranked)

    def _source(self, wanted: Tensor, place: ChunkSource, share: float) -> Source:
        """A source with the sentence whose vector is closest to `wanted` [E]."""
        try:
            document = read(Path(place.source))
        except DataError:
            state: State = "unreadable" if Path(place.source).exists() else "gone"
            return Source(place.source, share, state, None, place.date)
        if document.digest != place.digest:
            return Source(place.source, share, "changed", None, place.date)
        encoder = self._model.documents
        passages = chunk(document.text, encoder.token_counts, encoder.capacity)
        if place.ordinal >= len(passages):  # chunked by rules that have changed since
            return Source(place.source, share, "unchanged", None, place.date)
        passage = passages[place.ordinal]
        sentences = [" ".join(passage[start:end].split()) for start, end in split_sentences(passage)]
        fit = encoder.sentence_vectors(sentences) @ wanted
        return Source(place.source, share, "unchanged", sentences[int(fit.argmax())], place.date)
