"""Answering questions from banks: the answer or none, how likely it is right, and the sources it comes from."""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from mbc_engine.bank import ReadableBank, Selection
from mbc_engine.errors import ConfigError, NothingToRead
from mbc_engine.load import Model
from mbc_engine.mini.confidence import label_of
from mbc_engine.mini.model import Answered, RetrieverReader
from mbc_engine.mini.retrieval import Hit, Scope, by_document
from mbc_engine.paper.checkpoint import signature
from mbc_engine.paper.codebook import CodeMap, spread
from mbc_engine.paper.confidence import judge
from mbc_engine.paper.mbc import MBC
from mbc_engine.paper.memories import BankMemory
from mbc_engine.paper.reads import Ranked
from mbc_engine.question import AskOptions, Confidence, Reply, Timings
from mbc_engine.sources import Passage, Passages, Source, best_sentences, sentence_around

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["AskOptions", "Confidence", "Recall", "Reply", "Source", "Timings", "require_askable"]

_Searched = TypeVar("_Searched", Scope, BankMemory)


@dataclass(frozen=True)
class _Draft:
    """An answer before its sources are told in full.

    Attributes:
        answer, confidence, gain, codes: see `Reply`.
        ranked: the best documents, best first.
        sentences: what was read, by chunk; the others' are still to be found.
    """

    answer: str | None
    confidence: Confidence | None
    ranked: list[Ranked]
    sentences: dict[int, str]
    gain: float | None = None
    codes: CodeMap | None = None


class _Answerer(Protocol):
    """One kind of model, ready to answer from one bank. Its methods are called in a snapshot of the bank."""

    def drafts(self, questions: Sequence[str], options: AskOptions, clock: "_Clock", known: Passages) -> list[_Draft]:
        """Answers to questions."""

    def chunks(self, queries: Sequence[str], options: AskOptions, top: int) -> list[list[Ranked]]:
        """The best chunks for each query."""


class Recall:
    """A model and a bank, or several as `Banks`, ready to be asked. Each call reads the bank as it is then.

    Args:
        model: the bank's own model; it has to stay as it is.
        bank: what is remembered.

    Raises:
        ModelMismatch: another model wrote the bank.
    """

    def __init__(self, model: Model, bank: ReadableBank) -> None:
        bank.require(signature(model))
        self._model, self._bank = model, bank
        self._answerer: _Answerer = (
            _ReadingAnswerer(model, bank) if isinstance(model, RetrieverReader) else _PrefixAnswerer(model, bank)
        )

    def ask(
        self,
        questions: Sequence[str],
        *,
        read_mode: str | None = None,
        selection: Selection | None = None,
        sources: int = 3,
        min_confidence: float | None = None,
        with_codes: bool = False,
        max_new_tokens: int = 16,
        beams: int = 1,
        on_token: Callable[[str], None] | None = None,
    ) -> list[Reply]:
        """Answer questions, all in one batch.

        Args:
            questions: one or more.
            read_mode: of a model of the paper's method, NAME or NAME:NUMBER, see `read_modes.py`; None takes its own.
            selection: which documents count, and how much; None for all.
            sources: how many documents to name for each answer; of a model of the paper's method, 0 saves the look at
                every document that the flat read's sources take.
            min_confidence: an answer of a lower probability is withheld; None takes a retriever-reader's own threshold,
                and withholds nothing of a model of the paper's method.
            with_codes: also tell which codes were read.
            max_new_tokens: longest answer that is generated.
            beams: beam search's width, 1 is greedy.
            on_token: gets a generated answer in pieces as they become certain; for one question, greedy.

        Raises:
            NothingToRead: the bank is empty, or nothing in it is selected.
            ConfigError: the model cannot tell what `min_confidence` asks for, or reads in no other way.
            MBCError: the read does not fit the model, or its reader cannot be loaded.
        """
        options = AskOptions(read_mode, selection, sources, min_confidence, with_codes, max_new_tokens, beams, on_token)
        clock = _Clock()
        with self._bank.snapshot():
            totals, sizes = self._bank.totals(), self._bank.sizes()
            passages = Passages(self._bank, self._model.chunker)
            drafts = self._answerer.drafts(questions, options, clock, passages)
            named = self._sources(questions, drafts, passages, options.sources)
        timings = clock.timings()
        return [
            Reply(
                question=question,
                answer=draft.answer,
                confidence=draft.confidence,
                sources=own,
                timings=timings,
                totals=totals,
                sizes=sizes,
                gain=draft.gain,
                codes=draft.codes,
            )
            for question, draft, own in zip(questions, drafts, named, strict=True)
        ]

    def search(
        self,
        queries: Sequence[str],
        *,
        top: int = 5,
        read_mode: str | None = None,
        selection: Selection | None = None,
    ) -> list[tuple[Source, ...]]:
        """The passages that queries lead to, all in one batch; nothing is answered.

        Args:
            queries: one or more.
            top: the most to find for each; there may be several of one document.
            read_mode: as in `ask`; a hierarchical read knows only the best passage of each document.
            selection: as in `ask`.

        Returns:
            For each query its passages, best first, with their own shares. No sentence is looked for in them; where
            neither the file nor the bank has the text any more, the passage is None.

        Raises:
            NothingToRead: there is nothing to read.
            MBCError: the read does not fit the model.
        """
        options = AskOptions(read_mode, selection)
        with self._bank.snapshot():
            found = self._answerer.chunks(queries, options, top)
            passages = Passages(self._bank, self._model.chunker).of(own.chunk for several in found for own in several)
        return [tuple(Source.of(passages[own.chunk], own, None) for own in several) for several in found]

    def _sources(
        self, questions: Sequence[str], drafts: Sequence[_Draft], known: Passages, most: int
    ) -> list[tuple[Source, ...]]:
        """The sources of each answer, with the sentence that was read, or the one that fits best."""
        ranked = [draft.ranked[:most] for draft in drafts]
        passages = known.of(own.chunk for several in ranked for own in several)
        wanted = [
            (question, passages[own.chunk].text)
            for question, draft, several in zip(questions, drafts, ranked, strict=True)
            for own in several
            if own.chunk not in draft.sentences
        ]
        fitting = iter(best_sentences(self._model, wanted))
        return [
            tuple(
                Source.of(
                    passages[own.chunk],
                    own,
                    draft.sentences[own.chunk] if own.chunk in draft.sentences else next(fitting),
                )
                for own in several
            )
            for draft, several in zip(drafts, ranked, strict=True)
        ]


