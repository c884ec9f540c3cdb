"""A plot of a few curves with axes, in braille, redrawn only when it has changed.

The dashboard shows a dozen plots that update every second; a plotting library took 15 ms for each.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.content import Content
from textual.strip import Strip
from textual.widget import Widget

Floats = NDArray[np.float64]
# Characters, each with the index of a style: [rows, columns].
Canvas = NDArray[np.void]
_CELL: Final = np.dtype([("character", "<u4"), ("style", np.uint8)])

DOTS_ACROSS, DOTS_DOWN = 2, 4
BLANK: Final = 0x2800
# The bit of each dot in a braille character, by row and column.
_BITS: Final = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint8)
# Indices of styles; those of the curves follow, in order.
_PLAIN, _AXIS, _EVENT, _CURVES = range(4)
# Minimum cells between two labels of an axis, and minimum size of a plot with axes.
_APART_ACROSS, _APART_DOWN = 8, 2
_MIN_COLUMNS, _MIN_ROWS = 16, 5
# A diverging training run logs numbers too extreme to compute with.
_SMALLEST, _LARGEST = 1e-200, 1e200

# From the first number up, numbers are divided by the second and written with the suffix.
_UNITS: Final = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))
# Below the first and from the second up, they are written in scientific notation.
_POWERS_BELOW, _POWERS_FROM = 1e-3, 1e13


@dataclass(frozen=True)
class PlotCurve:
    """A line through points x, y: [points] each, or a marker at each; `colour` is a theme variable."""

    x: ArrayLike
    y: ArrayLike
    colour: str = "text-primary"
    marker: str | None = None

    def drawable(self) -> tuple[Floats, Floats]:
        """The points whose differences and quotients are finite numbers."""
        x, y = np.asarray(self.x, float), np.asarray(self.y, float)
        size = np.abs([x, y])
        kept = ((size == 0) | ((size >= _SMALLEST) & (size <= _LARGEST))).all(0)
        return x[kept], y[kept]


class Chart(Widget, can_focus=False):
    """Curves over one axis, as large as its box; `empty` is shown while there is nothing to draw."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"chart--axis", "chart--event"}

    def __init__(self, title: str, empty: str = "nothing yet", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._title, self._value, self.empty = title, "", empty
        self.border_title = Content(title)
        self._curves: list[PlotCurve] = []
        self._options: tuple[float | None, Floats, Floats] = (None, np.zeros(0), np.zeros(0))
        self._drawn: object = None
        self._strips: list[Strip] | None = None

    def show(
        self,
        curves: Sequence[PlotCurve],
        note: str = "",
        *,
        value: str = "",
        lowest: float | None = None,
        lines: ArrayLike = (),
        pointers: ArrayLike = (),
    ) -> None:
        """Replace the curves, the `note` at the lower edge and the `value` beside the title.

        The vertical axis includes `lowest`. Dashed lines are drawn at `lines`, and marks on the axis at `pointers`,
        [places] each.
        """
        finite = [PlotCurve(*curve.drawable(), curve.colour, curve.marker) for curve in curves]
        self._curves = [curve for curve in finite if len(np.asarray(curve.x))]
        self._options = (lowest, np.asarray(lines, float), np.asarray(pointers, float))
        if value != self._value:
            self._value = value
            self.border_title = Content.assemble(self._title, "  ", (value, "bold")) if value else Content(self._title)
        points = [(np.asarray(own.x).tobytes(), np.asarray(own.y).tobytes()) for own in self._curves]
        looks = [(own.colour, own.marker) for own in self._curves]
        drawn = (points, looks, self.empty, note, lowest, self._options[1].tobytes(), self._options[2].tobytes())
        if drawn != self._drawn:
            self._drawn = drawn
            self.border_subtitle = Content(note if self._curves else "")
            self.on_resize()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.on_resize()

    def on_resize(self) -> None:
        self._strips = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        if self._strips is None:
            self._strips = self._draw()
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.content_size.width, self.rich_style)

    def _draw(self) -> list[Strip]:
        width, height = self.content_size
        if self._curves and width and height:
            canvas = plot((height, width), self._curves, *self._options)
        else:
            canvas = _blank((height, width))
            if height:
                _write(canvas, max(0, (width - len(self.empty)) // 2), height // 2, self.empty, _AXIS)
        axis, event = (self.get_component_rich_style(name) for name in ("chart--axis", "chart--event"))
        variables = self.app.theme_variables
        colours = [Style(color=Color.parse(variables[curve.colour]).rich_color) for curve in self._curves]
        return _strips(canvas, [self.rich_style, axis, event, *(self.rich_style + colour for colour in colours)])


def _blank(shape: tuple[int, int]) -> Canvas:
    return np.full(shape, np.array((ord(" "), _PLAIN), _CELL))


def _write(canvas: Canvas, column: int, row: int, text: str, style: int) -> None:
    room = canvas[row, column : column + len(text)]
    room["character"], room["style"] = [ord(character) for character in text[: len(room)]], style


def _strips(canvas: Canvas, styles: Sequence[Style]) -> list[Strip]:
    strips = []
    for row in canvas:
        text = row["character"].tobytes().decode("utf-32-le")
        bounds = [0, *(np.flatnonzero(np.diff(row["style"])) + 1).tolist(), len(text)]
        runs = [Segment(text[start:end], styles[row["style"][start]]) for start, end in pairwise(bounds) if start < end]
        strips.append(Strip(runs, len(text)))
    return strips


def _bounds(values: Sequence[Floats], lowest: float | None = None) -> tuple[float, float]:
    """From `lowest`, or the smallest number, to the largest, with some margin if they are equal."""
    numbers = np.concatenate([*values, [] if lowest is None else [lowest]])
    low, high = float(numbers.min()), float(numbers.max())
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    return (low - abs(low) / 2, high + abs(high) / 2) if high else (0.0, 1.0)


def _dots(values: Floats, bounds: tuple[float, float], size: int) -> Floats:
    low, high = bounds
    return (values - low) / (high - low) * (size - 1)


def _columns(values: Floats, bounds: tuple[float, float], columns: int) -> NDArray[np.intp]:
    return np.rint(_dots(values, bounds, columns * DOTS_ACROSS)).astype(np.intp) // DOTS_ACROSS


def _rows(values: Floats, bounds: tuple[float, float], rows: int) -> NDArray[np.intp]:
    dots = rows * DOTS_DOWN
    return (dots - 1 - np.rint(_dots(values, bounds, dots)).astype(np.intp)) // DOTS_DOWN


def plot(
    shape: tuple[int, int], curves: Sequence[PlotCurve], lowest: float | None, lines: Floats, pointers: Floats
) -> Canvas:
    """Curves of at least one drawable point each, and their axes, in cells, [rows, columns]; see `Chart.show`."""
    canvas, (rows, columns) = _blank(shape), shape
    points = [curve.drawable() for curve in curves]
    across, upright = _bounds([x for x, _ in points]), _bounds([y for _, y in points], lowest)
    gutter = 0
    if rows >= _MIN_ROWS and columns >= _MIN_COLUMNS:
        rows -= 2
        gutter = _draw_vertical_axis(canvas, upright, rows)
        columns -= gutter
        _draw_horizontal_axis(canvas, across, rows, gutter)
        for row, places, character in ((slice(rows), lines, "┊"), (slice(rows, rows + 1), pointers, "▴")):
            inside = places[(across[0] <= places) & (places <= across[1])]
            marked = gutter + _columns(inside, across, columns)
            canvas[row, marked] = ord(character), _EVENT
    cells = canvas[:rows, gutter:]
    dots = np.zeros((rows, columns), np.uint8)
    # Lines first: they would hide single points.
    for style, (x, y), marker in sorted(
        zip(count(_CURVES), points, (curve.marker for curve in curves), strict=False),
        key=lambda own: own[2] is not None,
    ):
        if marker is None:
            down = rows * DOTS_DOWN - 1 - _dots(y, upright, rows * DOTS_DOWN)
            line = trace(_dots(x, across, columns * DOTS_ACROSS), down, rows, columns)
            dots |= line
            cells["character"][line > 0] = BLANK + dots[line > 0].astype("<u4")
            cells["style"][line > 0] = style
        else:
            cells[_rows(y, upright, rows), _columns(x, across, columns)] = ord(marker), style
    return canvas


def _draw_vertical_axis(canvas: Canvas, upright: tuple[float, float], rows: int) -> int:
    """Draw the left axis, without labels if they would leave too little room for the curves; returns its width."""
    labels = ticks(*upright, max(2, rows // _APART_DOWN))
    width = max(map(len, labels.values()), default=0)
    if width > canvas.shape[1] // 2:
        labels, width = {}, 0
    canvas[:rows, width] = ord("│"), _AXIS
    for row, label in zip(_rows(np.array([*labels]), upright, rows), labels.values(), strict=True):
        _write(canvas, width - len(label), row, f"{label}┤", _AXIS)
    return width + 1


def _draw_horizontal_axis(canvas: Canvas, across: tuple[float, float], row: int, gutter: int) -> None:
    width = canvas.shape[1]
    _write(canvas, gutter - 1, row, "└" + "─" * (width - gutter), _AXIS)
    labels = ticks(*across, max(2, (width - gutter) // _APART_ACROSS))
    free = 0
    for cell, label in zip(_columns(np.array([*labels]), across, width - gutter), labels.values(), strict=True):
        column = gutter + int(cell)
        _write(canvas, column, row, "┬", _AXIS)
        start = min(max(column - len(label) // 2, 0), width - len(label))
        if start >= free:
            _write(canvas, start, row + 1, label, _AXIS)
            free = start + len(label) + 1


def trace(x: Floats, y: Floats, rows: int, columns: int) -> NDArray[np.uint8]:
    """Lines from point to point in braille: what to add to `BLANK`, [rows, columns]; 0 where there is no line.

    The points x, y: [points] are in dots, from the left and from the top; lines are clipped to the area.
    """
    dots = np.zeros((rows * DOTS_DOWN, columns * DOTS_ACROSS), bool)
    across, down = np.diff(np.rint(x)), np.diff(np.rint(y))
    steps = np.maximum(np.abs(across), np.abs(down)).astype(np.intp)
    # Sample each line so densely that neighbouring dots touch; the last point closes the last line.
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


def ticks(low: float, high: float, max_ticks: int) -> dict[float, str]:
    """At most `max_ticks` round numbers from `low` to `high` > `low`, with labels of the same unit and decimals."""
    power = math.floor(math.log10((high - low) / max_ticks))
    for index in count():
        factor, exponent = (1, 2, 5)[index % 3], power + index // 3
        step = factor * 10.0**exponent
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < max_ticks:
            break
    values = [number * step for number in range(first, last + 1)]
    largest = max((abs(value) for value in values), default=0.0)
    unit, letter = next(((unit, letter) for threshold, unit, letter in _UNITS if largest >= threshold), (1.0, ""))
    if 0 < largest < _POWERS_BELOW or largest >= _POWERS_FROM:
        power = math.floor(math.log10(largest) + 1e-9)
        unit, letter = 10.0**power, f"e{power}"
    decimals = max(0, round(math.log10(unit)) - exponent)
    return {value: f"{value / unit:,.{decimals}f}{letter}" if value else "0" for value in values}


def format_number(value: float) -> str:
    """A number in at most seven characters: 12.3k, 0.512, 2e-5, nan, inf."""
    size = abs(value)
    if not math.isfinite(value):
        return str(value)
    if size >= _POWERS_FROM or 0 < size < _POWERS_BELOW:
        digits, exponent = f"{value:.1e}".split("e")
        return f"{float(digits):g}e{int(exponent)}"
    for threshold, unit, letter in _UNITS:
        if size >= threshold:
            return f"{value / unit:.4g}{letter}"
    return f"{value:,.0f}" if size >= 1000 else f"{value:.3g}"
