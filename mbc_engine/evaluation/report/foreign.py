"""Text of documents, questions and answers, made safe for each form of a report."""

import html
import json
import re
from typing import Any, Final

# What turns, hides or breaks text: controls (C0, DEL, C1), bidirectional marks, line separators, tags, lone surrogates.
_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
    "\ud800-\udfff]"
)
_MARKDOWN: Final = re.compile(r"([\\`*_\[\]#|~<>&$])")
_IN_SCRIPT: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def visible(text: str) -> str:
    """The text with what no reader could see shown: ↵ for a line end, `<U+001B>` for ESC; tabs are spaces."""
    return _UNSEEN.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    return {"\n": "↵", "\t": " "}.get(found[0], f"<U+{ord(found[0]):04X}>")


def in_html(text: str) -> str:
    """Text as an element's content or a quoted attribute's value."""
    return html.escape(visible(text))


def in_markdown(text: str) -> str:
    """Text as a cell of a Markdown table or part of a paragraph, where none of it is markup."""
    return _MARKDOWN.sub(r"\\\1", visible(text))


def in_script(value: Any) -> str:
    """A value as JSON that can stand in a script element: ASCII, with no character that HTML reads."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_IN_SCRIPT)
