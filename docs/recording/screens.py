"""What a terminal shows as output comes: a screen a moment, as runs of one style."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyte

# Changes that come within this many seconds are one screen: an eye hardly tells them apart.
_MOMENT = 0.07
# pyte knows no faint text (SGR 2), but blinking text, of which we have none.
pyte.graphics.TEXT[2] = "+blink"


@dataclass(frozen=True)
class Output:
    """A piece of what was written to a terminal, and when, in seconds."""

    text: bytes
    at: float


@dataclass(frozen=True)
class Style:
    """How a character looks. Colours are names, or six hexadecimal digits."""

    colour: str = "default"
    is_bold: bool = False
    is_faint: bool = False
    is_reversed: bool = False


@dataclass(frozen=True)
class Run:
    """Characters of one style, from a column on."""

    column: int
    text: str
    style: Style


Line = tuple[Run, ...]


@dataclass(frozen=True)
class Frame:
    """A screen, line by line from the top, and from when on it is shown, in seconds."""

    at: float
    lines: tuple[Line, ...]


def shown(
    output: Sequence[Output], at_work: Sequence[tuple[float, float]], size: tuple[int, int], longest: float
) -> list[Frame]:
    """The screens that a terminal went through.

    Args:
        output: what it was given, in order.
        at_work: from when until when commands ran, in seconds.
        size: its columns and rows.
        longest: seconds that a command takes at most; one that took longer goes by faster, at an even pace.
    """

    def drawn(at: float) -> float:
        """When something is shown that was written at a time."""
        saved = (
            (min(at, end) - start) * (1 - longest / (end - start))
            for start, end in at_work
            if start < at and longest < end - start
        )
        return at - output[0].at - sum(saved)

    screen = pyte.Screen(*size)
    stream = pyte.ByteStream(screen)
    frames: list[Frame] = []
    for piece in output:
        stream.feed(piece.text)
        at, lines = drawn(piece.at), tuple(tuple(_runs(screen, row)) for row in range(size[1]))
        if frames and at - frames[-1].at < _MOMENT:
            frames[-1] = Frame(frames[-1].at, lines)
        elif not frames or frames[-1].lines != lines:
            frames.append(Frame(at, lines))
    return frames


def _runs(screen: pyte.Screen, row: int) -> Iterator[Run]:
    """The runs of a row, without spaces that show nothing at the ends of runs."""
    cells = screen.buffer[row]
    cursor = None if screen.cursor.hidden or screen.cursor.y != row else screen.cursor.x

    def style(column: int) -> Style:
        cell = cells[column]
        return Style(cell.fg, cell.bold, cell.blink, cell.reverse or column == cursor)

    for its, columns in groupby(range(screen.columns), style):
        first, *others = columns
        text = "".join(cells[column].data for column in (first, *others))
        if its.is_reversed or text.strip():
            yield Run(first, text if its.is_reversed else text.rstrip(), its)
