"""Some of many, spread evenly: what stands for a whole dataset where all of it would take too long."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def evenly_spaced(items: Sequence[T], most: int | None) -> list[T]:
    """All items, or `most` of them in their order, spread over the whole."""
    if most is None or most >= len(items):
        return list(items)
    return [items[index * len(items) // most] for index in range(most)]
