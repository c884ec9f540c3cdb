"""Answering questions from banks, with the sources of each answer and how sure it is to come from there."""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mbc_engine.answers import Answers
from mbc_engine.bank import BankSizes, BankTotals, ReadableBank, Selection
from mbc_engine.errors import NothingToRead
from mbc_engine.model.checkpoint import signature
from mbc_engine.model.code_map import CodeMap
from mbc_engine.model.code_memory import BankMemory
from mbc_engine.model.confidence import Judgement, judge
from mbc_engine.model.mbc import MBC
from mbc_engine.model.reads import Rankings
from mbc_engine.serving.read_answer import (
    ReadAnswer,
    SpanFinder,
    choose_answers,
    own_reader,
    read_passages,
    say_answers,
    usual_answers,
    with_sentences,
)
from mbc_engine.serving.sources import Source, find_sources

__all__ = ["ReadAnswer", "Recall", "Reply", "Source", "Timings"]

# Chunks whose passages a span reader looks into, of one document or of several.
CHUNKS_READ: Final = 4


@dataclass(frozen=True)
class Timings:
    """Seconds that answering took.

    Attributes:
        answer: reading the bank, and generating if there is an answer from memory.
        confidence: the passes over the answer for the gain.
        sources: finding documents and sentences, and codes; the routed and the hierarchical read find documents as they
            read.
        reading: answering from the passages of the sources, which finds the sentences too; 0 without that.
    """

    answer: float
    confidence: float
    sources: float
    reading: float


@dataclass(frozen=True)
class Reply:
    """An answer with everything a person may want to know of it.

    Attributes:
        question: what was asked.
        answers: which answers there were to be.
        answer: what the base LM says with the bank's codes alone; None if it was not to.
        read: what was read in the passages of the best sources; None if it was not to be, or if nothing there answers.
        passages: how many of them were there to be read; 0 if they were not to be.
        gain: what the bank adds to the log-likelihood of a token of the answer, in nats; None without that.
        judgement: what the gain says of where the answer comes from; None if the model is not calibrated, or was asked
            by another read than its own, which it is calibrated for.
        sources: the documents the question leads to, best first.
        timings: of the whole batch.
        totals, sizes: of the whole bank; of several, the sums.
        codes: how much of the attention each code got, [levels, positions, num_codes], 1 over each level; None if it
            was not asked for. A hierarchical read estimates it, see `model/reads.py`.
    """

    question: str
    answers: Answers
    answer: str | None
    read: ReadAnswer | None
    passages: int
    gain: float | None
    judgement: Judgement | None
    sources: tuple[Source, ...]
    timings: Timings
    totals: BankTotals
    sizes: BankSizes
    codes: CodeMap | None = field(default=None, repr=False, compare=False)


