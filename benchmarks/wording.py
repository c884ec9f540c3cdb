"""Formats figures and Markdown tables, and writes them into pages."""

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

Table = list[list[str]]

MIN_GROWTH: Final = 1e6


def format_seconds(seconds: float) -> str:
    """Three significant digits and a unit."""
    return f"{seconds:,.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def format_bytes(number: float) -> str:
    """Three significant digits and a unit; growth below a megabyte is only a few pages."""
    if number < MIN_GROWTH:
        return "< 1 MB"
    return f"{number / 1e9:.3g} GB" if number >= 1e9 else f"{number / 1e6:.3g} MB"


def format_ratio(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2f}"


def table(head: Sequence[str], rows: Table, *, words: int = 1) -> Iterator[str]:
    """A Markdown table; the first `words` columns are text, the others figures."""
    yield ""
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join(['---'] * words + ['---:'] * (len(head) - words))}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def plot(name: str, title: str) -> Iterator[str]:
    """A plot, embedded in the page."""
    yield ""
    yield f"![{title}](plots/{name}.png)"
    yield ""


def wrap(lines: Iterable[str]) -> str:
    """Wrap paragraphs to the width of the pages; keep tables, lists and headings, and collapse empty lines."""
    text: list[str] = []
    for line in lines:
        is_prose = not line.startswith(("|", "#", "!", "- "))
        text.extend((textwrap.wrap(line, 120, break_on_hyphens=False) if is_prose else [line]) or [""])
    kept = [line for place, line in enumerate(text) if line or (place and text[place - 1])]
    return "\n".join(kept).rstrip() + "\n"


def load_or_measure(out: Path, measure: Callable[[], dict[str, Any]] | None) -> dict[str, Any]:
    """Measure now and save to `out`; with None, load what was saved."""
    if measure is not None:
        found = measure()
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return dict(json.loads(out.read_text(encoding="utf-8")))


def write_section(page: Path, begin: str, end: str, lines: Iterable[str]) -> None:
    """Replace the lines between two markers on a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n\n{wrap(lines).strip()}\n\n{end}{after}", encoding="utf-8")
