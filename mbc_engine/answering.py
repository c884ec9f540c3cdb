"""Answering questions from banks: the answer or None, how likely it is right, and its sources."""

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mbc_engine.answer import GENERATED_TOKENS, WRITTEN_TOKENS, AskOptions, Confidence
from mbc_engine.bank import ReadableBank, Selection
from mbc_engine.codes import CodeMap, spread
from mbc_engine.errors import ConfigError, NothingToRead
from mbc_engine.mini.confidence import label_of
from mbc_engine.mini.model import RetrieverReader, SpanAnswer
from mbc_engine.mini.retrieval import Scope, by_document
from mbc_engine.model import signature
from mbc_engine.paper.confidence import judge
from mbc_engine.paper.memories import BankMemory
from mbc_engine.paper.reads import Reading
from mbc_engine.ranking import Hit
from mbc_engine.sources import Passages, sentence_around

if TYPE_CHECKING:
    from mbc_engine.mini.writer import Writer
    from mbc_engine.paper.mbc import MBC

_Searched = TypeVar("_Searched", Scope, BankMemory)
OnToken = Callable[[str], None] | None
Drafts = tuple["list[Draft]", float, float]  # and when searching and answering ended


@dataclass(frozen=True)
class Draft:
    """An answer before its sources are looked up: documents, best first, and the sentences that were read, by chunk.

    `extracted` is the extracted answer, if `text` was written from it.
    """

    text: str | None
    confidence: Confidence | None
    ranked: list[Hit]
    sentences: dict[int, str]
    gain: float | None = None
    codes: CodeMap | None = None
    extracted: str | None = None


def answerer_of(model: Any, bank: ReadableBank, writer: "Callable[[], Writer]") -> "Answerer":
    """The answerer for a model and a bank, which writes with `writer` if asked to; its methods need a bank snapshot.

    Raises ModelMismatch if another model wrote the bank.
    """
    bank.require(signature(model))
    return ReadingAnswerer(model, bank, writer) if isinstance(model, RetrieverReader) else PrefixAnswerer(model, bank)


def _searching(
    bank: ReadableBank, search: Callable[[Selection | None], _Searched]
) -> Callable[[Selection | None], _Searched]:
    """Wrap `search` to cache its result for the whole bank until the bank changes."""
    whole: list[tuple[Hashable, _Searched]] = []

    def searched(selection: Selection | None) -> _Searched:
        if selection is not None and not selection.is_everything:
            return required(search(selection))
        version = bank.version()
        if not whole or whole[0][0] != version:
            whole[:] = [(version, required(search(None)))]
        return whole[0][1]

    def required(found: _Searched) -> _Searched:
        if len(found):
            return found
        if bank.totals().chunks:
            raise NothingToRead(
                f"No document in {bank.name} matches the selection.",
                hint="Widen --since, --as-of, --only or --exclude; `mbc bank list` shows dates and names.",
            )
        raise NothingToRead(f"{bank.name} is empty.", hint="Fill it with `mbc ingest FOLDER`.")

    return searched


