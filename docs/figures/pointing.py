"""Where the last block of the aggregator attends to: which words of the story that was found."""

from dataclasses import dataclass
from typing import Final

import matplotlib.pyplot as plt
import numpy as np
import torch
from look import AMOUNTS, ORANGE
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from told import Told, tell

from mbc_engine.model.code_memory import as_indices

# One that mini answers rightly, and one that it does not.
QUESTIONS: Final = (
    "When did Teresa Andrade found the festival?",
    "Who is the transport minister at the opening in Pennbridge?",
)


@dataclass(frozen=True)
class Pointed:
    """What came of a question.

    Attributes:
        words: of the story that was read, in its order.
        attention: of each latent to each of them, [T, words].
        said: the answer from memory.
    """

    words: list[str]
    attention: NDArray[np.float32]
    said: str


def draw() -> Figure:
    """Two questions of the demo."""
    told = tell()
    figure, axes = plt.subplots(len(QUESTIONS), 1, figsize=(8.6, 4.9), layout="constrained")
    for own, text in zip(axes, QUESTIONS, strict=True):
        expected = next(question.answer for question in told.questions if question.text == text)
        found = point(told, text)
        print(f"{text} {found.said} ({expected})")
        _draw(own, found, text, expected)
    return figure


@torch.no_grad()
def point(told: Told, question: str) -> Pointed:
    """Ask a question, and look at the read."""
    model = told.model
    reading = model.read([question], told.memory)
    found = reading.chunks[0][0].chunk
    chosen = told.memory.chosen(np.array([[found]]))
    read = model.aggregator(reading.question, chosen.vectors.flatten(1, 2))
    assert torch.allclose(read.modulation, reading.modulation, atol=1e-5), "it is what was read"
    return Pointed(words_of(told, found), read.pointed[0].numpy(), model.say(reading, [question])[0])


def words_of(told: Told, chunk: int) -> list[str]:
    """What is remembered of a chunk, spelled out."""
    codes = as_indices(told.memory.codes_at(np.array([chunk])), told.model.codebook)
    pieces, _, _ = told.model.codebook.split(codes)
    return [str(told.model.base.tokenizer.decode([piece])) for piece in pieces[0].tolist()]


def _draw(axes: Axes, found: Pointed, question: str, expected: str) -> None:
    axes.imshow(found.attention, cmap=AMOUNTS, vmin=0, vmax=1, aspect="auto", interpolation="none")
    axes.set_xticks(range(len(found.words)), [word.strip() for word in found.words], rotation=90, size=7)
    axes.set_yticks(range(len(found.attention)), list(map(str, range(1, len(found.attention) + 1))), size=7)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_ylabel("latent", size=8)
    first, count = _place(found.words, expected)
    axes.add_patch(
        Rectangle((first - 0.5, -0.5), count, len(found.attention), fill=False, ec=ORANGE, lw=1.5, clip_on=False)
    )
    axes.set_title(f"{question}  From memory: {found.said}. Right: {expected}.")


def _place(words: list[str], answer: str) -> tuple[int, int]:
    """Where the words of an answer stand among others, and how many they are."""
    for first in range(len(words)):
        for count in range(1, len(words) - first + 1):
            if "".join(words[first : first + count]).strip() == answer:
                return first, count
    raise ValueError(f"{answer!r} is not among the words")
