"""Answering questions from a bank, with the sources and the sentence in each that fits the question best."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from mbc_engine.bank import BankSizes, MemoryBank, StoredChunk
from mbc_engine.documents import split_sentences
from mbc_engine.errors import BankError
from mbc_engine.model.checkpoint import signature
from mbc_engine.model.mbc import MBC, Answer
from mbc_engine.model.memory import BankMemory
from mbc_engine.serving.file_state import Files, State

# Chunks looked at for each answer; the shares of a document's chunks add up.
CHUNKS = 50


@dataclass(frozen=True)
class Source:
    """A document an answer came from.

    Attributes:
        path: where it was read from; its digest in a bank without origins.
        part: which part of that, "" for all of it.
        share: routed, the probability the router gives it; flat, its share of the attention. In [0, 1].
        state: whether the file is still what was memorised; `unknown` in a bank without origins.
        sentence: the sentence that fits the question best; None where the text memorised is not to be had.
        date: when it was written, ISO 8601, if known.
    """

    path: str
    part: str
    share: float
    state: State
    sentence: str | None
    date: str | None


@dataclass(frozen=True)
class Timings:
    """Seconds an answer took: reading the bank and generating, and finding the sentences."""

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
            totals = self._bank.totals()
            if not totals.chunks:
                raise BankError(f"{self._bank.name} is empty.", hint="Fill it with `mbc ingest FOLDER`.")
            memory = BankMemory(self._bank, self._model.codebook)
            answers = self._model.answer(
                questions, memory, read_mode=read_mode, top=CHUNKS, max_new_tokens=max_new_tokens, beams=beams
            )
            answered = time.perf_counter()
            found = [
                self._sources(question, answer, sources) for question, answer in zip(questions, answers, strict=True)
            ]
            sizes = self._bank.sizes()
        timings = Timings(answered - began, time.perf_counter() - answered)
        return [
            Reply(question, answer.text, named, timings, totals.documents, totals.chunks, sizes)
            for question, answer, named in zip(questions, answers, found, strict=True)
        ]

    def _sources(self, question: str, answer: Answer, most: int) -> tuple[Source, ...]:
        """The best documents, each with the shares of its named chunks added up and its best chunk's sentence."""
        best: dict[str, StoredChunk] = {}
        shares: dict[str, float] = {}
        for place, share in zip(self._bank.chunks_at(answer.documents), answer.shares, strict=True):
            best.setdefault(place.document.digest, place)
            shares[place.document.digest] = shares.get(place.document.digest, 0.0) + share
        ranked = sorted(shares, key=lambda digest: -shares[digest])[:most]
        wanted = self._model.documents.sentence_vectors([question])[0]
        files = Files()
        return tuple(self._source(files, wanted, best[digest], shares[digest]) for digest in ranked)

    def _source(self, files: Files, wanted: Tensor, place: StoredChunk, share: float) -> Source:
        """A source with the sentence whose vector is closest to `wanted` [E]."""
        origins, digest = place.document.origins, place.document.digest
        if not origins:
            return Source(digest, "", share, "unknown", None, None)
        origin, look = origins[0], files.look(origins[0], digest)
        for other in origins[1:] if look.document is None else ():
            if (found := files.look(other, digest)).document:
                origin, look = other, found
                break
        sentence = self._sentence(wanted, look.document.text, place.ordinal) if look.document else None
        return Source(origin.source, origin.part, share, look.state, sentence, origin.date)

    def _sentence(self, wanted: Tensor, text: str, ordinal: int) -> str | None:
        """The best sentence of a text's chunk; None if chunks are made by other rules since."""
        encoder = self._model.documents
        passages = encoder.chunker(text)
        if ordinal >= len(passages):
            return None
        passage = passages[ordinal]
        sentences = [" ".join(passage[start:end].split()) for start, end in split_sentences(passage)]
        fit = encoder.sentence_vectors(sentences) @ wanted
        return sentences[int(fit.argmax())]
