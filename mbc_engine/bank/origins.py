"""Where the documents of a block were read, column by column.

Columns are how the file has them; and objects by the million keep the garbage collector busy, texts in lists do not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.records import Origin


@dataclass
class Origins:
    """The origins of one document after another.

    Attributes:
        numbers: how many each document has.
        sources, parts, dates: what each origin has, in the order of the documents.
    """

    numbers: list[int] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    dates: list[str | None] = field(default_factory=list)

    @classmethod
    def of(cls, documents: Iterable[Sequence[Origin]]) -> Self:
        """The origins of each document, in sorted order."""
        origins = cls()
        for several in documents:
            origins.numbers.append(len(several))
            for origin in sorted(several, key=lambda origin: origin[:2]):
                origins.sources.append(origin.source)
                origins.parts.append(origin.part)
                origins.dates.append(origin.date)
        return origins

    def __len__(self) -> int:
        """How many documents these are the origins of."""
        return len(self.numbers)

    def __iter__(self) -> Iterator[tuple[Origin, ...]]:
        """The origins of each document."""
        flat = iter(map(Origin, self.sources, self.parts, self.dates))
        for number in self.numbers:
            yield tuple(next(flat) for _ in range(number))

    def __getitem__(self, row: int) -> tuple[Origin, ...]:
        """The origins of one document."""
        return self.of_rows([row])[row]

    def rows(self) -> list[int]:
        """The document each origin belongs to."""
        rows: list[int] = np.repeat(np.arange(len(self.numbers)), self.numbers).tolist()
        return rows

    def extend(self, other: "Origins") -> None:
        """Put the origins of further documents behind these."""
        self.numbers += other.numbers
        self.sources += other.sources
        self.parts += other.parts
        self.dates += other.dates

    def between(self, start: int, end: int) -> "Origins":
        """The origins of the documents from `start` to before `end`."""
        return self._part(start, min(end, len(self)), [0, *accumulate(self.numbers)])

    def kept(self, keep: NDArray[np.bool_]) -> "Origins":
        """The origins of the documents for which `keep` is true."""
        each = np.repeat(keep, self.numbers)
        return Origins(
            list(compress(self.numbers, keep)),
            list(compress(self.sources, each)),
            list(compress(self.parts, each)),
            list(compress(self.dates, each)),
        )

    def of_rows(self, rows: Iterable[int]) -> dict[int, tuple[Origin, ...]]:
        """The origins of some documents."""
        ends = [0, *accumulate(self.numbers)]
        spans = {row: slice(ends[row], ends[row + 1]) for row in rows}
        return {
            row: tuple(map(Origin, self.sources[span], self.parts[span], self.dates[span]))
            for row, span in spans.items()
        }

    def changed(self, rows: Mapping[int, Sequence[Origin]]) -> "Origins":
        """With other origins for some documents."""
        ends = [0, *accumulate(self.numbers)]
        result, start = Origins(), 0
        for row in sorted(rows):
            result.extend(self._part(start, row, ends))
            result.extend(Origins.of([rows[row]]))
            start = row + 1
        result.extend(self._part(start, len(self), ends))
        return result

    def _part(self, start: int, end: int, ends: Sequence[int]) -> "Origins":
        span = slice(ends[start], ends[end])
        return Origins(self.numbers[start:end], self.sources[span], self.parts[span], self.dates[span])
