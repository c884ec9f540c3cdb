"""From bytes to text: decompression, detection of encodings, and splitting into lines and pieces."""

import codecs
import gzip
import io
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path

from mbc_engine.text.document import Content, EmptyFile, UnreadableFile, described, reason

# Of a file that is read as a whole: parsed, it takes many times as much memory.
MOST_BYTES = 64 << 20
# Of one whose text is only a part of it.
MOST_BINARY_BYTES = 512 << 20
# At its start, `ByteStream.peek` returns as many, if available.
PEEK_BYTES = 1 << 20
# Small, as the block in which a decompressor finds damage is lost.
_BLOCK_BYTES = 1 << 16

_NEVER_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_DAMAGE = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)

# How to decompress an open file, by compression suffix.
OPENERS: Mapping[str, Callable[[io.BufferedReader], io.BufferedReader | gzip.GzipFile | lzma.LZMAFile]] = {
    "": lambda file: file,
    ".gz": gzip.open,
    ".xz": lzma.open,
}


def split_suffixes(name: str) -> tuple[str, str]:
    """The lower-case format suffix and compression suffix (a key of `OPENERS`) of a file's name."""
    stem, suffix = os.path.splitext(name.lower())
    return (os.path.splitext(stem)[1], suffix) if suffix and suffix in OPENERS else (suffix, "")


class _UntilItFails(io.RawIOBase):
    """A stream that ends where reading it fails, keeping the reason as `failure`."""

    def __init__(self, read: Callable[[int], bytes], position: Callable[[], int]) -> None:
        self._read, self._position = read, position
        self.failure: str | None = None
        self._has_ended = False  # a terminal would ask for more after each Ctrl-D
        # Bytes of the file and of the stream read before the last call, and after it.
        self.last_fill = ((0, 0), (0, 0))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the type of io's own caller
        filled = 0
        while filled < len(buffer) and (block := self._next(min(_BLOCK_BYTES, len(buffer) - filled))):
            buffer[filled : filled + len(block)] = block
            filled += len(block)
        self.last_fill = self.last_fill[1], (self._position(), self.tell() + filled)
        return filled

    def tell(self) -> int:
        return self.last_fill[1][1]

    def _next(self, most: int) -> bytes:
        if self.failure or self._has_ended:
            return b""
        try:
            block = self._read(most)
            self._has_ended = not block
            return block
        except _DAMAGE as error:  # before OSError, of which BadGzipFile is one
            self.failure = f"is damaged: {described(error)}"
        except OSError as error:
            self.failure = reason(error)
        return b""


