"""Online adaptation by fine-tuning: the base LM takes a step on every piece of the stream (paper, section 4.3.2)."""

from collections.abc import Generator, Iterable, Sequence
from typing import Literal

import torch
from torch import nn

from mbc_engine.datasets.layout import QAExample
from mbc_engine.events import RateTried
from mbc_engine.lm.base import BaseLM
from mbc_engine.methods.method import Footprint
from mbc_engine.methods.reading import ClosedBook
from mbc_engine.methods.token_weights import TokenWeights
from mbc_engine.paper.scoring import score

Optimiser = Literal["adam", "adafactor"]


def make_optimiser(name: Optimiser, parameters: Iterable[nn.Parameter], rate: float) -> torch.optim.Optimizer:
    """An optimiser with a constant learning rate.

    Adafactor keeps rows and columns of its second moment in place of all of it. It takes the rate as it is, as in the
    released code of CaMeLS, so that one sweep of rates fits both; torch's own would scale it by each weight's size.
    """
    if name == "adafactor":
        from transformers.optimization import Adafactor  # which brings much along

        return Adafactor(parameters, lr=rate, scale_parameter=False, relative_step=False)
    # Fused, a step on 82 million weights takes 0.12 s of a core, else 0.39 s.
    return torch.optim.Adam(parameters, lr=rate, fused=True)


class FineTuned(ClosedBook):
    """A method that keeps documents in the weights of a base LM in float32, which are changed until the next `reset`.

    `window` is the most tokens of a piece; one whose tokens all weigh nothing makes no step. Raises ModelError if the
    base LM cannot be tuned.
    """

    def __init__(self, base: BaseLM, weights: TokenWeights, *, rate: float, optimiser: Optimiser, window: int) -> None:
        base.tune()
        base.eval()
        super().__init__(base)
        self._weights, self._window = weights, window
        self._kind, self._rate = optimiser, rate
        # Beside the host's memory a GPU's is small, and it is read only when the method is reset.
        self._initial = [value.detach().to("cpu", copy=True) for value in base.parameters()]
        self._optimiser = self._fresh_optimiser()

    @torch.no_grad()
    def reset(self) -> None:
        for value, initial in zip(self._base.parameters(), self._initial, strict=True):
            value.copy_(initial)
        self._optimiser.zero_grad()  # of a step that was interrupted
        self._optimiser = self._fresh_optimiser()

    def adapt(self, documents: Sequence[str]) -> None:
        for document in documents:
            for piece in self._base.texts.pieces(document, self._window):
                with torch.no_grad():  # the weights may be a model's
                    weights = self._weights(piece)
                if not weights.any():
                    continue
                self._base.piece_loss(piece, weights).backward()
                self._optimiser.step()
                self._optimiser.zero_grad()

    def footprint(self) -> Footprint:
        """All weights that differ from the base LM's, as they are stored; the paper counts none for fine-tuning."""
        pairs = zip(self._base.parameters(), self._initial, strict=True)
        changed = [initial for value, initial in pairs if not torch.equal(value.detach().cpu(), initial)]
        return Footprint(on_disk=sum(value.numel() * value.element_size() for value in changed))

    def _fresh_optimiser(self) -> torch.optim.Optimizer:
        return make_optimiser(self._kind, self._base.parameters(), self._rate)


def sweep(
    base: BaseLM,
    weights: TokenWeights,
    rates: Sequence[float],
    validation: Sequence[QAExample],
    *,
    optimiser: Optimiser,
    window: int,
) -> Generator[RateTried, None, float]:
    """Adapt to the validation documents at each rate, each from the same weights, and ask the validation questions.

    Returns the rate with the best F1 against the shortest answers; of equals that with the better EM, then the smallest.
    """
    documents = list(dict.fromkeys(example.text for example in validation))
    questions = [example.question for example in validation]
    tried = []
    for rate in rates:
        method = FineTuned(base, weights, rate=rate, optimiser=optimiser, window=window)
        try:
            method.adapt(documents)
            answered = zip(validation, method.answer(questions), strict=True)
        finally:
            method.reset()
        scores = score([(example, answer.text, None) for example, answer in answered])
        tried.append(RateTried(rate, scores.exact_match, scores.f1))
        yield tried[-1]
    return max(tried, key=lambda event: (event.f1, event.exact_match, -event.rate)).rate
