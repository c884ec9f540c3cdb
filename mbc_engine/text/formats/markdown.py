"""Markdown: no front matter, no comments."""

import re
from collections.abc import Iterator
from dataclasses import replace

from mbc_engine.text.decoding import ByteStream, pieces
from mbc_engine.text.document import Content, day_of

# A first line of dashes starts front matter only if a key follows; otherwise it is a horizontal rule.
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?=[\w-]+[ \t]*:)(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_DATE = re.compile(r"^date[ \t]*:[ \t]*([^\n#]+)", re.MULTILINE)


def read_markdown(stream: ByteStream) -> Iterator[Content]:
    """The text in pieces if it is long; all of them have the date of the front matter."""
    written: str | None = None
    for number, piece in enumerate(pieces(stream)):
        text = piece.text
        if number == 0 and (front_matter := _FRONT_MATTER.match(text)):
            text = text[front_matter.end() :]
            if date := _DATE.search(front_matter[1]):
                written = day_of(date[1].strip().strip("\"'"))
        yield replace(piece, text=_without_comments(text), date=written)


def _without_comments(text: str) -> str:
    # A regular expression would take quadratic time on many unclosed comments.
    parts, position = list[str](), 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        parts.append(text[position:start])
        position = end + 3
    return "".join([*parts, text[position:]])