class ByteStream(io.BufferedReader):
    """Bytes up to the end or the first damage; `peek()` at its start shows the first `PEEK_BYTES`.

    `read(n)` returns at most n bytes, `position()` how far into the file it has read.
    """

    def __init__(self, read: Callable[[int], bytes], position: Callable[[], int] = int) -> None:
        self._source = _UntilItFails(read, position)
        super().__init__(self._source, PEEK_BYTES)

    def position(self) -> int:
        """Roughly how many bytes of the file on disk have been consumed."""
        (file, given), (file_now, given_now) = self._source.last_fill
        ahead = given_now - self.tell()
        # The bytes read by the last call count in proportion to how many were consumed.
        return file_now - (file_now - file) * min(ahead, given_now - given) // max(1, given_now - given)

    def require_undamaged(self) -> None:
        """Raises UnreadableFile if the file is damaged or could not be read to its end."""
        if self._source.failure:
            raise UnreadableFile(self._source.failure)

    def read_all(self, most: int | None = None) -> bytes:
        """All bytes up to the end or the damage.

        Raises UnreadableFile if there are none, or more than `most`, which is `MOST_BYTES` by default.
        """
        most = MOST_BYTES if most is None else most
        blocks = iter(partial(self.read, PEEK_BYTES), b"")
        data = b"".join(islice(blocks, most // PEEK_BYTES + 1))
        if len(data) > most:
            raise UnreadableFile(f"is larger than {most >> 20} MB")
        if not data:
            self.require_undamaged()
            raise EmptyFile
        return data


def stream_of(data: bytes) -> ByteStream:
    """Bytes in memory, to be read as those of a file."""
    return ByteStream(io.BytesIO(data).read)


@contextmanager
def open_file(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file that has content. Raises UnreadableFile if there is none or it is no file, OSError if it cannot be.

    Pipes, devices and files of the kernel, whose size is 0, are not read, which could block forever.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NEVER_WAIT)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFile("is not a regular file")
        if not status.st_size:
            raise EmptyFile
        yield file


def require_at(descriptor: int, path: str | Path) -> None:
    """Raises UnreadableFile unless an open file or folder is the one at this path, without a link on the way."""
    link = f"/proc/self/fd/{descriptor}"  # else the path is looked at a moment later
    if (os.readlink(link) if os.path.islink(link) else os.path.realpath(path)) != os.fspath(path):
        raise UnreadableFile("is reached by a link")


@contextmanager
def open_bytes(file: io.BufferedReader, compression: str) -> Iterator[ByteStream]:
    """The content of an open file at its start, whose compression has the suffix `compression`."""
    with OPENERS[compression](file) as unpacked:
        yield ByteStream(unpacked.read1, file.tell)


# The longest line that is read, in characters.
LINE_CHARACTERS = 16 << 20

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# The encodings of old files; given all that Python has, short texts are detected as EBCDIC.
_LEGACY = [
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "iso8859_2", "iso8859_5"),
    *("koi8_r", "cp866", "mac_roman", "cp932", "euc_jp", "gb18030", "big5", "cp949"),
]
# Never in a text: control characters other than tabs, line ends, backspaces and escapes.
_BINARY = re.compile(rb"[\x01-\x06\x0e-\x19\x1c-\x1f]")
_BINARY_TEXT = re.compile("[\x01-\x06\x0e-\x19\x1c-\x1f\ufffd]")
_NULS = re.compile("\0+")
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
# Fewer bytes outside ASCII say nothing about an encoding.
_LEAST_EVIDENCE = 4


def detect(data: bytes, is_whole: bool) -> str:
    """Detect the codec of a text that is `data`, or begins with it: by its mark, valid UTF-8, or statistics.

    Falls back to Windows-1252, as in almost every older Western file. Raises UnreadableFile if the bytes are not text.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return encoding
    if b"\0" in data:
        if utf16 := _unmarked_utf16(data[:PEEK_BYTES]):
            return utf16
        data = data.replace(b"\0", b"")
        if not data.strip() or _BINARY.search(data) or not _is_utf8(data, is_whole):
            raise UnreadableFile("looks binary")
    if data.isascii():
        return "ascii"
    return "utf-8" if _is_utf8(data, is_whole) else _legacy(data)


def decode(data: bytes, encoding: str) -> str:
    """The text, with "\\n" for all line ends, U+FFFD for invalid bytes and a space for NULs, as crashes leave them.

    Raises UnreadableFile if it has NULs and is no text otherwise.
    """
    text = data.decode(encoding, "replace").replace("\r\n", "\n").replace("\r", "\n")
    if "\0" not in text:
        return text
    if _BINARY_TEXT.search(text) or not text.strip("\0 \t\n"):
        raise UnreadableFile("looks binary")
    return _NULS.sub(" ", text)


def decode_file(data: bytes) -> str:
    """The text of a whole file, without a byte order mark. Raises UnreadableFile if the bytes are not text."""
    return decode(data, detect(data, is_whole=True)).removeprefix("\ufeff")


def storable(text: str) -> str:
    """The text with U+FFFD for lone surrogates and NUL, which UTF-8 files or databases cannot hold."""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd")


def cut(data: bytes, encoding: str) -> int:
    """How many bytes of an encoded text to take, so that they end after a line, else a space, else a character."""
    for mark in ("\n".encode(encoding), " ".encode(encoding)):
        end = len(data)
        while (start := data.rfind(mark, len(data) // 2, end)) >= 0:
            if start % len(mark) == 0:
                return start + len(mark)
            end = start + len(mark) - 1
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    decoder.decode(data)
    end = len(data) - len(decoder.getstate()[0])
    carriage_return = "\r".encode(encoding)
    if data[:end].endswith(carriage_return):  # perhaps half a line end
        end -= len(carriage_return)
    return end or len(data)


def lines(stream: ByteStream, newline: str) -> Iterator[str | None]:
    """The lines of a text, with their ends; None for one longer than `LINE_CHARACTERS`.

    `newline` is "\\n" if only that ends a line, "" if "\\r" does too. Raises UnreadableFile if the bytes are not text.
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


# Some 30 chunks of English, 2 to 5 s of encoding on two busy cores: the most that a stop loses.
PIECE_BYTES = 1 << 15
_NUMBERED_PIECE = re.compile(r"(.*), part [1-9]\d*", re.DOTALL)


def pieces(stream: ByteStream) -> Iterator[Content]:
    """Cut a text into pieces of at most `PIECE_BYTES`, whose texts concatenate to the whole text.

    The part of a piece is its number, from 1, unless it is the only one. Raises UnreadableFile at the first piece that
    is not text.
    """
    number, encoding, rest = 0, "ascii", b""
    while data := rest + stream.read(PIECE_BYTES - len(rest)):
        is_last = not stream.peek(1)
        if encoding == "ascii":
            # One piece has few non-ASCII letters, so look ahead, up to binary data: this piece is readable anyway.
            ahead = b"" if is_last or data.isascii() else stream.peek().partition(b"\0")[0]
            encoding = detect(data + ahead, is_last)
        end = len(data) if is_last else cut(data, encoding)
        piece, rest = data[:end], data[end:]
        number += 1
        part = "" if is_last and number == 1 else str(number)
        text = decode(piece, encoding)
        # The bytes of a piece alone do not determine its text: its encoding may be known from other pieces.
        is_plain = not part or encoding in ("ascii", "utf-8")
        identity = piece if is_plain else f"{encoding}\0".encode() + piece
        yield Content(text.removeprefix("\ufeff") if number == 1 else text, identity, part=part, size=len(piece))


def text_pieces(text: str) -> Iterator[str]:
    """Cut a text in memory into pieces of at most `PIECE_BYTES` of UTF-8, which concatenate to the whole text."""
    data, start = text.encode(), 0
    while len(data) - start > PIECE_BYTES:
        piece = data[start : start + PIECE_BYTES]
        end = cut(piece, "utf-8")
        yield piece[:end].decode()
        start += end
    yield data[start:].decode()


def piece_name(name: str, number: int) -> str:
    """The part name of a numbered piece of the part `name`."""
    return f"{name}, part {number}" if name else str(number)


def without_piece_number(name: str) -> str:
    """The part that a name made by `piece_name` is a piece of; any other name unchanged."""
    match = _NUMBERED_PIECE.fullmatch(name)
    return match[1] if match else name


def _is_utf8(data: bytes, is_whole: bool) -> bool:
    # Nearly valid is enough: many programs' logs have a bad byte here and there.
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, is_whole)
    bad = text.count("\ufffd")
    return bad == 0 or 10 * bad < len(text) - len(text.encode("ascii", "ignore"))


