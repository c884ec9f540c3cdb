"""What the methods share that keep documents as T vectors a chunk, as codes or as they are, and read all of them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from mbc_engine.methods.method import Footprint, Reply
from mbc_engine.model.mbc import MBC
from mbc_engine.model.memory import Lengths, Memory
from mbc_engine.model.scoring import Memorised, answer_from


class Remembering(ABC):
    """Documents are chunked, never cut, and encoded as they come; questions read the chunks of all of them.

    Args:
        model: what encodes and answers.
        read_mode: NAME or NAME:NUMBER, see `read_modes.py`; None takes the model's own.
    """

    def __init__(self, model: MBC, *, read_mode: str | None = None) -> None:
        self._model, self._read_mode, self._reader = model, read_mode, model.reader()
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._lengths = np.zeros(0, np.int64)
        self._memorised: Memorised | None = None
        self._forget()

    def adapt(self, documents: Sequence[str]) -> None:
        """Encode the next documents; one of nothing but white space is not remembered, but has its place."""
        pieces = [self._model.documents.chunker(text) for text in documents]
        self._remember([piece for several in pieces for piece in several])
        self._lengths = np.append(self._lengths, np.array(list(map(len, pieces)), np.int64))
        self._memorised = None

    def answer(self, questions: Sequence[str]) -> list[Reply]:
        """Answer in batches of questions of about one length, each from everything remembered."""
        order = sorted(range(len(questions)), key=lambda place: len(questions[place]))
        memorised = self._memorised = self._memorised or self._now()
        asked = [questions[place] for place in order]
        said = answer_from(self._model, asked, memorised, read_mode=self._read_mode, reader=self._reader)
        replies = {place: Reply(own.text, own.sources) for place, own in zip(order, said, strict=True)}
        return [replies[place] for place in range(len(questions))]

    @abstractmethod
    def footprint(self) -> Footprint:
        """What is kept of the documents."""

    @abstractmethod
    def _forget(self) -> None:
        """Keep no chunk any more."""

    @abstractmethod
    def _remember(self, chunks: Sequence[str]) -> None:
        """Keep some more chunks."""

    @abstractmethod
    def _memory(self, lengths: Lengths) -> Memory:
        """All chunks kept; `lengths` are the chunks of each document that has any."""

    def _now(self) -> Memorised:
        lengths = self._lengths
        return Memorised(self._memory(lengths[lengths > 0]), np.repeat(np.arange(len(lengths)), lengths))
