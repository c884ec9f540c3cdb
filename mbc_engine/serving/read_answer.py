"""Answers that are read in files: a span found by a reader of the model's own, or what the base LM says of passages."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import torch

from mbc_engine.documents import split_sentences
from mbc_engine.model.mbc import MBC
from mbc_engine.model.reads import Reading
from mbc_engine.model.span_reader import Span, SpanReader, best_span
from mbc_engine.model.span_reader_folder import load_span_reader
from mbc_engine.model_folder import READER, has_reader
from mbc_engine.serving.answers import Answers
from mbc_engine.serving.sources import Source


@dataclass(frozen=True)
class ReadAnswer:
    """An answer that was read.

    Attributes:
        text: what was read.
        path: the file it stands in; None from a base LM, which is given the passages of all sources as one text.
        part: which part of that, "" for all of it.
        sentence: the sentence it stands in; None from a base LM.
    """

    text: str
    path: str | None
    part: str
    sentence: str | None


@dataclass(frozen=True)
class Evidence:
    """What a question leads to in files.

    Attributes:
        named: the sources that are told with its answers.
        to_read: those whose passages are read for an answer.
        answer: what was read in them; None before that, and if nothing there answers.
    """

    named: tuple[Source, ...]
    to_read: tuple[Source, ...]
    answer: ReadAnswer | None = None

    @property
    def passages(self) -> int:
        """How many passages there are to be read."""
        return sum(bool(source.passage) for source in self.to_read)


class SpanFinder(Protocol):
    """What finds answers in passages, as `SpanReader` does."""

    @property
    def prior_weight(self) -> float:
        """What a passage's prior counts beside the margin of its span."""

    @property
    def threshold(self) -> float:
        """Least margin of an answer."""

    def spans(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> Sequence[Sequence[Span | None]]:
        """The best span of each passage of each question, None in one without any."""


class OwnReader:
    """The span reader in a model's folder, loaded when it is first needed.

    Args:
        folder: the model's.
        device: where it is to run.
    """

    def __init__(self, folder: Path, device: torch.device) -> None:
        self._folder, self._device = folder, device

    @property
    def prior_weight(self) -> float:
        """See `SpanReader`."""
        return self._reader.prior_weight

    @property
    def threshold(self) -> float:
        """See `SpanReader`."""
        return self._reader.threshold

    def spans(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> Sequence[Sequence[Span | None]]:
        """See `SpanReader.spans`."""
        return self._reader.spans(questions, passages)

    @cached_property
    def _reader(self) -> SpanReader:
        return load_span_reader(self._folder / READER, device=self._device)


def own_reader(model: MBC) -> OwnReader | None:
    """The span reader of a model that was loaded from a folder, if it has one."""
    if model.folder is None or not has_reader(model.folder):
        return None
    return OwnReader(model.folder, model.base.model.device)


def usual_answers(reader: SpanFinder | None) -> Answers:
    """What a question gets if nobody says otherwise: a base LM takes too long over passages to be asked unbidden."""
    return Answers.BOTH if reader else Answers.MEMORY


def find_answers(reader: SpanFinder, questions: Sequence[str], found: Sequence[Evidence]) -> list[Evidence]:
    """With the answers that a reader finds, and in the named sources the sentences that its spans stand in."""
    spans = read_passages(reader, questions, [own.named + own.to_read for own in found])
    in_named = [several[: len(own.named)] for several, own in zip(spans, found, strict=True)]
    in_read = [several[len(own.named) :] for several, own in zip(spans, found, strict=True)]
    answers = choose_answers(reader, [own.to_read for own in found], in_read)
    return [
        replace(own, named=with_sentences(own.named, several), answer=answer)
        for own, several, answer in zip(found, in_named, answers, strict=True)
    ]


def read_passages(
    reader: SpanFinder, questions: Sequence[str], sources: Sequence[Sequence[Source]]
) -> list[list[Span | None]]:
    """The best span in the passage of each of a question's sources, None where none is; no passage is read twice."""
    passages = [list(dict.fromkeys(source.passage for source in own if source.passage)) for own in sources]
    asked = [index for index, own in enumerate(passages) if own]
    found: list[dict[str | None, Span | None]] = [{} for _ in questions]
    if asked:
        several = reader.spans([questions[index] for index in asked], [passages[index] for index in asked])
        for index, spans in zip(asked, several, strict=True):
            found[index] = dict(zip(passages[index], spans, strict=True))
    return [[spans.get(source.passage) for source in own] for own, spans in zip(sources, found, strict=True)]


def choose_answers(
    reader: SpanFinder, sources: Sequence[Sequence[Source]], spans: Sequence[Sequence[Span | None]]
) -> list[ReadAnswer | None]:
    """The best of the spans that were read in each question's sources; None where nothing answers or none is there."""
    answers: list[ReadAnswer | None] = []
    for own, found in zip(sources, spans, strict=True):
        priors, best = log_priors([source.share for source in own]), None
        if any(found):  # before that, the reader need not be there
            best = best_span(found, priors, reader.prior_weight, reader.threshold)
        answers.append(None if best is None else _answer(best, own[best.passage]))
    return answers


def with_sentences(sources: Sequence[Source], spans: Sequence[Span | None]) -> tuple[Source, ...]:
    """Sources with the sentences that spans in their passages stand in."""
    return tuple(
        source if span is None else replace(source, sentence=_sentence_of(span, source))
        for source, span in zip(sources, spans, strict=True)
    )


def say_answers(
    model: MBC,
    reading: Reading,
    questions: Sequence[str],
    found: Sequence[Evidence],
    *,
    max_new_tokens: int,
    beams: int,
) -> list[Evidence]:
    """With what the base LM says with the passages in its prompt; no answer where there are none."""
    passages = ["\n".join(source.passage for source in own.to_read if source.passage) for own in found]
    if not any(passages):
        return list(found)
    texts = model.say(reading, questions, passages=passages, max_new_tokens=max_new_tokens, beams=beams)
    return [
        replace(own, answer=ReadAnswer(text, None, "", None) if passage and text else None)
        for own, text, passage in zip(found, texts, passages, strict=True)
    ]


def log_priors(shares: Sequence[float]) -> list[float]:
    """Shares that routing gives as a reader takes them; also where one of them is too small for a number."""
    return [math.log(max(share, sys.float_info.min)) for share in shares]


def _answer(span: Span, source: Source) -> ReadAnswer:
    return ReadAnswer(" ".join(span.text.split()), source.path, source.part, _sentence_of(span, source))


def _sentence_of(span: Span, source: Source) -> str:
    """The sentence that a span lies in, or the few, on one line."""
    passage = source.passage or ""
    around = (passage[first:last] for first, last in split_sentences(passage) if first < span.end and last > span.start)
    return " ".join(" ".join(around).split())
