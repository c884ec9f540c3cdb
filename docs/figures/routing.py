"""How the demo's stories score for its questions."""

import matplotlib.pyplot as plt
import numpy as np
from example import Example, make_example
from look import AMOUNTS, INK, ORANGE, PAGE
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

# Range of the colour scale, in nats below the best score.
_SHOWN = 12


def draw() -> Figure:
    """All questions and stories of the demo."""
    example = make_example()
    behind = scores(example)
    own = [[story.text for story in example.stories].index(question.text) for question in example.questions]
    print(f"own story first for {(behind.argmax(1) == own).sum()} of {len(own)} questions")
    second = np.sort(behind, axis=1)[:, -2]
    print(f"the second best is behind by {-second.max():.2g} to {-second.min():.2g} nats")
    figure, axes = plt.subplots(figsize=(8.6, 3.7), layout="constrained")
    drawn = axes.pcolormesh(behind, cmap=AMOUNTS, vmin=-_SHOWN, vmax=0, edgecolors=PAGE, lw=1.5)
    for row, column in enumerate(own):
        axes.add_patch(Rectangle((column, row), 1, 1, fill=False, ec=ORANGE, lw=1.8, clip_on=False))
    axes.set_xticks(np.arange(len(example.stories)) + 0.5, list(map(str, range(1, len(example.stories) + 1))))
    axes.set_yticks(np.arange(len(own)) + 0.5, [_short(question.question) for question in example.questions], size=7.6)
    axes.set_xlabel("stories in the bank")
    axes.invert_yaxis()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(drawn, ax=axes, extend="min", pad=0.015, label="score behind the best, nats")
    bar.outline.set_edgecolor(INK)
    return figure


def scores(example: Example) -> NDArray[np.float64]:
    """How far each story's score is behind the best, [questions, stories], 0 for the best."""
    with example.bank.snapshot():
        questions = [own.question for own in example.questions]
        found = example.model.search(questions, example.model.scope(example.bank), top=len(example.stories)).chunks
    behind = np.full((len(example.questions), len(example.stories)), -np.inf)
    for row, ranked in zip(behind, found, strict=True):
        for one in ranked:
            row[one.chunk] = np.log(max(one.share, np.finfo(np.float64).tiny) / ranked[0].share)
    return behind


def _short(text: str) -> str:
    """Shorten a question to one line of a figure."""
    return text if len(text) <= 54 else f"{text[:52]}…"
