"""How well a model in training answers the validation questions, which its processes ask together."""

from collections.abc import Sequence

import torch

from mbc_engine.datasets.example import QAExample
from mbc_engine.metrics import Scores
from mbc_engine.model.mbc import MBC
from mbc_engine.model.scoring import ask_all, score
from mbc_engine.training.processes import Processes


@torch.no_grad()
def validate(model: MBC, questions: Sequence[QAExample], processes: Processes) -> Scores:
    """The scores of all questions, at least one, asked of a memory of all their documents; each process asks a share.

    Args:
        model: this process's; in evaluation mode from here on.
        questions: the same in all processes.
        processes: those that ask.
    """
    model.eval()
    share = processes.share(len(questions))
    # Stand-ins are asked too: with parameters in parts, all processes have to take the same steps.
    asked = [questions[place] for place in share.places]
    outcomes = processes.inside(lambda: list(ask_all(model, questions, asked=asked)))
    return _pooled(score(outcomes[: share.own]), processes)


def _pooled(scores: Scores, processes: Processes) -> Scores:
    """The scores of all processes' questions from those of this one's."""
    if processes.count == 1:
        return scores
    names = [name for name in vars(scores) if name != "questions"]
    sums = [getattr(scores, name) * scores.questions for name in names]
    questions, *pooled = processes.summed([scores.questions, *sums])
    return Scores(int(questions), **{name: value / questions for name, value in zip(names, pooled, strict=True)})
