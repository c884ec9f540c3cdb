"""Texts and the breaks between them, as HTML and Word give them, become paragraphs, lines and cells."""

from collections.abc import Iterable
from enum import IntEnum


class Break(IntEnum):
    """What separates two texts, the stronger the greater."""

    CELL = 1
    LINE = 2
    PARAGRAPH = 3


_WRITTEN = {Break.CELL: "\t", Break.LINE: "\n", Break.PARAGRAPH: "\n\n"}


def lay_out(pieces: Iterable[str | Break]) -> str:
    """Write the texts one after the other; of several breaks between two texts the strongest counts.

    White space within a text becomes a single space.
    """
    written: list[str] = []
    pending: Break | None = None
    has_space = False
    for piece in pieces:
        if isinstance(piece, Break):
            pending = max(piece, pending or piece)
            continue
        words = piece.split()
        if not words:
            has_space = has_space or bool(piece)
            continue
        if written and pending:
            written.append(_WRITTEN[pending])
        elif written and (has_space or piece[0].isspace()):
            written.append(" ")
        written.append(" ".join(words))
        pending = None
        has_space = piece[-1].isspace()
    return "".join(written)
