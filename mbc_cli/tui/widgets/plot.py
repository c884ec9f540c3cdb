"""Where an axis carries numbers, and how they are written.

Lines of braille dots, two across and four down in every character: the finest a terminal can draw everywhere.

Curves and their axes in a grid of characters.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

# From so much on, numbers are counted in so much and written with a letter.
_UNITS: Final = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))
# Below and from so much on, they are written with a power of ten.
_SMALL: Final = 1e-3
_LARGE: Final = 1e13


def ticks(low: float, high: float, most: int) -> dict[float, str]:
    """Round numbers from `low` to `high` and how they read, written with the same unit and as many decimals each.

    Args:
        low, high: the ends; `high` is larger.
        most: no more than so many.
    """
    power = math.floor(math.log10((high - low) / most))
    for index in count():
        factor, exponent = (1, 2, 5)[index % 3], power + index // 3
        step = factor * 10.0**exponent
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            break
    values = [number * step for number in range(first, last + 1)]
    return dict(zip(values, _written(values, exponent), strict=True))


def short(value: float) -> str:
    """A number alone, in at most seven characters: 12.3k, 0.512, 2e-5; nan and inf for what is none."""
    size = abs(value)
    if not math.isfinite(value):
        return str(value)
    if size >= _LARGE or 0 < size < _SMALL:
        digits, exponent = f"{value:.1e}".split("e")
        return f"{float(digits):g}e{int(exponent)}"
    for least, unit, letter in _UNITS:
        if size >= least:
            return f"{value / unit:.4g}{letter}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _written(values: list[float], exponent: int) -> list[str]:
    """Multiples of ten to the `exponent`."""
    largest = max((abs(value) for value in values), default=0.0)
    unit, letter = next(((unit, letter) for least, unit, letter in _UNITS if largest >= least), (1.0, ""))
    if 0 < largest < _SMALL or largest >= _LARGE:
        power = math.floor(math.log10(largest) + 1e-9)
        unit, letter = 10.0**power, f"e{power}"
    decimals = max(0, round(math.log10(unit)) - exponent)
    return [f"{value / unit:,.{decimals}f}{letter}" if value else "0" for value in values]


DOTS_ACROSS: Final = 2
DOTS_DOWN: Final = 4
BLANK: Final = 0x2800
# Which bit of a character a dot is, by its row and column.
_BITS: Final = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint8)


def trace(x: NDArray[np.float64], y: NDArray[np.float64], rows: int, columns: int) -> NDArray[np.uint8]:
    """The cells that lines from point to point run through.

    Args:
        x, y: the points in dots, [points], from the left and from the top; what lies outside is cut off.
        rows, columns: the size in characters.

    Returns:
        What to add to `BLANK`, [rows, columns]; 0 where no line is.
    """
    dots = np.zeros((rows * DOTS_DOWN, columns * DOTS_ACROSS), bool)
    across, down = _between(x), _between(y)
    steps = np.maximum(np.abs(across), np.abs(down)).astype(np.intp)
    # Every line as so many dots that no two neighbours are further apart than one; the last point closes the last line.
    line = np.repeat(np.arange(len(steps)), np.maximum(steps, 1))
    first = np.cumsum(np.maximum(steps, 1)) - np.maximum(steps, 1)
    part = (np.arange(len(line)) - first[line]) / np.maximum(steps, 1)[line]
    column = np.rint(np.append(x[line] + part * across[line], x[-1:])).astype(np.intp)
    row = np.rint(np.append(y[line] + part * down[line], y[-1:])).astype(np.intp)
    inside = (column >= 0) & (column < dots.shape[1]) & (row >= 0) & (row < dots.shape[0])
    dots[row[inside], column[inside]] = True
    cells = dots.reshape(rows, DOTS_DOWN, columns, DOTS_ACROSS)
    characters: NDArray[np.uint8] = (cells * _BITS[:, None, :]).sum(axis=(1, 3), dtype=np.uint8)
    return characters


def _between(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """From each value to the next."""
    return np.diff(np.rint(values))


# The numbers of styles; those of curves follow, in their order.
PLAIN, AXIS, EVENT, CURVES = range(4)
# Cells between two numbers along the axes, at least.
_APART_ACROSS: Final = 8
_APART_DOWN: Final = 2
# A plot with fewer cells than that goes without axes.
_LEAST_COLUMNS: Final = 16
_LEAST_ROWS: Final = 5


@dataclass(frozen=True)
class Points:
    """What makes a curve: finite numbers, [points] each, drawn as a line or each as a character."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    marker: str | None


class Cells:
    """Characters in rows and columns, with styles by their numbers."""

    def __init__(self, width: int, height: int) -> None:
        self.characters = np.full((height, width), ord(" "), "<u4")
        self.styles = np.full((height, width), PLAIN, np.uint8)

    def write(self, column: int, row: int, text: str, style: int) -> None:
        """Put a text of narrow characters into a row; what does not fit is cut off."""
        room = self.characters[row, column : column + len(text)]
        room[:] = np.frombuffer(text[: len(room)].encode("utf-32-le"), "<u4")
        self.styles[row, column : column + len(text)] = style

    def write_down(self, column: int, rows: int, character: str, style: int) -> None:
        """Put a character into the first rows of a column."""
        self.characters[:rows, column], self.styles[:rows, column] = ord(character), style

    def strips(self, styles: Sequence[Style]) -> list[Strip]:
        """Everything, a strip a row, in these styles."""
        strips = []
        for characters, numbers in zip(self.characters, self.styles, strict=True):
            text = characters.tobytes().decode("utf-32-le")
            bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(text)]
            runs = [Segment(text[start:end], styles[numbers[start]]) for start, end in pairwise(bounds) if start < end]
            strips.append(Strip(runs, len(text)))
        return strips


