"""Figures in words, tables in Markdown, and the pages that they are written into."""

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

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


def measured(out: Path, measure: Callable[[], dict[str, Any]] | None) -> dict[str, Any]:
    """What is measured now and kept in the file `out`; with None, what is there already."""
    if measure is not None:
        found = measure()
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return dict(json.loads(out.read_text(encoding="utf-8")))


def write_section(page: Path, begin: str, end: str, lines: Iterable[str]) -> None:
    """Put lines in the place of those between two marks on a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n\n{wrapped(lines).strip()}\n\n{end}{after}", encoding="utf-8")
