"""Readers in place of a trained one: one that finds given words, and the head of one with random weights."""

from collections.abc import Sequence

import numpy as np

from mbc_engine.mini.span_reader import Span, SpanHead


def random_head(width: int, longest: int, *, seed: int = 1, rank: int = 4) -> SpanHead:
    rng, sizes = np.random.default_rng(seed), {"edges": 2, "first": rank, "last": rank, "none": 1}
    weights = {f"{name}.weight": (rows, width) for name, rows in sizes.items()}
    biases = {f"{name}.bias": (rows,) for name, rows in sizes.items()}
    shapes = weights | biases
    return SpanHead({name: rng.normal(0, 0.3, size).astype(np.float32) for name, size in shapes.items()}, longest)


class Finder:
    """Finds one of some words in each passage that has one, the first with the largest margin; records what it read.

    The first character of a passage without any is a span as well, but no answer.
    """

    def __init__(self, *words: str) -> None:
        self.words = words
        self.contexts: list[Sequence[str]] = []
        self.asked: list[tuple[str, list[str]]] = []

    def spans(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
        contexts: Sequence[Sequence[str]] | None = None,
    ) -> list[list[Span | None]]:
        self.contexts += contexts or []
        self.asked += zip(questions, map(list, passages), strict=True)
        return [[self._found(number, text) for number, text in enumerate(own)] for own in passages]

    def _found(self, number: int, text: str) -> Span:
        places = ((word, 5 - float(rank), text.find(word)) for rank, word in enumerate(self.words))
        found = (_span(word, number, at, margin) for word, margin, at in places if at >= 0)
        return next(found, _span(text[0], number, 0, -20.0))


def _span(text: str, passage: int, start: int, margin: float) -> Span:
    return Span(text, passage, start, start + len(text), margin, 0.0, ((text, 0.0),))
