"""Answers that are read in files: a span found by a reader of the model's own, or what the base LM says of passages."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch

from mbc_engine.answers import Answers
from mbc_engine.documents import split_sentences
from mbc_engine.model.mbc import MBC
from mbc_engine.model.reads import Reading
from mbc_engine.model_folder import READER, has_reader
from mbc_engine.serving.sources import Source

if TYPE_CHECKING:
    from mbc_engine.model.span_reader import Span, SpanReader


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


class SpanFinder(Protocol):
    """What finds answers in passages, as `SpanReader` does."""

    def find(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
        *,
        priors: Sequence[Sequence[float]] | None = None,
    ) -> "Sequence[Span | None]":
        """The span that answers each question in its passages, None where nothing does."""


class OwnReader:
    """The span reader in a model's folder, loaded when it is first needed.

    Args:
        folder: the model's.
        device: where it is to run.
    """

    def __init__(self, folder: Path, device: torch.device) -> None:
        self._folder, self._device = folder, device

    def find(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
        *,
        priors: Sequence[Sequence[float]] | None = None,
    ) -> "Sequence[Span | None]":
        """See `SpanReader.find`."""
        return self._reader.find(questions, passages, priors=priors)

    @cached_property
    def _reader(self) -> "SpanReader":
        from mbc_engine.model.span_reader import load_span_reader

        return load_span_reader(self._folder / READER, device=self._device)


def own_reader(model: MBC) -> OwnReader | None:
    """The span reader of a model that was loaded from a folder, if it has one."""
    if model.folder is None or not has_reader(model.folder):
        return None
    return OwnReader(model.folder, model.base.model.device)


def usual_answers(reader: SpanFinder | None) -> Answers:
    """What a question gets if nobody says otherwise: a base LM takes too long over passages to be asked unbidden."""
    return Answers.BOTH if reader else Answers.MEMORY


def find_answers(
    reader: SpanFinder, questions: Sequence[str], sources: Sequence[Sequence[Source]]
) -> list[ReadAnswer | None]:
    """What a reader finds in the passages of each question's sources; None where nothing answers or none is there."""
    readable = [[source for source in own if source.passage] for own in sources]
    asked = [index for index, own in enumerate(readable) if own]
    answers: list[ReadAnswer | None] = [None] * len(questions)
    if asked:
        spans = reader.find(
            [questions[index] for index in asked],
            [[source.passage or "" for source in readable[index]] for index in asked],
            priors=[log_priors([source.share for source in readable[index]]) for index in asked],
        )
        for index, span in zip(asked, spans, strict=True):
            if span is not None:
                answers[index] = _answer(span, readable[index][span.passage])
    return answers


def say_answers(
    model: MBC,
    reading: Reading,
    questions: Sequence[str],
    sources: Sequence[Sequence[Source]],
    *,
    max_new_tokens: int,
    beams: int,
) -> list[ReadAnswer | None]:
    """What the base LM says with the passages of each question's sources in its prompt; None where none is there."""
    passages = ["\n".join(source.passage for source in own if source.passage) for own in sources]
    if not any(passages):
        return [None] * len(questions)
    texts = model.say(reading, questions, passages=passages, max_new_tokens=max_new_tokens, beams=beams)
    return [
        ReadAnswer(text, None, "", None) if passage and text else None
        for text, passage in zip(texts, passages, strict=True)
    ]


def log_priors(shares: Sequence[float]) -> list[float]:
    """Shares that routing gives as a reader takes them; also where one of them is too small for a number."""
    return [math.log(max(share, sys.float_info.min)) for share in shares]


def _answer(span: "Span", source: Source) -> ReadAnswer:
    sentence = _sentences_around(source.passage or "", span.start, span.end)
    return ReadAnswer(" ".join(span.text.split()), source.path, source.part, sentence)


def _sentences_around(passage: str, start: int, end: int) -> str:
    """The sentences that a span lies in, on one line; nearly always it is one."""
    around = (passage[first:last] for first, last in split_sentences(passage) if first < end and last > start)
    return " ".join(" ".join(around).split())
