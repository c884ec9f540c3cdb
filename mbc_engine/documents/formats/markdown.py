"""Markdown: the text as it stands, without YAML front matter and HTML comments."""

import re
from collections.abc import Iterator

from mbc_engine.documents.byte_stream import ByteStream
from mbc_engine.documents.dates import day_of
from mbc_engine.documents.formats.content import Content
from mbc_engine.documents.pieces import pieces

# A first line of dashes is front matter only if a key follows; otherwise it is a rule, and the text stays.
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?=[\w-]+[ \t]*:)(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_DATE = re.compile(r"^date[ \t]*:[ \t]*([^\n#]+)", re.MULTILINE)


def read_markdown(stream: ByteStream) -> Iterator[Content]:
    """The text in pieces if it is long; all of them have the date of the front matter."""
    written: str | None = None
    for number, piece in enumerate(pieces(stream)):
        text = piece.text
        if number == 0 and (front_matter := _FRONT_MATTER.match(text)):
            text = text[front_matter.end() :]
            if found := _DATE.search(front_matter[1]):
                written = day_of(found[1].strip().strip("\"'"))
        yield Content(_without_comments(text), piece.identity, written, piece.part, len(piece.data))


def _without_comments(text: str) -> str:
    # Not a regular expression: on many unclosed comments one would take quadratic time.
    kept: list[str] = []
    position = 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        kept.append(text[position:start])
        position = end + 3
    return "".join([*kept, text[position:]])
