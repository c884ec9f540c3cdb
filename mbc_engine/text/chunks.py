"""Where English sentences begin and end, by rules over pairs of neighbouring words; linear in the text.

Cuts a text into chunks that fit an encoder's window, at sentence ends where it can, losing nothing.

Long texts in pieces, none of which cuts a line if it can be helped: a piece is encoded and committed as a whole.

Texts into chunks that fit an encoder's window, in whatever process they are read: without torch.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tokenizers import Tokenizer

from mbc_engine.text.decoding import ByteStream, cut, decode, detect
from mbc_engine.text.document import UnreadableFile

_WORD = re.compile(r"\S+")
_OPENERS = "\"'“‘«([{*_"  # noqa: RUF001
_CLOSERS = "\"'”’»)]}*_"  # noqa: RUF001
# "…in 1911.[3][4]": reference marks belong to the sentence before them.
_REFERENCES = re.compile(r"(?<=[.!?])(?:\[\w{1,4}\])+$")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.-?)+[^\W\d_]{1,2}")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ABBREVIATIONS = _words(
    "mr mrs ms mx dr prof st mt ft sr jr hon rev fr gen adm col maj capt cmdr lt sgt cpl pvt gov sen rep pres supt "
    "vs cf al etc approx ca est dept univ assn bros inc corp ltd co llc ave blvd rd "
    "jan feb mar apr jun jul aug sept sep oct nov dec mon tue tues wed thu thurs fri"
)
_BEFORE_NUMBERS = _words("no nos fig figs vol vols pp sec ch art eq op ed nr para")
# After an abbreviation, a word that opens sentences far more often than it follows "Mr." or "U.S.".
_STARTERS = _words(
    "The This That These Those There Then They He She It We You I His Her Its Their Our My In On At By For From With "
    "After Before During Since When While As If But And Or So However Although Though Because Not "
    "What Who Where Why How Some Many Most Several Both Another Other One Later Today"
)


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Spans (start, end) of the sentences: text[start:end] is one, without space around it.

    Together the spans hold every character that is not white space, in order. A blank line always ends a sentence; a
    single line break does unless the text plainly runs on (a lower-case word follows, or a comma stands before it).
    """
    spans: list[tuple[int, int]] = []
    start = end = 0
    previous = ""
    for match in _WORD.finditer(text):
        if previous and _is_end(previous, text[end : match.start()], match[0], is_first=start == end - len(previous)):
            spans.append((start, end))
            previous = ""
        if not previous:
            start = match.start()
        previous, end = match[0], match.end()
    if previous:
        spans.append((start, end))
    return spans


def _is_end(word: str, gap: str, following: str, *, is_first: bool) -> bool:
    """Does a sentence end between two words? `is_first`: `word` is the first of its sentence."""
    line_breaks = gap.count("\n")
    if line_breaks > 1:
        return True
    follower = following.lstrip(_OPENERS)
    runs_on = follower[:1].islower()
    stem = _REFERENCES.sub("", word).rstrip(_CLOSERS)
    if not stem.endswith((".", "!", "?", "…")):
        return line_breaks == 1 and not runs_on and not word.endswith(",")
    if runs_on:
        return False
    if not stem.endswith(".") or stem.endswith(".."):
        return True
    return not _is_abbreviation(stem[:-1].lstrip(_OPENERS), follower, is_first=is_first)


def _is_abbreviation(word: str, follower: str, *, is_first: bool) -> bool:
    """Does the full stop after `word` belong to the word (Mr., U.S., J., No. 5, the 1. of a list)?"""
    if is_first and (len(word) == 1 or word.isdecimal()):
        return True
    if word.lower() in _BEFORE_NUMBERS:
        return follower[:1].isdecimal()
    if word.lower() in _ABBREVIATIONS or _DOTTED.fullmatch(word) or (len(word) == 1 and word.isalpha()):
        return follower.rstrip(",;:" + _CLOSERS).partition("'")[0] not in _STARTERS
    return False


_CHUNKS_WORD = re.compile(r"\S+")


class Chunk(NamedTuple):
    """A part of a document's text, and the character of the text that it starts at."""

    text: str
    start: int


@dataclass(frozen=True)
class _Piece:
    start: int
    end: int
    tokens: int


def chunk(text: str, count_tokens: Callable[[list[str]], list[int]], max_tokens: int) -> list[Chunk]:
    """Pack whole sentences into chunks of at most `max_tokens` tokens.

    A sentence longer than that is cut between words, a word longer than that between characters. The chunks are
    slices of the text, in order, and hold every character that is not white space. Only a single character that is
    itself more than `max_tokens` makes a longer chunk.

    Args:
        text: any text; an empty one gives no chunks.
        count_tokens: tokens of each of several texts, special tokens not counted. Texts put together with white
            space between them must not count more than they do apart. Called once, or a few times more where a
            sentence does not fit.
        max_tokens: the window without its special tokens, at least 1.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens must be at least 1, not {max_tokens}")

    def measure(spans: Iterable[tuple[int, int]]) -> list[_Piece]:
        kept = list(spans)
        counts = count_tokens([text[start:end] for start, end in kept]) if kept else []
        return [_Piece(start, end, tokens) for (start, end), tokens in zip(kept, counts, strict=True)]

    def divide(pieces: list[_Piece], split: Callable[[_Piece], list[tuple[int, int]]]) -> list[_Piece]:
        """Replace the pieces that do not fit by their parts, all counted in one call."""
        parts = [split(piece) if piece.tokens > max_tokens else [] for piece in pieces]
        measured = iter(measure(span for spans in parts for span in spans))
        fitting: list[_Piece] = []
        for piece, spans in zip(pieces, parts, strict=True):
            fitting += [next(measured) for _ in spans] or [piece]
        return fitting

    pieces = measure(split_sentences(text))
    pieces = divide(
        pieces, lambda piece: [match.span() for match in _CHUNKS_WORD.finditer(text, piece.start, piece.end)]
    )
    while any(piece.tokens > max_tokens and piece.end - piece.start > 1 for piece in pieces):
        pieces = divide(pieces, _halves)
    return [Chunk(text[start:end], start) for start, end in _packed(pieces, max_tokens)]


def _halves(piece: _Piece) -> list[tuple[int, int]]:
    middle = (piece.start + piece.end) // 2
    return [(start, end) for start, end in ((piece.start, middle), (middle, piece.end)) if start < end]


def _packed(pieces: list[_Piece], max_tokens: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    room = 0
    for piece in pieces:
        # Two parts of one word stay apart: without white space between them their counts need not add up.
        if spans and piece.tokens <= room and spans[-1][1] < piece.start:
            spans[-1] = (spans[-1][0], piece.end)
            room -= piece.tokens
        else:
            spans.append((piece.start, piece.end))
            room = max_tokens - piece.tokens
    return spans


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


@dataclass(frozen=True)
class Chunker:
    """Cuts texts by an encoder's own tokens.

    Attributes:
        tokenizer: the encoder's; may be the one it uses itself.
        capacity: tokens of text that fit the window beside the special tokens.
    """

    tokenizer: Tokenizer
    capacity: int

    def __call__(self, text: str) -> list[str]:
        """The texts of a text's chunks."""
        return [own.text for own in self.chunks(text)]

    def chunks(self, text: str) -> list[Chunk]:
        """The chunks of a text; see `documents.chunk`."""
        return chunk(text, self.token_counts, self.capacity)

    def token_counts(self, texts: list[str]) -> list[int]:
        """Tokens of each text, special tokens not counted."""
        # Said each time: the encoder's side says what it wants before each of its own uses.
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        return [len(encoding) for encoding in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
