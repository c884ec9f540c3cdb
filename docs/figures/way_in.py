"""A story's way in: the words that are kept of it, the codes of some of them, and all its bits."""

from dataclasses import dataclass
from typing import Any, Final

import matplotlib.pyplot as plt
import numpy as np
import torch
from look import AMOUNTS, BLUE, FAINT, INK, ORANGE
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from told import Told, as_text, tell

from mbc_engine.bank import pack
from mbc_engine.config import CODES_OF_A_WORD
from mbc_engine.model.code_memory import as_indices, shape_of
from mbc_engine.model.salience import chosen
from mbc_engine.model.word_pieces import PieceAligner

# Letters of one width, so many to a line as fill it: each is 0.602 times as wide as high.
WIDTH, EDGE, COLUMNS = 8.6, 0.015, 92
LETTERS: Final[dict[str, Any]] = {"family": "monospace", "size": WIDTH * (1 - 2 * EDGE) * 72 / COLUMNS / 0.602}
LOOKED_AT: Final = "Lynn Jorgensen"


@dataclass(frozen=True)
class Piece:
    """A piece of a text that the base LM's vocabulary has: where it stands, what speaks for it, whether it is kept."""

    start: int
    end: int
    number: int
    odds: float
    is_kept: bool


def draw() -> Figure:
    """The first story of the demo."""
    told = tell(1)
    text = as_text(told.stories[0])
    pieces = pieces_of(told, text)
    codes = as_indices(told.memory.codes_at(np.array([0])), told.model.codebook)
    words, _, _ = told.model.codebook.split(codes)
    assert words[0].tolist()[: sum(piece.is_kept for piece in pieces)] == [own.number for own in pieces if own.is_kept]
    figure = plt.figure(figsize=(WIDTH, 5.5))
    _draw_text(figure.add_axes((EDGE, 0.72, 1 - 2 * EDGE, 0.22)), text, pieces)
    _draw_codes(figure.add_axes((EDGE, 0.30, 1 - 2 * EDGE, 0.34)), _table(told, text, pieces, codes))
    _draw_bits(figure.add_axes((EDGE, 0.02, 1 - 2 * EDGE, 0.21)), told, codes)
    return figure


@torch.no_grad()
def pieces_of(told: Told, text: str) -> list[Piece]:
    """All pieces of a text that fits the window."""
    side, vocabulary = told.model.documents, told.model.codebook.vocabulary
    batch = side.tokenizer([text], return_tensors="pt", return_offsets_mapping=True)
    states = side.amortizer.contextualise(batch["input_ids"], batch["attention_mask"])
    pieces = PieceAligner(told.model.base.tokenizer)([text], batch["offset_mapping"])
    odds = side.amortizer.salience(pieces.states(states), pieces.ids, vocabulary)
    kept = set(chosen(pieces, odds, side.amortizer.tokens)[0].tolist())
    return [
        Piece(start, end, number, own, place in kept)
        for place, ((start, end), number, own) in enumerate(
            zip(pieces.spans[0].tolist(), pieces.ids[0].tolist(), odds[0].tolist(), strict=True)
        )
    ]


def _draw_text(axes: Axes, text: str, pieces: list[Piece]) -> None:
    """Each piece in its place, the kept ones the darker the likelier they are to be asked for."""
    places, row = _wrapped(text)
    for piece in pieces:
        column, line = places[piece.start]
        width = piece.end - piece.start
        if piece.is_kept:
            colour = AMOUNTS(0.12 + 0.45 * torch.tensor(piece.odds).sigmoid().item())
            axes.add_patch(Rectangle((column + 0.05, line - 0.45), width - 0.1, 0.9, color=colour, lw=0, clip_on=False))
        letters = text[piece.start : piece.end]
        axes.text(column, line, letters, **LETTERS, va="center_baseline", color=INK if piece.is_kept else FAINT)
    kept = sum(piece.is_kept for piece in pieces)
    print(f"{len(pieces)} pieces, {kept} kept; the story has {len(text.encode())} bytes")
    axes.set(xlim=(0, COLUMNS), ylim=(row - 0.5, -0.5))
    axes.set_title(
        f"Read: {len(pieces)} pieces of the vocabulary, of which the {kept} likeliest to be asked for are kept"
    )
    axes.axis("off")


