"""Bytes become text: which encoding they are in, and where they may be cut without hurting a character."""

import codecs
import io
import re
from collections.abc import Iterator

from mbc_engine.documents.byte_stream import PEEK_BYTES, ByteStream
from mbc_engine.documents.unreadable import UnreadableFile

# The longest line, in characters, of a file whose lines are read one by one.
LINE_CHARACTERS = 16 << 20

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Those that old files are in; over Python's whole list short texts turn up in EBCDIC.
_LEGACY = [
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "iso8859_2", "iso8859_5"),
    *("koi8_r", "cp866", "mac_roman", "cp932", "euc_jp", "gb18030", "big5", "cp949"),
]
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
# Fewer bytes outside ASCII than this say nothing about an encoding.
_LEAST_EVIDENCE = 4


def detect(data: bytes, is_whole: bool) -> str:
    """The codec of a text that is `data`, or begins with it: "ascii" as long as nothing else shows.

    A byte order mark decides, then valid UTF-8, then statistics; what these leave open is Windows-1252, which almost
    every older Western file is. A beginning may end within a character.

    Raises:
        UnreadableFile: the bytes are no text.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return encoding
    if b"\0" in data:
        return _unmarked_utf16(data[:PEEK_BYTES])
    if data.isascii():
        return "ascii"
    return "utf-8" if _is_utf8(data, is_whole) else _legacy(data)


def decode(data: bytes, encoding: str) -> str:
    """The text with line ends as "\\n"; what is invalid becomes U+FFFD."""
    return data.decode(encoding, "replace").replace("\r\n", "\n").replace("\r", "\n")


def storable(text: str) -> str:
    """The text with what no UTF-8 file can hold (lone surrogates) or no database takes (NUL) as U+FFFD."""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd")


def cut(data: bytes, encoding: str) -> int:
    """How many of the bytes to take so that they end with a line, else a space, else between two characters.

    Args:
        data: encoded text, beginning with a whole character and perhaps ending within one.
    """
    for mark in ("\n".encode(encoding), " ".encode(encoding)):
        end = len(data)
        # Not before the middle: a part of a few bytes would help nobody.
        while (start := data.rfind(mark, len(data) // 2, end)) >= 0:
            if start % len(mark) == 0:
                return start + len(mark)
            end = start + len(mark) - 1
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    decoder.decode(data)
    end = len(data) - len(decoder.getstate()[0])
    carriage_return = "\r".encode(encoding)
    if data[:end].endswith(carriage_return):  # it may be half a line end
        end -= len(carriage_return)
    return end or len(data)


def lines(stream: ByteStream, newline: str) -> Iterator[str | None]:
    """The lines of a text of any length, with their ends; None for one of more than `LINE_CHARACTERS`.

    Args:
        newline: "\\n" if only that ends a line, "" if "\\r" does too.

    Raises:
        UnreadableFile: the bytes are no text.
    """
    sample = stream.peek()
    encoding = detect(sample, len(sample) < PEEK_BYTES)
    text = io.TextIOWrapper(stream, "utf-8" if encoding == "ascii" else encoding, "replace", newline)
    is_first = True
    while line := text.readline(LINE_CHARACTERS + 1):
        yield line.removeprefix("\ufeff" if is_first else "") if len(line) <= LINE_CHARACTERS else None
        is_first = False
        while len(line) > LINE_CHARACTERS and not line.endswith("\n"):
            line = text.readline(LINE_CHARACTERS + 1)


def _is_utf8(data: bytes, is_whole: bool) -> bool:
    """Valid, or nearly: a log of many programs has a bad byte here and there."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, is_whole)
    bad = text.count("\ufffd")
    return bad == 0 or 10 * bad < len(text) - len(text.encode("ascii", "ignore"))


def _unmarked_utf16(data: bytes) -> str:
    """UTF-16 of Western text, every second byte of which is zero; of others too little sets it apart."""
    for encoding, low, high in (("utf-16-le", 0, 1), ("utf-16-be", 1, 0)):
        if 0 not in data[low::2] and 4 * data[high::2].count(0) > len(data):
            text = codecs.getincrementaldecoder(encoding)("replace").decode(data)
            if "".join(text.split()).isprintable():
                return encoding
    raise UnreadableFile("looks binary")


def _legacy(data: bytes) -> str:
    first = _NOT_ASCII.search(data)
    # Nothing before it tells anything, and beginning at an ASCII character's end cuts none in two.
    start = max(0, first.start() - 1024) if first else 0
    sample = data[start : start + PEEK_BYTES]
    if len(_NOT_ASCII.findall(sample[: 1 << 16])) >= _LEAST_EVIDENCE:
        from charset_normalizer import from_bytes

        matches = from_bytes(sample, cp_isolation=_LEGACY)
        best = matches.best()
        # Central European and Baltic texts are told by statistics of letters; where Western letters fit as well,
        # they are far more likely.
        if best is not None and not any("cp1252" in match.could_be_from_charset for match in matches):
            return best.encoding
    try:
        sample.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"
