"""How the demo's stories score for its questions."""

import matplotlib.pyplot as plt
import numpy as np
from look import AMOUNTS, INK, ORANGE, PAGE
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from told import Told, tell

# Range of the colour scale, in nats below the best score.
_SHOWN = 12


def draw() -> Figure:
    """All questions and stories of the demo."""
    told = tell()
    behind = scores(told)
    own = [[story.text for story in told.stories].index(question.text) for question in told.questions]
    print(f"own story first for {(behind.argmax(1) == own).sum()} of {len(own)} questions")
    second = np.sort(behind, axis=1)[:, -2]
    print(f"the second best is behind by {-second.max():.2g} to {-second.min():.2g} nats")
    figure, axes = plt.subplots(figsize=(8.6, 3.7), layout="constrained")
    drawn = axes.pcolormesh(behind, cmap=AMOUNTS, vmin=-_SHOWN, vmax=0, edgecolors=PAGE, lw=1.5)
    for row, column in enumerate(own):
        axes.add_patch(Rectangle((column, row), 1, 1, fill=False, ec=ORANGE, lw=1.8, clip_on=False))
    axes.set_xticks(np.arange(len(told.stories)) + 0.5, list(map(str, range(1, len(told.stories) + 1))))
    axes.set_yticks(np.arange(len(own)) + 0.5, [_short(question.question) for question in told.questions], size=7.6)
    axes.set_xlabel("stories in the bank")
    axes.invert_yaxis()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(drawn, ax=axes, extend="min", pad=0.015, label="score behind the best, nats")
    bar.outline.set_edgecolor(INK)
    return figure


def scores(told: Told) -> NDArray[np.float64]:
    """How far each story's score is behind the best, [questions, stories], 0 for the best."""
    with told.bank.snapshot():
        questions = [own.question for own in told.questions]
        found = told.model.find(questions, told.model.scope(told.bank), top=len(told.stories))
    behind = np.full((len(told.questions), len(told.stories)), -np.inf)
    for row, ranked in zip(behind, found, strict=True):
        for one in ranked:
            row[one.chunk] = np.log(max(one.share, np.finfo(np.float64).tiny) / ranked[0].share)
    return behind


def _short(text: str) -> str:
    """Shorten a question to one line of a figure."""
    return text if len(text) <= 54 else f"{text[:52]}…"
