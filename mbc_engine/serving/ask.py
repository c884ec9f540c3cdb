"""Answering questions from a bank, with the sources of each answer and how sure it is to come from there."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mbc_engine.bank import BankSizes, BankTotals, MemoryBank, Selection
from mbc_engine.errors import BankError
from mbc_engine.model.checkpoint import signature
from mbc_engine.model.code_map import CodeMap
from mbc_engine.model.code_memory import BankMemory
from mbc_engine.model.confidence import Judgement, judge
from mbc_engine.model.mbc import MBC
from mbc_engine.serving.sources import Source, find_sources

__all__ = ["Recall", "Reply", "Source", "Timings"]


@dataclass(frozen=True)
class Timings:
    """Seconds that answering took.

    Attributes:
        answer: reading the bank and generating.
        confidence: the passes over the answer for the gain.
        sources: finding documents and sentences, and codes; the routed and the hierarchical read find documents as they
            read.
        reading: generating again with the passages of the sources; 0 without that.
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
        answer: what the base LM says with the bank's codes alone.
        read_answer: what it says when it also reads the passages of the sources; None if it was not to, or if no
            source has a passage.
        gain: what the bank adds to the log-likelihood of a token of the answer, in nats.
        judgement: what the gain says of where the answer comes from; None if the model is not calibrated, or was asked
            by another read than its own, which it is calibrated for.
        sources: the documents it came from, best first.
        timings: of the whole batch.
        totals, sizes: of the whole bank.
        codes: how much of the attention each code got, [levels, positions, num_codes], 1 over each level; None if it
            was not asked for. A hierarchical read estimates it, see `model/reads.py`.
    """

    question: str
    answer: str
    read_answer: str | None
    gain: float
    judgement: Judgement | None
    sources: tuple[Source, ...]
    timings: Timings
    totals: BankTotals
    sizes: BankSizes
    codes: CodeMap | None = field(default=None, repr=False, compare=False)


class Recall:
    """A model and a bank, ready to be asked. Each call reads the bank as it is then.

    Args:
        model: the bank's own model; it has to stay as it is.
        bank: what is remembered.

    Raises:
        ModelMismatch: another model wrote the bank.
    """

    def __init__(self, model: MBC, bank: MemoryBank) -> None:
        bank.require(signature(model))
        self._model, self._bank, self._reader = model, bank, model.reader()

    def ask(
        self,
        questions: Sequence[str],
        *,
        read_mode: str | None = None,
        selection: Selection | None = None,
        sources: int = 3,
        read_sources: bool = False,
        with_codes: bool = False,
        max_new_tokens: int = 16,
        beams: int = 1,
        said: Callable[[str], None] | None = None,
    ) -> list[Reply]:
        """Answer questions, all in one batch.

        Args:
            questions: one or more.
            read_mode: NAME or NAME:NUMBER, see `read_modes.py`; None takes the model's own.
            selection: which documents count, and how much; None for all.
            sources: how many documents to name for each answer; 0 names none, and saves the look at every document
                that the flat read's sources take.
            read_sources: also answer with the passages of the sources in the prompt.
            with_codes: also tell which codes were read.
            max_new_tokens: longest answer.
            beams: beam search's width, 1 is greedy.
            said: gets the answer in pieces as they become certain; for one question, greedy.

        Raises:
            BankError: there is nothing to read.
            MBCError: the read does not fit the model.
        """
        model, began = self._model, time.perf_counter()
        with self._bank.snapshot():
            totals, sizes = self._bank.totals(), self._bank.sizes()
            memory = BankMemory(self._bank, model.require_codebook(), selection)
            if not len(memory):
                raise self._nothing_to_read(totals)
            reading = model.read(questions, memory, read_mode=read_mode, top=max(1, sources), reader=self._reader)
            answers = model.say(reading, questions, max_new_tokens=max_new_tokens, beams=beams, said=said)
            answered = time.perf_counter()
            gains = model.memory_gains(reading, questions, answers)
            judged = time.perf_counter()
            named: list[tuple[Source, ...]] = [()] * len(questions)
            if sources:
                named = find_sources(self._bank, model.documents, questions, reading.sources)
            codes = reading.codes if with_codes else None
            found = time.perf_counter()
        read_answers: Sequence[str | None] = [None] * len(questions)
        passages = ["\n".join(source.passage for source in own if source.passage) for own in named]
        has_read = read_sources and any(passages)
        if has_read:
            texts = model.say(reading, questions, passages=passages, max_new_tokens=max_new_tokens, beams=beams)
            read_answers = [text if passage else None for text, passage in zip(texts, passages, strict=True)]
        done = time.perf_counter()
        timings = Timings(answered - began, judged - answered, found - judged, done - found if has_read else 0.0)
        settings = model.settings.confidence if read_mode in (None, model.settings.read) else None
        code_maps = [None] * len(questions) if codes is None else codes
        judgements = [judge(settings, gain) if settings else None for gain in gains]
        return [
            Reply(question, answer, read_answer, gain, judgement, own, timings, totals, sizes, read)
            for question, answer, read_answer, gain, judgement, own, read in zip(
                questions, answers, read_answers, gains, judgements, named, code_maps, strict=True
            )
        ]

    def _nothing_to_read(self, totals: BankTotals) -> BankError:
        if totals.chunks:
            return BankError(
                f"No document of {self._bank.name} fits what was asked for.",
                hint="Widen --since, --as-of, --only or --exclude; `mbc bank list` shows dates and names.",
            )
        return BankError(f"{self._bank.name} is empty.", hint="Fill it with `mbc ingest FOLDER`.")
