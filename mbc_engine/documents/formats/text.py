"""Plain text, and what reads well as such."""

from collections.abc import Iterator

from mbc_engine.documents.byte_stream import ByteStream
from mbc_engine.documents.formats.content import Content
from mbc_engine.documents.pieces import pieces


def read_text(stream: ByteStream) -> Iterator[Content]:
    """The text as it stands, in pieces if it is long."""
    for piece in pieces(stream):
        yield Content(piece.text, piece.identity, part=piece.part, size=len(piece.data))
