"""Answering questions from banks, with the sources of each answer and how sure it is to come from there."""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mbc_engine.bank import BankSizes, BankTotals, ReadableBank, Selection
from mbc_engine.config import ConfidenceSettings
from mbc_engine.errors import NothingToRead
from mbc_engine.model.bank_binding import signature
from mbc_engine.model.code_map import CodeMap
from mbc_engine.model.code_memory import BankMemory
from mbc_engine.model.confidence import Judgement, judge
from mbc_engine.model.mbc import MBC
from mbc_engine.model.reads import Rankings, Reading
from mbc_engine.serving.answers import Answers
from mbc_engine.serving.read_answer import (
    Evidence,
    ReadAnswer,
    SpanFinder,
    find_answers,
    own_reader,
    say_answers,
    usual_answers,
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

    @property
    def best(self) -> str | None:
        """The answer to take if one is wanted: what was read, or else what is remembered."""
        return self.answer if self.read is None else self.read.text


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
        with self._bank.snapshot():
            totals, sizes = self._bank.totals(), self._bank.sizes()
            reading = self._read(questions, read_mode, selection, max(1, sources, self._fewest(answers)))
            texts: list[str] = []
            if answers.are_recalled:
                texts = model.say(reading, questions, max_new_tokens=max_new_tokens, beams=beams, said=said)
            answered = time.perf_counter()
            gains = model.memory_gains(reading, questions, texts) if texts else []
            judged = time.perf_counter()
            found = self._look_up(questions, reading, answers, sources)
            codes = reading.codes if with_codes else None
            looked_up = time.perf_counter()
        found = self._read_files(questions, reading, answers, found, max_new_tokens=max_new_tokens, beams=beams)
        done = time.perf_counter() if any(own.passages for own in found) else looked_up
        timings = Timings(answered - began, judged - answered, looked_up - judged, done - looked_up)
        batch = _Batch(answers, timings, totals, sizes, self._confidence(read_mode))
        none = [None] * len(questions)
        each = zip(questions, texts or none, gains or none, found, none if codes is None else codes, strict=True)
        return [batch.reply(*own) for own in each]

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
        with self._bank.snapshot():
            reading = self._read(queries, read_mode, selection, top)
            return find_sources(self._bank, self._model.documents, queries, reading.chunks, shown=0)

    def _fewest(self, answers: Answers) -> int:
        """How many chunks at least are to be found for each question."""
        return CHUNKS_READ if answers.are_read and self._reader else 0

    def _read(self, questions: Sequence[str], read_mode: str | None, selection: Selection | None, top: int) -> Reading:
        """What questions take from the memory; raises NothingToRead."""
        memory = self._memory(selection)
        if not len(memory):
            raise _nothing_to_read(self._bank)
        return self._model.read(questions, memory, read_mode=read_mode, top=top, reader=self._parts)

    def _memory(self, selection: Selection | None) -> BankMemory:
        """What is read; all of an unchanged bank is the same memory again, of which more is known by then."""
        codebook = self._model.require_codebook()
        if selection is not None and not selection.is_everything:
            return BankMemory(self._bank, codebook, selection)
        version = self._bank.version()
        if self._whole is None or self._whole[0] != version:
            self._whole = version, BankMemory(self._bank, codebook)
        return self._whole[1]

    def _look_up(self, questions: Sequence[str], reading: Reading, answers: Answers, sources: int) -> list[Evidence]:
        """The sources to be named for each question, and those to be read, all in one go."""
        named: Rankings = [own[:sources] for own in reading.sources] if sources else [[] for _ in questions]
        to_read: Rankings = [[] for _ in questions]
        shown = sources
        if answers.are_read and self._reader:
            to_read = [own[:CHUNKS_READ] for own in reading.chunks]
            shown = 0  # the reader finds the sentences
        elif answers.are_read:
            to_read = reading.sources
        if not any(named) and not any(to_read):
            return [Evidence((), ())] * len(questions)
        together = [[*own, *more] for own, more in zip(named, to_read, strict=True)]
        found = find_sources(self._bank, self._model.documents, questions, together, shown=shown)
        return [Evidence(several[: len(own)], several[len(own) :]) for several, own in zip(found, named, strict=True)]

    def _read_files(
        self,
        questions: Sequence[str],
        reading: Reading,
        answers: Answers,
        found: list[Evidence],
        *,
        max_new_tokens: int,
        beams: int,
    ) -> list[Evidence]:
        """With the answers that stand in the passages, where these are to be read."""
        if not answers.are_recalled and not any(own.passages for own in found):
            raise _no_file()
        if not answers.are_read:
            return found
        if self._reader:
            return find_answers(self._reader, questions, found)
        return say_answers(self._model, reading, questions, found, max_new_tokens=max_new_tokens, beams=beams)

    def _confidence(self, read_mode: str | None) -> ConfidenceSettings | None:
        """What gains are judged by; None if the model is not calibrated for this read."""
        settings = self._model.settings
        return settings.confidence if read_mode in (None, settings.read) else None


@dataclass(frozen=True)
class _Batch:
    """What the replies to questions that were asked together have in common."""

    answers: Answers
    timings: Timings
    totals: BankTotals
    sizes: BankSizes
    confidence: ConfidenceSettings | None

    def reply(
        self, question: str, text: str | None, gain: float | None, found: Evidence, codes: CodeMap | None
    ) -> Reply:
        """The reply to one of them."""
        return Reply(
            question=question,
            answers=self.answers,
            answer=text,
            read=found.answer,
            passages=found.passages,
            gain=gain,
            judgement=judge(self.confidence, gain) if self.confidence and gain is not None else None,
            sources=found.named,
            timings=self.timings,
            totals=self.totals,
            sizes=self.sizes,
            codes=codes,
        )


def _nothing_to_read(bank: ReadableBank) -> NothingToRead:
    if bank.totals().chunks:
        return NothingToRead(
            f"No document of {bank.name} fits what was asked for.",
            hint="Widen --since, --as-of, --only or --exclude; `mbc bank list` shows dates and names.",
        )
    return NothingToRead(f"{bank.name} is empty.", hint="Fill it with `mbc ingest FOLDER`.")


def _no_file() -> NothingToRead:
    return NothingToRead(
        "No file that the question leads to is there as it was memorised: nothing can be read.",
        hint="Ask from memory (--answer memory), or bring the bank up to date with `mbc ingest`.",
    )
