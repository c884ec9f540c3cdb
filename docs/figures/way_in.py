"""A story's way into a bank: its text, the codes it is found by, and the bytes that both take."""

import textwrap
from dataclasses import dataclass
from typing import Any, Final

import matplotlib.pyplot as plt
import numpy as np
from example import Example, as_text, make_example
from look import BLUE, FAINT, INK, ORANGE
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mbc_engine.bank import pack

# Monospaced letters, sized so that COLUMNS of them fill a line: each is 0.602 times as wide as it is high.
WIDTH, EDGE, COLUMNS = 8.6, 0.015, 92
LETTERS: Final[dict[str, Any]] = {"family": "monospace", "size": WIDTH * (1 - 2 * EDGE) * 72 / COLUMNS / 0.602}


@dataclass(frozen=True)
class Kept:
    """What a bank keeps of a story.

    Attributes:
        codes: of its chunk, [tokens].
        bits: of these codes, one column per code, top to bottom, [bits, tokens].
        code_bytes: size of the codes.
        text_bytes: size of the compressed text.
        size: bytes of the text itself.
    """

    codes: list[int]
    bits: NDArray[np.uint8]
    code_bytes: float
    text_bytes: int
    size: int


def draw() -> Figure:
    """The first story of the demo."""
    example = make_example(1)
    text, kept = as_text(example.stories[0]), kept_of(example)
    print(f"{kept.size} bytes of text: {kept.code_bytes:g} bytes of codes, {kept.text_bytes} of compressed text")
    figure = plt.figure(figsize=(WIDTH, 4.4))
    _draw_text(figure.add_axes((EDGE, 0.62, 1 - 2 * EDGE, 0.31)), text)
    _draw_codes(figure.add_axes((EDGE, 0.26, 1 - 2 * EDGE, 0.26)), kept)
    _draw_bytes(figure.add_axes((EDGE, 0.02, 1 - 2 * EDGE, 0.15)), kept)
    return figure


def kept_of(example: Example) -> Kept:
    """What the bank keeps of its only story."""
    shape, sizes = example.model.code_shape, example.bank.sizes()
    codes = example.bank.codes_at([0])
    data = np.frombuffer(pack(codes, shape), np.uint8)
    bits = np.unpackbits(data)[: shape.bits_per_chunk].reshape(-1, shape.bits_per_code).T
    size = len(as_text(example.stories[0]).encode())
    return Kept(codes[0, :, 0].tolist(), bits, shape.bits_per_chunk / 8, sizes.texts, size)


def _draw_text(axes: Axes, text: str) -> None:
    lines = [line for paragraph in text.split("\n") for line in textwrap.wrap(paragraph, COLUMNS)]
    for row, line in enumerate(lines):
        axes.text(0, row, line, **LETTERS, va="center_baseline", color=INK)
    axes.set(xlim=(0, COLUMNS), ylim=(len(lines) - 0.5, -0.5))
    axes.set_title("The text of one chunk")
    axes.axis("off")


def _draw_codes(axes: Axes, kept: Kept) -> None:
    """Each code as a number, and below it the nine bits that the bank keeps."""
    axes.imshow(kept.bits, cmap=ListedColormap(["#e4e8eb", INK]), aspect="auto", interpolation="none")
    axes.set_xticks(range(len(kept.codes)), list(map(str, kept.codes)), size=7.6)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_title(f"Its {len(kept.codes)} codes below 512, and their {kept.bits.size} bits: {kept.code_bytes:g} bytes")


def _draw_bytes(axes: Axes, kept: Kept) -> None:
    """Bars of the text, and of what is kept of it."""
    axes.barh(0, kept.size, color=FAINT, height=0.7)
    axes.barh(1, kept.code_bytes, color=ORANGE, height=0.7)
    axes.barh(1, kept.text_bytes, left=kept.code_bytes, color=BLUE, height=0.7)
    kept_bytes = kept.code_bytes + kept.text_bytes
    axes.text(kept.size, 0, f" the text, {kept.size} bytes", va="center", size=7.6)
    axes.text(kept_bytes, 1, f" codes and compressed text, {kept_bytes:g} bytes", va="center", size=7.6)
    axes.set(xlim=(0, 1.4 * kept.size), ylim=(1.5, -0.5))
    axes.axis("off")
