"""No memory at all: the base LM answers from its weights alone, which is what every memory has to beat."""

from collections.abc import Sequence

from mbc_engine.methods.answering import answers
from mbc_engine.methods.method import Footprint, Reply
from mbc_engine.model.base import BaseLM


class ClosedBook:
    """Documents pass by and leave nothing.

    Args:
        base: what answers.
    """

    def __init__(self, base: BaseLM) -> None:
        self._base = base

    def reset(self) -> None:
        """There is nothing to forget."""

    def adapt(self, documents: Sequence[str]) -> None:
        """Nothing is kept of them."""

    def answer(self, questions: Sequence[str]) -> list[Reply]:
        """What the base LM says to the questions alone, without sources."""
        return [Reply(text) for text in answers(self._base, questions)]

    def footprint(self) -> Footprint:
        """Nothing."""
        return Footprint(on_disk=0)