def _unmarked_utf16(data: bytes) -> str | None:
    """Detect UTF-16 without a mark: in Western text, every second byte is zero."""
    for encoding, low, high in (("utf-16-le", 0, 1), ("utf-16-be", 1, 0)):
        if 0 not in data[low::2] and 4 * data[high::2].count(0) > len(data):
            text = codecs.getincrementaldecoder(encoding)("replace").decode(data)
            if "".join(text.split()).isprintable():
                return encoding
    return None


# The letters beside ASCII's of the languages that each encoding is for.
_CENTRAL = "áčďéěíňóřšťúůýž ąćęłńóśźż áéíóöőúüű áäčďéíĺľňóôŕšťúýž čćđšž ăâîşţ"
_ALPHABETS = (
    ("cp1252", "äöüßé àâæçéèêëîïôœùûüÿ áéíóúñüïªº áâãàçéêíóôõúªº àèéìíîòóù åäöæøéèêóôü áðéíóúýþæö éèëïóöüáä"),
    ("cp1250", _CENTRAL),
    ("iso8859_2", _CENTRAL),
    ("cp1254", "çğ\u0131i\u0307öşüâîû"),
)
# Controls, and signs in a word, where another encoding has letters.
_NO_LATIN = re.compile("[\x80-\x9f]|[^\\W\\d_][\u00a1-\u00a9\u00ab-\u00b4\u00b6-\u00b9\u00bb-\u00bf][^\\W\\d_]")


def _by_letters(data: bytes) -> str | None:
    """The encoding in which the letters of a text in Latin script are those of one language."""
    for encoding, alphabets in _ALPHABETS:
        with suppress(UnicodeDecodeError):
            text = data.decode(encoding).lower()
            letters = [letter for letter in text if letter.isalpha()]
            others = {letter for letter in letters if not letter.isascii()}
            is_latin = 2 * sum(map(str.isascii, letters)) > len(letters) and not _NO_LATIN.search(text)
            if is_latin and any(others <= {*alphabet} for alphabet in alphabets.split()):
                return encoding
    return None


def _legacy(data: bytes) -> str:
    first = _NOT_ASCII.search(data)
    # Starting in ASCII never splits a character.
    start = max(0, first.start() - 1024) if first else 0
    sample = data[start : start + PEEK_BYTES]
    if len(_NOT_ASCII.findall(sample[: 1 << 16])) >= _LEAST_EVIDENCE:
        if encoding := _by_letters(sample[: 1 << 16]):
            return encoding
        from charset_normalizer import from_bytes

        matches = from_bytes(sample, cp_isolation=_LEGACY)
        best = matches.best()
        # If Western letters fit as well, they are far more likely than Central European or Baltic ones.
        if best is not None and not any("cp1252" in match.could_be_from_charset for match in matches):
            return best.encoding
    try:
        sample.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"
