"""Reconstructs the screens of a terminal from its output, as runs of one style."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyte

# Changes within this many seconds are one screen: the eye hardly sees them separately.
_MOMENT = 0.07
# pyte doesn't support faint text (SGR 2), so it is mapped to blinking text, which we don't use.
pyte.graphics.TEXT[2] = "+blink"


@dataclass(frozen=True)
class Output:
    """A piece of terminal output, and when it was written, in seconds."""

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
    """Characters of one style, starting at a column."""

    column: int
    text: str
    style: Style


Line = tuple[Run, ...]


@dataclass(frozen=True)
class Frame:
    """A screen, line by line from the top, and when it appears, in seconds."""

    at: float
    lines: tuple[Line, ...]


def shown(
    output: Sequence[Output], at_work: Sequence[tuple[float, float]], size: tuple[int, int], longest: float
) -> list[Frame]:
    """The screens that a terminal went through.

    Args:
        output: what the terminal received, in order.
        at_work: start and end of each command, in seconds.
        size: in columns and rows.
        longest: maximum seconds of a command; longer ones are sped up evenly.
    """

    def drawn(at: float) -> float:
        """When output written at this time is shown."""
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
    """The runs of a row, without invisible spaces at their ends."""
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
