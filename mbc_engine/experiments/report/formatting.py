"""Figures as readers see them, and text of documents, questions and answers made visible and safe."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mbc_engine.evaluation.statistics import Interval

NOTHING: Final = "\N{EN DASH}"
# What turns, hides or breaks text: controls (C0, DEL, C1), bidirectional marks, line separators, tags, lone surrogates.
_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
    "\ud800-\udfff]"
)
_MARKDOWN: Final = re.compile(r"([\\`*_\[\]#|~<>&$])")
_IN_SCRIPT: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def percent(value: float | None) -> str:
    """`12.3`, or a dash where there is no figure."""
    return NOTHING if value is None else f"{value:z.1f}"


def interval(found: Interval) -> str:
    """`10.1 to 14.5`."""
    return f"{percent(found.low)} to {percent(found.high)}".replace("-", "\N{MINUS SIGN}")


def difference(value: float) -> str:
    """`+1.2`, `−0.4`, `0.0`."""
    text = f"{value:+z.1f}"
    return "0.0" if text == "+0.0" else text.replace("-", "\N{MINUS SIGN}")


def p_value(value: float) -> str:
    """`0.031`, or `< 0.001`."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def seconds(value: float | None) -> str:
    """Three digits: `1.23 ms`, `1.23 s`, `1,234 s`."""
    if not value:
        return NOTHING if value is None else "0 s"
    if value >= 999.5:
        return f"{value:,.0f} s"
    units = {"s": 1, "ms": 1e3, "µs": 1e6}
    unit = next((unit for unit, times in units.items() if value * times >= 0.9995), "ns")
    return f"{value * units.get(unit, 1e9):.3g} {unit}"


def size(count: int | None) -> str:
    """Bytes in powers of 1,000: `999 B`, `1.23 MB`."""
    if count is None or count < 1000:
        return NOTHING if count is None else f"{count} B"
    units = {"kB": 1e3, "MB": 1e6, "GB": 1e9}
    unit = next((unit for unit, bytes_ in units.items() if count < 999.5 * bytes_), "TB")
    return f"{count / units.get(unit, 1e12):.3g} {unit}"


def moment(date: str) -> str:
    """An ISO 8601 date for people: `2026-02-03 14:05:06 UTC`."""
    return date.replace("T", " ").replace("+00:00", " UTC")


def visible(text: str) -> str:
    """The text with invisible characters made visible: ↵ for a line end, `<U+001B>` for ESC; tabs are spaces."""
    return _UNSEEN.sub(lambda found: {"\n": "↵", "\t": " "}.get(found[0], f"<U+{ord(found[0]):04X}>"), text)


def in_markdown(text: str) -> str:
    """Text as a cell of a Markdown table or part of a paragraph, where none of it is markup."""
    return _MARKDOWN.sub(r"\\\1", visible(text))


def in_script(value: Any) -> str:
    """A value as JSON that can stand in a script element: ASCII, with no character that HTML reads."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_IN_SCRIPT)


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested values as dotted names and text; lists of objects by their numbers."""
    if isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        value = {str(number): item for number, item in enumerate(value)}
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flat(item, f"{name}.{key}" if name else key)
    else:
        yield name, visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