def _wrapped(text: str) -> tuple[list[tuple[int, int]], int]:
    """The column and line of each letter of a text, cut between words, and the number of lines."""
    places: list[tuple[int, int]] = []
    line = 0
    for paragraph in text.split("\n"):
        column = 0
        for word in paragraph.split(" "):
            if column + len(word) > COLUMNS:
                line, column = line + 1, 0
            places += [(column + offset, line) for offset in range(len(word) + 1)]
            column += len(word) + 1
        line += bool(paragraph)
    return places, line


def _table(told: Told, text: str, pieces: list[Piece], codes: torch.Tensor) -> list[list[str]]:
    """The words of one name, from piece to bits, below what the columns are."""
    codebook = told.model.codebook
    _, roles, _ = codebook.split(codes)
    of = (len(codebook.vocabulary), codebook.roles, codebook.num_codes)
    rows = [["piece", f"its number of {of[0]:,}", f"role of {of[1]}", f"shade of {of[2]}", "three codes", "27 bits"]]
    first = text.index(LOOKED_AT)
    for place, piece in enumerate(piece for piece in pieces if piece.is_kept):
        if first <= piece.start < first + len(LOOKED_AT):
            start = codebook.address.tokens + CODES_OF_A_WORD * place
            own = codes[0, start : start + CODES_OF_A_WORD, 0].tolist()
            numbers = (piece.number, roles.role[0, place].item(), roles.shade[0, place].item())
            in_words = [text[piece.start : piece.end], *map(str, numbers), ", ".join(map(str, own))]
            rows.append([*in_words, " ".join(f"{code:09b}" for code in own)])
    return rows


def _draw_codes(axes: Axes, rows: list[list[str]]) -> None:
    """A table."""
    edges = (0, 9, 29, 41, 55, 71)
    for line, row in enumerate(rows):
        for edge, cell in zip(edges, row, strict=True):
            is_code = line > 0
            axes.text(
                edge,
                line,
                cell,
                size=8.6 if is_code else 8,
                va="center_baseline",
                color=INK if is_code else FAINT,
                family="monospace" if is_code else "sans-serif",
            )
    axes.set(xlim=(0, COLUMNS + 10), ylim=(len(rows) - 0.4, -0.6))
    axes.set_title("Coded: each word becomes three numbers below 512")
    axes.axis("off")


def _draw_bits(axes: Axes, told: Told, codes: torch.Tensor) -> None:
    """What the bank keeps: a column for each code, its nine bits from above."""
    shape = shape_of(told.model.codebook)
    data = np.frombuffer(pack(codes.numpy(), shape), np.uint8)
    bits = np.unpackbits(data)[: shape.bits_per_chunk].reshape(-1, shape.bits_per_code).T
    axes.imshow(bits, cmap=ListedColormap(["#e4e8eb", INK]), aspect="auto", interpolation="none")
    address = told.model.codebook.address.tokens
    for start, end, colour, name in (
        (0, address, ORANGE, "address"),
        (address, shape.tokens, BLUE, f"{told.model.codebook.words} words"),
    ):
        axes.plot((start - 0.3, end - 0.7), (9.6, 9.6), color=colour, lw=3, solid_capstyle="butt")
        size = (end - start) * shape.bits_per_code / 8
        axes.text(start - 0.3, 11.6, f"{name}, {size:g} bytes", size=7.6, va="center", color=colour)
    axes.set(xlim=(-0.5, shape.tokens - 0.5), ylim=(12.8, -0.5))
    axes.set_title(f"Stored: {shape.tokens} codes of {shape.bits_per_code} bits, {shape.bits_per_chunk / 8:g} bytes")
    axes.axis("off")
