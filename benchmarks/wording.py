"""Figures in words, and tables in Markdown, for docs/performance.md."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

Table = list[list[str]]

LEAST_GROWTH: Final = 1e6


def in_time(seconds: float) -> str:
    """Three figures and a unit."""
    return f"{seconds:,.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def in_bytes(number: float) -> str:
    """Three figures and a unit; growth below a megabyte is a page here and there."""
    if number < LEAST_GROWTH:
        return "< 1 MB"
    return f"{number / 1e9:.3g} GB" if number >= 1e9 else f"{number / 1e6:.3g} MB"


def times(ratio: float) -> str:
    """How many times."""
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2f}"


def table(head: Sequence[str], rows: Table, *, words: int = 1) -> Iterator[str]:
    """A table in Markdown, the first columns words, the others figures."""
    yield ""
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join(['---'] * words + ['---:'] * (len(head) - words))}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def plot(name: str, title: str) -> Iterator[str]:
    """A plot that the page shows."""
    yield ""
    yield f"![{title}](plots/{name}.png)"
    yield ""


def wrapped(lines: Iterable[str]) -> str:
    """Paragraphs at the width of this project's pages; tables, lists and headings as they are; no two empty lines."""
    text: list[str] = []
    for line in lines:
        is_prose = not line.startswith(("|", "#", "!", "- "))
        text.extend((textwrap.wrap(line, 120, break_on_hyphens=False) if is_prose else [line]) or [""])
    kept = [line for place, line in enumerate(text) if line or (place and text[place - 1])]
    return "\n".join(kept).rstrip() + "\n"
