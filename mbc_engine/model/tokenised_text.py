"""Texts as a base LM's tokens, each with its place in the text."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenisedText:
    """A piece of a document as the base LM sees it.

    Attributes:
        text: the piece.
        ids: its S tokens, without special ones.
        spans: where each token lies in `text`, [S] of (start, end) in characters; byte-level tokenizers count the space
            before a word to its first token, and give each part of a character that they split the whole of it.
    """

    text: str
    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