class _ReadingAnswerer:
    """A retriever-reader: the answer is read in the text of the best chunks."""

    def __init__(self, model: RetrieverReader, bank: ReadableBank) -> None:
        self._model, self._bank = model, bank
        self._whole: tuple[Hashable, Scope, Tensor] | None = None

    def drafts(self, questions: Sequence[str], options: AskOptions, clock: "_Clock", known: Passages) -> list[_Draft]:
        model = self._model
        hits = self._find(questions, options, model.settings.candidates)
        read = [own[: model.settings.passages] for own in hits]
        clock.search_ends()
        passages = known.of(hit.chunk for own in read for hit in own)
        readable = [[hit for hit in own if passages[hit.chunk].text] for own in read]
        if not any(readable):
            raise NothingToRead(
                "The text of the passages found is no longer available.",
                hint="Ingest the files again, into a bank that keeps text if they are to be moved or deleted.",
            )
        answers = model.read(questions, [[(passages[hit.chunk].text or "", hit) for hit in own] for own in readable])
        min_confidence = options.min_confidence
        if min_confidence is None:
            min_confidence = model.settings.confidence.threshold
        drafts = []
        for found, own, answered in zip(hits, readable, answers, strict=True):
            is_given = answered.answer is not None and answered.probability >= min_confidence
            first = own[answered.answer.passage] if is_given and answered.answer else None
            ranked = by_document(found, options.sources, first)
            drafts.append(self._draft(answered, own, ranked, passages, is_given=is_given, options=options))
        clock.answer_ends()
        return drafts

    def chunks(self, queries: Sequence[str], options: AskOptions, top: int) -> list[list[Ranked]]:
        hits = self._find(queries, options, max(top, self._model.settings.candidates))
        return [[Ranked(hit.chunk, hit.share, 0) for hit in own[:top]] for own in hits]

    def _find(self, questions: Sequence[str], options: AskOptions, top: int) -> list[list[Hit]]:
        require_askable(self._model, options)
        scope, whitening = self._scope(options.selection)
        return self._model.find(questions, scope, top=top, whitening=whitening)

    def _scope(self, selection: Selection | None) -> "tuple[Scope, Tensor]":
        """What is searched, and its whitening; all of an unchanged bank is looked at once."""
        if selection is not None and not selection.is_everything:
            scope = _required(Scope(self._bank, selection), self._bank)
            return scope, self._model.whitening(scope)
        version = self._bank.version()
        if self._whole is None or self._whole[0] != version:
            scope = _required(Scope(self._bank, None), self._bank)
            self._whole = version, scope, self._model.whitening(scope)
        return self._whole[1:]

    def _draft(
        self,
        answered: Answered,
        hits: Sequence[Hit],
        ranked: list[Ranked],
        passages: dict[int, Passage],
        *,
        is_given: bool,
        options: AskOptions,
    ) -> _Draft:
        """The answer, if it is given, and the sentences that were read."""
        sentences = {
            hit.chunk: sentence_around(passages[hit.chunk].text or "", span.start, span.end)
            for hit, span in zip(hits, answered.spans, strict=True)
            if span is not None
        }
        confidence = Confidence(answered.probability, label_of(answered.probability))
        text = " ".join(answered.answer.text.split()) if is_given and answered.answer else None
        return _Draft(text, confidence, ranked, sentences, codes=self._codes(hits) if options.with_codes else None)

    def _codes(self, hits: Sequence[Hit]) -> CodeMap | None:
        """The shares of the chunks read, spread over their codes."""
        if not hits:
            return None
        codes, shape = self._bank.codes_at([hit.chunk for hit in hits]), self._model.code_shape
        shares = np.repeat(np.array([[hit.share] for hit in hits]), shape.tokens, axis=1)
        found: CodeMap = spread(shares[None], codes[None], shape)[0]
        return found