@dataclass(frozen=True)
class Range:
    """What an axis spans; `high` is larger than `low`."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Sequence[NDArray[np.float64]], lowest: float | None = None) -> Self:
        """From `lowest`, or the smallest of all numbers, to the largest, with some room where they are the same."""
        numbers = np.concatenate([*values, [] if lowest is None else [lowest]])
        low, high = float(numbers.min()), float(numbers.max())
        if high - low > 1e-9 * max(abs(low), abs(high)):
            return cls(low, high)
        return cls(low - abs(low) / 2, high + abs(high) / 2) if high else cls(0.0, 1.0)

    def place(self, values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
        """Where numbers lie on so many dots, from `low` on."""
        return (values - self.low) / (self.high - self.low) * (size - 1)

    def cells(self, values: NDArray[np.float64], columns: int) -> NDArray[np.intp]:
        """The columns numbers lie in."""
        return np.rint(self.place(values, columns * DOTS_ACROSS)).astype(np.intp) // DOTS_ACROSS

    def rows(self, values: NDArray[np.float64], rows: int) -> NDArray[np.intp]:
        """The rows numbers lie in, the lowest number in the last."""
        dots = rows * DOTS_DOWN
        return (dots - 1 - np.rint(self.place(values, dots)).astype(np.intp)) // DOTS_DOWN


def plot(
    cells: Cells,
    curves: Sequence[Points],
    lowest: float | None,
    lines: NDArray[np.float64],
    pointers: NDArray[np.float64],
) -> None:
    """Fill all cells with curves, of one point at least, and their axes.

    Args:
        lowest: where the vertical axis begins at the latest.
        lines: places to be marked by a dashed line, [places].
        pointers: places to be marked at the axis, [places].
    """
    rows, columns = cells.characters.shape
    across, upright = Range.around([own.x for own in curves]), Range.around([own.y for own in curves], lowest)
    gutter = 0
    if rows >= _LEAST_ROWS and columns >= _LEAST_COLUMNS:
        rows -= 2
        gutter = _upright_axis(cells, upright, rows)
        columns -= gutter
        _level_axis(cells, across, rows, gutter)
        for row, places, character in ((slice(rows), lines, "┊"), (slice(rows, rows + 1), pointers, "▴")):
            inside = places[(across.low <= places) & (places <= across.high)]
            marked = gutter + across.cells(inside, columns)
            cells.characters[row, marked], cells.styles[row, marked] = ord(character), EVENT
    characters, styles = cells.characters[:rows, gutter:], cells.styles[:rows, gutter:]
    dots = np.zeros((rows, columns), np.uint8)
    # Lines first: what single points say would be hidden by them.
    for style, own in sorted(enumerate(curves, CURVES), key=lambda curve: curve[1].marker is not None):
        if own.marker is None:
            x = across.place(own.x, columns * DOTS_ACROSS)
            line = trace(x, rows * DOTS_DOWN - 1 - upright.place(own.y, rows * DOTS_DOWN), rows, columns)
            dots |= line
            characters[line > 0] = BLANK + dots[line > 0].astype("<u4")
            styles[line > 0] = style
        else:
            at = upright.rows(own.y, rows), across.cells(own.x, columns)
            characters[at], styles[at] = ord(own.marker), style


def _upright_axis(cells: Cells, upright: Range, rows: int) -> int:
    """Draw the axis at the left, without numbers that would leave little to the curves; the columns it takes."""
    labels = ticks(upright.low, upright.high, max(2, rows // _APART_DOWN))
    axis = max(map(len, labels.values()), default=0)
    if axis > cells.characters.shape[1] // 2:
        labels, axis = {}, 0
    cells.write_down(axis, rows, "│", AXIS)
    for row, label in zip(upright.rows(np.array([*labels]), rows), labels.values(), strict=True):
        cells.write(axis - len(label), row, f"{label}┤", AXIS)
    return axis + 1


def _level_axis(cells: Cells, across: Range, row: int, gutter: int) -> None:
    width = cells.characters.shape[1]
    cells.write(gutter - 1, row, "└" + "─" * (width - gutter), AXIS)
    labels = ticks(across.low, across.high, max(2, (width - gutter) // _APART_ACROSS))
    free = 0
    for cell, label in zip(across.cells(np.array([*labels]), width - gutter), labels.values(), strict=True):
        column = gutter + int(cell)
        cells.write(column, row, "┬", AXIS)
        start = min(max(column - len(label) // 2, 0), width - len(label))
        if start >= free:
            cells.write(start, row + 1, label, AXIS)
            free = start + len(label) + 1
