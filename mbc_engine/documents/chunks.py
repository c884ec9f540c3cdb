"""Cuts a text into chunks that fit an encoder's window, at sentence ends where it can, losing nothing."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from mbc_engine.documents.sentences import split_sentences

_WORD = re.compile(r"\S+")


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
    pieces = divide(pieces, lambda piece: [match.span() for match in _WORD.finditer(text, piece.start, piece.end)])
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