class _PrefixAnswerer:
    """A model of the paper's method: the base LM answers, steered by what was read of the codes."""

    def __init__(self, model: MBC, bank: ReadableBank) -> None:
        self._model, self._bank, self._parts = model, bank, model.reader()
        self._whole: tuple[Hashable, BankMemory] | None = None

    def drafts(self, questions: Sequence[str], options: AskOptions, clock: "_Clock", known: Passages) -> list[_Draft]:
        model, settings = self._model, self._model.settings
        require_askable(model, options)
        calibration = settings.confidence if options.read_mode in (None, settings.read) else None
        if calibration is not None and not calibration.slope:
            calibration = None  # it tells no two answers apart
        reading = model.read(
            questions,
            self._memory(options.selection),
            read_mode=options.read_mode,
            top=max(1, options.sources),
            reader=self._parts,
        )
        clock.search_ends()
        texts = model.say(
            reading, questions, max_new_tokens=options.max_new_tokens, beams=options.beams, on_token=options.on_token
        )
        gains = model.memory_gains(reading, questions, texts)
        clock.answer_ends()
        ranked = reading.sources if options.sources else [[] for _ in questions]
        codes = reading.codes if options.with_codes else None
        drafts = []
        least = options.min_confidence or 0.0
        for place, (text, gain, own) in enumerate(zip(texts, gains, ranked, strict=True)):
            confidence = None
            if calibration is not None:
                judged = judge(calibration, gain)
                confidence = Confidence(judged.confidence, judged.origin)
            is_withheld = confidence is not None and confidence.probability < least
            own_codes = None if codes is None else codes[place]
            drafts.append(_Draft(None if is_withheld else text, confidence, own, {}, gain, own_codes))
        return drafts

    def chunks(self, queries: Sequence[str], options: AskOptions, top: int) -> list[list[Ranked]]:
        memory = self._memory(options.selection)
        return self._model.read(queries, memory, read_mode=options.read_mode, top=top, reader=self._parts).chunks

    def _memory(self, selection: Selection | None) -> BankMemory:
        """What is read; all of an unchanged bank is the same memory again, of which more is known by then."""
        codebook = self._model.require_codebook()
        if selection is not None and not selection.is_everything:
            return _required(BankMemory(self._bank, codebook, selection), self._bank)
        version = self._bank.version()
        if self._whole is None or self._whole[0] != version:
            self._whole = version, _required(BankMemory(self._bank, codebook), self._bank)
        return self._whole[1]


class _Clock:
    """When the steps of answering ended."""

    def __init__(self) -> None:
        self._began = self._found = self._answered = time.perf_counter()

    def search_ends(self) -> None:
        self._found = time.perf_counter()

    def answer_ends(self) -> None:
        self._answered = time.perf_counter()

    def timings(self) -> Timings:
        return Timings(self._found - self._began, self._answered - self._found, time.perf_counter() - self._answered)


def require_askable(model: MBC | RetrieverReader, options: AskOptions) -> None:
    """Make sure, before there is a question, that a model can be asked with these options.

    Raises:
        ConfigError: it reads its bank in another way, or cannot tell what `min_confidence` asks for.
    """
    if isinstance(model, RetrieverReader):
        if options.read_mode is not None:
            raise ConfigError(
                f"--read does not apply to {model.name}, which has only one way to search its bank.",
                hint="Leave out --read; it is for models of the paper's method.",
            )
        return
    settings, read_mode = model.settings, options.read_mode
    if options.min_confidence is None:
        return
    if settings.confidence is None:
        raise ConfigError(
            f"The model {model.name} is not calibrated: it does not know how sure its answers are.",
            hint="Run `mbc calibrate`, or leave out --min-confidence.",
        )
    if not settings.confidence.slope:
        raise ConfigError(
            f"Calibration found that the model {model.name} cannot tell whether its bank holds what was asked.",
            hint="Leave out --min-confidence, or calibrate another model.",
        )
    if read_mode not in (None, settings.read):
        raise ConfigError(
            f"The model {model.name} is calibrated for its own read, {settings.read}, not for {read_mode}.",
            hint="Leave out --read or --min-confidence.",
        )


def _required(memory: _Searched, bank: ReadableBank) -> _Searched:
    """What is searched, if there is anything. Raises NothingToRead if not."""
    if len(memory):
        return memory
    if bank.totals().chunks:
        raise NothingToRead(
            f"No document in {bank.name} matches the selection.",
            hint="Widen --since, --as-of, --only or --exclude; `mbc bank list` shows dates and names.",
        )
    raise NothingToRead(f"{bank.name} is empty.", hint="Fill it with `mbc ingest FOLDER`.")
