"""JSON Lines: a row is an object on a line of its own, and its number is that of the line."""

import json
from collections.abc import Iterator

from mbc_engine.documents.byte_stream import ByteStream
from mbc_engine.documents.encoding import LINE_CHARACTERS, lines
from mbc_engine.documents.formats.content import BadRow, Row


def read_jsonl(stream: ByteStream) -> Iterator[Row | BadRow]:
    """The rows; blank lines are none."""
    for number, line in enumerate(lines(stream, "\n"), 1):
        if line is None:
            yield BadRow(number, f"is longer than {LINE_CHARACTERS >> 20} MB")
        elif line.strip():
            yield _row(number, line)


def _row(number: int, line: str) -> Row | BadRow:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return BadRow(number, "is not JSON")
    return Row(number, value) if isinstance(value, dict) else BadRow(number, "is not a JSON object")
