"""A text of any length in pieces that fit into memory, none of which cuts a line if it can be helped."""

from collections.abc import Iterator
from dataclasses import dataclass

from mbc_engine.documents.byte_stream import ByteStream
from mbc_engine.documents.encoding import cut, decode, detect
from mbc_engine.documents.unreadable import UnreadableFile

PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Piece:
    """What it is called ("" if it is the whole text, else its number from 1), its bytes and its text."""

    part: str
    data: bytes
    text: str


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
            encoding = detect(data, is_last)
        end = len(data) if is_last else cut(data, encoding)
        piece, rest = data[:end], data[end:]
        number += 1
        yield Piece("" if is_last and number == 1 else str(number), piece, _text(piece, encoding, number))


def _text(data: bytes, encoding: str, number: int) -> str:
    text = decode(data, encoding)
    if "\0" in text:
        raise UnreadableFile("looks binary")
    return text.removeprefix("\ufeff") if number == 1 else text