class Recall:
    """A model and a bank, or several as `Banks`, ready to be asked. Each call reads the bank as it is then.

    Args:
        model: the bank's own model; it has to stay as it is.
        bank: what is remembered.
        reader: what finds answers in passages; None takes the one in the model's folder, where there is one.

    Raises:
        ModelMismatch: another model wrote the bank.
    """

    def __init__(self, model: MBC, bank: ReadableBank, reader: SpanFinder | None = None) -> None:
        bank.require(signature(model))
        self._model, self._bank, self._parts = model, bank, model.reader()
        self._reader = reader or own_reader(model)
        self._whole: tuple[Hashable, BankMemory] | None = None

    def ask(
        self,
        questions: Sequence[str],
        *,
        answers: Answers | None = None,
        read_mode: str | None = None,
        selection: Selection | None = None,
        sources: int = 3,
        with_codes: bool = False,
        max_new_tokens: int = 16,
        beams: int = 1,
        said: Callable[[str], None] | None = None,
    ) -> list[Reply]:
        """Answer questions, all in one batch.

        Args:
            questions: one or more.
            answers: from memory, read, or both; None for both where there is a reader, else from memory. Where there is
                none, the base LM reads.
            read_mode: NAME or NAME:NUMBER, see `read_modes.py`; None takes the model's own.
            selection: which documents count, and how much; None for all.
            sources: how many documents to name for each answer; where nothing is to be read, 0 saves the look at every
                document that the flat read's sources take. A base LM reads a passage of each of these, or of the first.
            with_codes: also tell which codes were read.
            max_new_tokens: longest answer that is generated.
            beams: beam search's width, 1 is greedy.
            said: gets the answer from memory in pieces as they become certain; for one question, greedy.

        Raises:
            NothingToRead: there is nothing to read, or no file where answers are to be read alone.
            MBCError: the read does not fit the model, or its reader cannot be loaded.
        """
        model, began = self._model, time.perf_counter()
        answers = answers or usual_answers(self._reader)
        reader = self._reader if answers.are_read else None
        with self._bank.snapshot():
            totals, sizes = self._bank.totals(), self._bank.sizes()
            memory = self._memory(selection)
            if not len(memory):
                raise self._nothing_to_read(totals)
            top = max(1, sources, CHUNKS_READ if reader else 0)
            reading = model.read(questions, memory, read_mode=read_mode, top=top, reader=self._parts)
            texts: list[str] = []
            if answers.are_recalled:
                texts = model.say(reading, questions, max_new_tokens=max_new_tokens, beams=beams, said=said)
            answered = time.perf_counter()
            gains = model.memory_gains(reading, questions, texts) if texts else []
            judged = time.perf_counter()
            shown: Rankings = [own[:sources] for own in reading.sources] if sources else [[] for _ in questions]
            to_read: Rankings = [[] for _ in questions]
            if answers.are_read:
                to_read = [own[:CHUNKS_READ] for own in reading.chunks] if reader else reading.sources
            found: list[tuple[Source, ...]] = [()] * len(questions)
            if any(shown) or any(to_read):
                together = [[*own, *more] for own, more in zip(shown, to_read, strict=True)]
                by_vectors = 0 if reader else sources
                found = find_sources(self._bank, model.documents, questions, together, shown=by_vectors)
            codes = reading.codes if with_codes else None
            looked_up = time.perf_counter()
        read: Sequence[ReadAnswer | None] = [None] * len(questions)
        named = [several[: len(own)] for several, own in zip(found, shown, strict=True)]
        best = [several[len(own) :] for several, own in zip(found, shown, strict=True)]
        passages = [sum(bool(source.passage) for source in own) for own in best]
        if not any(passages) and not answers.are_recalled:
            raise _no_file()
        if reader:
            spans = read_passages(reader, questions, found)
            read = choose_answers(reader, best, [own[len(first) :] for own, first in zip(spans, named, strict=True)])
            named = [with_sentences(first, own[: len(first)]) for own, first in zip(spans, named, strict=True)]
        elif any(passages):
            read = say_answers(model, reading, questions, best, max_new_tokens=max_new_tokens, beams=beams)
        done = time.perf_counter()
        spent_reading = done - looked_up if any(passages) else 0.0
        timings = Timings(answered - began, judged - answered, looked_up - judged, spent_reading)
        settings = model.settings.confidence if read_mode in (None, model.settings.read) else None
        return [
            Reply(
                question=question,
                answers=answers,
                answer=texts[index] if texts else None,
                read=read[index],
                passages=passages[index],
                gain=gains[index] if gains else None,
                judgement=judge(settings, gains[index]) if settings and gains else None,
                sources=named[index],
                timings=timings,
                totals=totals,
                sizes=sizes,
                codes=None if codes is None else codes[index],
            )
            for index, question in enumerate(questions)
        ]

    def search(
        self,
        queries: Sequence[str],
        *,
        top: int = 5,
        read_mode: str | None = None,
        selection: Selection | None = None,
    ) -> list[tuple[Source, ...]]:
        """The passages that queries lead to, all in one batch; nothing is generated.

        Args:
            queries: one or more.
            top: the most to find for each; there may be several of one document.
            read_mode: as in `ask`; a hierarchical read knows only the best passage of each document.
            selection: as in `ask`.

        Returns:
            For each query its passages, best first, with their own shares. No sentence is looked for in them; where a
            file is not there as it was memorised, the passage is None.

        Raises:
            NothingToRead: there is nothing to read.
            MBCError: the read does not fit the model.
        """
        model = self._model
        with self._bank.snapshot():
            memory = self._memory(selection)
            if not len(memory):
                raise self._nothing_to_read(self._bank.totals())
            reading = model.read(queries, memory, read_mode=read_mode, top=top, reader=self._parts)
            return find_sources(self._bank, model.documents, queries, reading.chunks, shown=0)

    def _memory(self, selection: Selection | None) -> BankMemory:
        """What is read; all of an unchanged bank is the same memory again, of which more is known by then."""
        codebook = self._model.require_codebook()
        if selection is not None and not selection.is_everything:
            return BankMemory(self._bank, codebook, selection)
        version = self._bank.version()
        if self._whole is None or self._whole[0] != version:
            self._whole = version, BankMemory(self._bank, codebook)
        return self._whole[1]

    def _nothing_to_read(self, totals: BankTotals) -> NothingToRead:
        if totals.chunks:
            return NothingToRead(
                f"No document of {self._bank.name} fits what was asked for.",
                hint="Widen --since, --as-of, --only or --exclude; `mbc bank list` shows dates and names.",
            )
        return NothingToRead(f"{self._bank.name} is empty.", hint="Fill it with `mbc ingest FOLDER`.")


def _no_file() -> NothingToRead:
    return NothingToRead(
        "No file that the question leads to is there as it was memorised: nothing can be read.",
        hint="Ask from memory (--answer memory), or bring the bank up to date with `mbc ingest`.",
    )
