"""Answering questions from banks: the answer or none, how likely it is right, and the sources it comes from."""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from mbc_engine.bank import ReadableBank, Selection
from mbc_engine.errors import ConfigError, NothingToRead
from mbc_engine.lm.coding import signature
from mbc_engine.load import Model
from mbc_engine.mini.confidence import label_of
from mbc_engine.mini.model import RetrieverReader, SpanAnswer
from mbc_engine.mini.retrieval import Scope, by_document
from mbc_engine.paper.codebook import CodeMap, spread
from mbc_engine.paper.confidence import judge
from mbc_engine.paper.mbc import MBC
from mbc_engine.paper.memories import BankMemory
from mbc_engine.question import AskOptions, Confidence
from mbc_engine.ranking import Hit
from mbc_engine.sources import Passages, Source, sentence_around

_Searched = TypeVar("_Searched", Scope, BankMemory)
OnToken = Callable[[str], None] | None


@dataclass(frozen=True)
class Draft:
    """An answer before its sources are looked up.

    Attributes:
        text, confidence, gain, codes: see `Answer`.
        ranked: the best documents, best first.
        sentences: what was read, by chunk; the others' are still to be found.
    """

    text: str | None
    confidence: Confidence | None
    ranked: list[Hit]
    sentences: dict[int, str]
    gain: float | None = None
    codes: CodeMap | None = None


def answerer_of(model: Model, bank: ReadableBank) -> "Answerer":
    """What answers from a bank, or several as `Banks`, with their own model, which has to stay as it is.

    Its methods are to be called in a snapshot of the bank.

    Raises:
        ModelMismatch: another model wrote the bank.
    """
    bank.require(signature(model))
    return ReadingAnswerer(model, bank) if isinstance(model, RetrieverReader) else PrefixAnswerer(model, bank)


class ReadingAnswerer:
    """A retriever-reader: the answer is read in the text of the best chunks."""

    def __init__(self, model: RetrieverReader, bank: ReadableBank) -> None:
        self.model, self.bank = model, bank
        self._whole: tuple[Hashable, Scope] | None = None

    def drafts(
        self, questions: Sequence[str], options: AskOptions, known: Passages, on_token: OnToken = None
    ) -> "Drafts":
        model = self.model
        hits = self._find(questions, options, model.settings.candidates)
        read = [own[: model.settings.passages] for own in hits]
        searched = time.perf_counter()
        passages = known.of(hit.chunk for own in read for hit in own)
        readable = [[hit for hit in own if passages[hit.chunk].passage] for own in read]
        if not any(readable):
            raise NothingToRead(
                "The text of the passages found is no longer available.",
                hint="Ingest the files again, into a bank that keeps text if they are to be moved or deleted.",
            )
        answers = model.read(questions, [[(passages[hit.chunk].passage or "", hit) for hit in own] for own in readable])
        min_confidence = options.min_confidence
        if min_confidence is None:
            min_confidence = model.settings.confidence.threshold
        drafts = []
        for found, own, answered in zip(hits, readable, answers, strict=True):
            is_given = answered.best is not None and answered.probability >= min_confidence
            first = own[answered.best.passage] if is_given and answered.best else None
            ranked = by_document(found, options.sources, first)
            drafts.append(self._draft(answered, own, ranked, passages, is_given=is_given, options=options))
        return drafts, searched, time.perf_counter()

    def chunks(self, queries: Sequence[str], options: AskOptions, top: int) -> list[list[Hit]]:
        hits = self._find(queries, options, max(top, self.model.settings.candidates))
        return [own[:top] for own in hits]

    def _find(self, questions: Sequence[str], options: AskOptions, top: int) -> list[list[Hit]]:
        require_askable(self.model, options)
        return self.model.find(questions, self._scope(options.selection), top=top)

    def _scope(self, selection: Selection | None) -> Scope:
        """What is searched; all of an unchanged bank is the same scope again, of which more is known by then."""
        if selection is not None and not selection.is_everything:
            return _required(self.model.scope(self.bank, selection), self.bank)
        version = self.bank.version()
        if self._whole is None or self._whole[0] != version:
            self._whole = version, _required(self.model.scope(self.bank), self.bank)
        return self._whole[1]

    def _draft(
        self,
        answered: SpanAnswer,
        hits: Sequence[Hit],
        ranked: list[Hit],
        passages: dict[int, Source],
        *,
        is_given: bool,
        options: AskOptions,
    ) -> Draft:
        """The answer, if it is given, and the sentences that were read."""
        sentences = {
            hit.chunk: sentence_around(passages[hit.chunk].passage or "", span.start, span.end)
            for hit, span in zip(hits, answered.spans, strict=True)
            if span is not None
        }
        confidence = Confidence(answered.probability, label_of(answered.probability))
        text = " ".join(answered.best.text.split()) if is_given and answered.best else None
        return Draft(text, confidence, ranked, sentences, codes=self._codes(hits) if options.with_codes else None)

    def _codes(self, hits: Sequence[Hit]) -> CodeMap | None:
        """The shares of the chunks read, spread over their codes."""
        if not hits:
            return None
        codes, shape = self.bank.codes_at([hit.chunk for hit in hits]), self.model.code_shape
        shares = np.repeat(np.array([[hit.share] for hit in hits]), shape.tokens, axis=1)
        found: CodeMap = spread(shares[None], codes[None], shape)[0]
        return found


class PrefixAnswerer:
    """A model of the paper's method: the base LM answers, steered by what was read of the codes."""

    def __init__(self, model: MBC, bank: ReadableBank) -> None:
        self.model, self.bank, self._parts = model, bank, model.reader()
        self._whole: tuple[Hashable, BankMemory] | None = None

    def drafts(
        self, questions: Sequence[str], options: AskOptions, known: Passages, on_token: OnToken = None
    ) -> "Drafts":
        model, settings = self.model, self.model.settings
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
        searched = time.perf_counter()
        texts = model.say(
            reading, questions, max_new_tokens=options.max_new_tokens, beams=options.beams, on_token=on_token
        )
        gains = model.memory_gains(reading, questions, texts)
        answered = time.perf_counter()
        ranked = reading.sources if options.sources else [[] for _ in questions]
        codes = reading.codes if options.with_codes else None
        drafts = []
        least = options.min_confidence or 0.0
        for place, (text, gain, own) in enumerate(zip(texts, gains, ranked, strict=True)):
            confidence = None
            if calibration is not None:
                confidence = Confidence(*judge(calibration, gain))
            is_withheld = confidence is not None and confidence.probability < least
            own_codes = None if codes is None else codes[place]
            drafts.append(Draft(None if is_withheld else text, confidence, own, {}, gain, own_codes))
        return drafts, searched, answered

    def chunks(self, queries: Sequence[str], options: AskOptions, top: int) -> list[list[Hit]]:
        memory = self._memory(options.selection)
        return self.model.read(queries, memory, read_mode=options.read_mode, top=top, reader=self._parts).chunks

    def _memory(self, selection: Selection | None) -> BankMemory:
        """What is read; all of an unchanged bank is the same memory again, of which more is known by then."""
        codebook = self.model.require_codebook()
        if selection is not None and not selection.is_everything:
            return _required(BankMemory(self.bank, codebook, selection), self.bank)
        version = self.bank.version()
        if self._whole is None or self._whole[0] != version:
            self._whole = version, _required(BankMemory(self.bank, codebook), self.bank)
        return self._whole[1]


Answerer = ReadingAnswerer | PrefixAnswerer
Drafts = tuple[list[Draft], float, float]


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