class ReadingAnswerer:
    """A retriever-reader: the answer is extracted from the text of the best chunks, or written from it by a chat LM."""

    def __init__(self, model: RetrieverReader, bank: ReadableBank, writer: "Callable[[], Writer]") -> None:
        self.model, self.bank, self._writer = model, bank, writer
        self._scope = _searching(bank, partial(model.scope, bank))

    def drafts(
        self, questions: Sequence[str], options: AskOptions, known: Passages, on_token: OnToken = None
    ) -> Drafts:
        hits = self.chunks(questions, options, self.model.settings.candidates)
        searched = time.perf_counter()
        named = [by_document(own, options.sources) for own in hits]  # now, so that all are decoded together

        def texts_of(wanted: Iterable[Hit]) -> dict[int, str | None]:
            passages = known.of((hit.chunk for hit in wanted), beside=chain(*named))
            return {chunk: own.passage for chunk, own in passages.items()}

        answers = self.model.read(questions, hits, texts_of)
        if not any(own.read_chunks for own in answers):
            raise NothingToRead(
                "The text of the passages found is no longer available.",
                hint="Ingest the files again, into a bank that keeps text if they are to be moved or deleted.",
            )
        drafts = []
        for question, found, answered in zip(questions, hits, answers, strict=True):
            best = answered.best if self._is_given(answered, options) else None
            text, extracted = " ".join(best.text.split()) if best else None, None
            if text is not None and best is not None and options.write:
                passage, most = answered.read_chunks[best.passage][1], options.max_new_tokens or WRITTEN_TOKENS
                written = self._writer().write(question, text, passage, max_new_tokens=most, on_token=on_token)
                if written:
                    text, extracted = written, text
            confidence = Confidence(answered.probability, label_of(answered.probability))
            likeliest = answered.read_chunks[answered.best.passage][0] if answered.best else None
            ranked = by_document(found, options.sources, likeliest)
            sentences = {
                hit.chunk: sentence_around(passage, span.start, span.end)
                for hit, passage, span in answered.read_chunks
                if span is not None
            }
            codes = (
                self._codes([hit for hit, *_ in answered.read_chunks])
                if options.with_codes and answered.read_chunks
                else None
            )
            drafts.append(Draft(text, confidence, ranked, sentences, codes=codes, extracted=extracted))
        return drafts, searched, time.perf_counter()

    def chunks(self, queries: Sequence[str], options: AskOptions, top: int) -> list[list[Hit]]:
        require_askable(self.model, options)
        found = self.model.find(queries, self._scope(options.selection), top=max(top, self.model.settings.candidates))
        return [own[:top] for own in found]

    def _is_given(self, answered: SpanAnswer, options: AskOptions) -> bool:
        if options.min_confidence is not None:
            return answered.probability >= options.min_confidence
        return answered.best is not None and answered.best.margin >= self.model.reader_settings.confidence.least_margin

    def _codes(self, hits: Sequence[Hit]) -> CodeMap:
        codes, shape = self.bank.codes_at([hit.chunk for hit in hits]), self.model.code_shape
        shares = np.repeat(np.array([[hit.share] for hit in hits]), shape.tokens, axis=1)
        found: CodeMap = spread(shares[None], codes[None], shape)[0]
        return found


class PrefixAnswerer:
    """A model of the paper's method: the base LM answers after a prefix made from the codes that were read."""

    def __init__(self, model: "MBC", bank: ReadableBank) -> None:
        self.model, self.bank, self._parts = model, bank, model.reader()
        self._memory = _searching(bank, partial(BankMemory, bank, model.require_codebook()))

    def drafts(
        self, questions: Sequence[str], options: AskOptions, known: Passages, on_token: OnToken = None
    ) -> Drafts:
        model, settings = self.model, self.model.settings
        require_askable(model, options)
        calibration = settings.confidence if options.read_mode in (None, settings.read) else None
        if calibration is not None and not calibration.slope:
            calibration = None  # it cannot distinguish answers
        reading = self._read(questions, options, max(1, options.sources))
        searched = time.perf_counter()
        texts = model.generate_answers(
            reading,
            questions,
            max_new_tokens=options.max_new_tokens or GENERATED_TOKENS,
            beams=options.beams,
            on_token=on_token,
        )
        gains = model.memory_gains(reading, questions, texts)
        answered = time.perf_counter()
        drafts = []
        for place, (text, gain) in enumerate(zip(texts, gains, strict=True)):
            confidence = Confidence(*judge(calibration, gain)) if calibration is not None else None
            is_withheld = confidence is not None and confidence.probability < (options.min_confidence or 0.0)
            ranked = reading.sources[place] if options.sources else []
            codes = reading.codes[place] if options.with_codes and reading.codes is not None else None
            drafts.append(Draft(None if is_withheld else text, confidence, ranked, {}, gain, codes))
        return drafts, searched, answered

    def chunks(self, queries: Sequence[str], options: AskOptions, top: int) -> list[list[Hit]]:
        return [own[:top] for own in self._read(queries, options, max(1, top)).chunks]

    def _read(self, questions: Sequence[str], options: AskOptions, top: int) -> Reading:
        memory = self._memory(options.selection)
        return self.model.read(questions, memory, read_mode=options.read_mode, top=top, reader=self._parts)


Answerer = ReadingAnswerer | PrefixAnswerer


def require_askable(model: Any, options: AskOptions) -> None:
    """Raise ConfigError if a model cannot be asked with these options."""
    if isinstance(model, RetrieverReader):
        if options.read_mode is not None:
            raise ConfigError(
                f"--read does not apply to {model.name}, which has only one way to search its bank.",
                hint="Leave out --read; it is for models of the paper's method.",
            )
        return
    if options.write:
        raise ConfigError(
            f"--write does not apply to {model.name}, whose own base LM writes every answer.",
            hint="Leave out --write; it is for mini.",
        )
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
