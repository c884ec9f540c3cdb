"""Long texts in pieces, none of which cuts a line if it can be helped: a piece is encoded and committed as a whole."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mbc_engine.documents.byte_stream import ByteStream
from mbc_engine.documents.encoding import cut, decode, detect
from mbc_engine.documents.unreadable import UnreadableFile

# Some 30 chunks of English: encoding them takes 2 to 5 s on two busy cores, and a stop loses no more than that.
PIECE_BYTES = 1 << 15

_PIECE_OF_NAMED = re.compile(r"(.*), part [1-9]\d*", re.DOTALL)


@dataclass(frozen=True)
class Piece:
    """A piece of a text.

    Attributes:
        part: "" if it is the whole text, else its number from 1.
        data: its bytes.
        text: what they say.
        identity: with the part, decides the text. A whole text's bytes do that alone; those of a piece do not tell
            their encoding, which other pieces may have shown.
    """

    part: str
    data: bytes
    text: str
    identity: bytes


def pieces(stream: ByteStream) -> Iterator[Piece]:
    """Cut a text into pieces of at most `PIECE_BYTES`. Their texts, one after the other, are the whole text.

    Raises:
        UnreadableFile: the bytes, or from some piece on the further ones, are no text.
    """
    number = 0
    encoding = "ascii"
    rest = b""
    while data := rest + stream.read(PIECE_BYTES - len(rest)):
        is_last = not stream.peek(1)
        if encoding == "ascii":
            encoding = _detect(data, stream, is_last)
        end = len(data) if is_last else cut(data, encoding)
        piece, rest = data[:end], data[end:]
        number += 1
        part = "" if is_last and number == 1 else str(number)
        is_plain = not part or encoding in ("ascii", "utf-8")
        identity = piece if is_plain else f"{encoding}\0".encode() + piece
        yield Piece(part, piece, _text(piece, encoding, number), identity)


def text_pieces(text: str) -> Iterator[str]:
    """Cut a text that is there as a whole into pieces of at most `PIECE_BYTES` of UTF-8; put together they are it."""
    data = text.encode()
    start = 0
    while len(data) - start > PIECE_BYTES:
        piece = data[start : start + PIECE_BYTES]
        end = cut(piece, "utf-8")
        yield piece[:end].decode()
        start += end
    yield data[start:].decode()


def piece_name(name: str, number: int) -> str:
    """What a piece of the document `name` of a source is called; "" is the name of all of the source."""
    return f"{name}, part {number}" if name else str(number)


def named_whole(name: str) -> str:
    """The document that a name of `piece_name` is a piece of, if that has a name; else the name itself."""
    found = _PIECE_OF_NAMED.fullmatch(name)
    return found[1] if found else name


def _detect(data: bytes, stream: ByteStream, is_last: bool) -> str:
    """The encoding, judged by more than the piece where that is not ASCII: a few letters tell little."""
    if not is_last and not data.isascii():
        data += stream.peek().partition(b"\0")[0]  # what comes later and is no text leaves this piece readable
    return detect(data, is_last)


def _text(data: bytes, encoding: str, number: int) -> str:
    text = decode(data, encoding)
    if "\0" in text:
        raise UnreadableFile("looks binary")
    return text.removeprefix("\ufeff") if number == 1 else text
