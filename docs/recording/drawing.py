"""Draws terminal screens as one animated SVG: CSS only, no scripts, no external resources, a still for reduced motion.

Each distinct line is drawn once and reused wherever and whenever it appears; an animation shows each use for its time.
Without animations (`prefers-reduced-motion`, or a viewer that has none) the last screen is shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from screens import Frame, Line, Run, Style

_CELL = (8.4, 18.0)
_FONT_SIZE = 14
_FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_MARGIN = 16
_BAR = 36
_COLOURS = {
    "default": "d5dbe3",
    "black": "4a5568",
    "red": "f4777f",
    "green": "7fd88f",
    "brown": "e5c07b",
    "blue": "78b6ff",
    "magenta": "d49bf0",
    "cyan": "66cfd8",
    "white": "d5dbe3",
    "brightblack": "7b8798",
    "brightred": "ff9aa0",
    "brightgreen": "a5ecb0",
    "brightbrown": "f4d699",
    "brightblue": "a3ccff",
    "brightmagenta": "e6bcfa",
    "brightcyan": "93e4ea",
    "brightwhite": "ffffff",
}
_BACKGROUND = "161b22"


@dataclass(frozen=True)
class _Span:
    """A line in a row from one moment to another, in seconds."""

    row: int
    line: Line
    start: float
    end: float


def draw(frames: Sequence[Frame], seconds: float, size: tuple[int, int], title: str) -> str:
    """The SVG.

    Args:
        frames: the screens, in order.
        seconds: length of the loop.
        size: of the terminal, in columns and rows.
        title: of the title bar.
    """
    spans = [span for row in range(size[1]) for span in _spans(frames, seconds, row) if span.line]
    lines = {line: f"l{number}" for number, line in enumerate(dict.fromkeys(span.line for span in spans))}
    times = {time: f"t{n}" for n, time in enumerate(dict.fromkeys((span.start, span.end) for span in spans))}
    width, height = size[0] * _CELL[0] + 2 * _MARGIN, size[1] * _CELL[1] + _BAR + _MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}">',
            f"<title>{escape(title)}</title>",
            "<style>",
            f"text{{font:{_FONT_SIZE}px {_FONTS};fill:#{_COLOURS['default']};white-space:pre}}",
            f"use{{opacity:0;animation:{seconds:.2f}s step-end infinite}}",
            *(_timing(name, start, end, seconds) for (start, end), name in times.items()),
            "@media (prefers-reduced-motion:reduce){use{animation:none!important}}",
            "</style>",
            f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#{_BACKGROUND}"/>',
            *(
                f'<circle cx="{_MARGIN + 6 + 18 * n}" cy="18" r="5.5" fill="#{_COLOURS[colour]}" opacity=".7"/>'
                for n, colour in enumerate(("red", "brown", "green"))
            ),
            f'<text x="{width / 2:g}" y="22.5" text-anchor="middle" opacity=".65" style="font-size:12px">{escape(title)}</text>',
            "<defs>",
            *(f'<g id="{name}">{"".join(map(_run, line))}</g>' for line, name in lines.items()),
            "</defs>",
            f'<g transform="translate({_MARGIN} {_BAR})">',
            *(
                f'<use href="#{lines[span.line]}" y="{span.row * _CELL[1]:g}" class="{times[span.start, span.end]}"/>'
                for span in spans
            ),
            "</g>",
            "</svg>\n",
        ]
    )


def _spans(frames: Sequence[Frame], seconds: float, row: int) -> Iterator[_Span]:
    start, line = frames[0].at, frames[0].lines[row]
    for frame in frames:
        if frame.lines[row] != line:
            yield _Span(row, line, start, frame.at)
            start, line = frame.at, frame.lines[row]
    yield _Span(row, line, start, seconds)


def _timing(name: str, start: float, end: float, seconds: float) -> str:
    """Visible from start to end; lines of the last screen are also visible without animation."""
    is_last = end == seconds
    steps = [f"{start / seconds:.3%}{{opacity:1}}"]
    if start:
        steps.insert(0, "0%{opacity:0}")
    if not is_last:
        steps.append(f"{end / seconds:.3%}{{opacity:0}}")
    still = ";opacity:1" if is_last else ""
    return f"@keyframes {name}{{{''.join(steps)}}}.{name}{{animation-name:{name}{still}}}"


def _run(run: Run) -> str:
    x, width = run.column * _CELL[0], len(run.text) * _CELL[0]
    behind = f'<rect x="{x:g}" width="{width:g}" height="{_CELL[1]:g}" fill="#{_colour(run.style)}"/>'
    text = (
        f'<text x="{x:g}" y="13.5" textLength="{width:g}"{_looks(run.style)}>{escape(run.text, quote=False)}</text>'
        if run.text.strip()
        else ""
    )
    return (behind if run.style.is_reversed else "") + text


def _looks(style: Style) -> str:
    colour = _BACKGROUND if style.is_reversed else _colour(style)
    return (
        (f' style="fill:#{colour}"' if colour != _COLOURS["default"] else "")
        + (' font-weight="bold"' if style.is_bold else "")
        + (' opacity=".6"' if style.is_faint else "")
    )


def _colour(style: Style) -> str:
    return _COLOURS.get(style.colour, style.colour)
