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

    Adafactor keeps its second moment factored into rows and columns. It uses the rate unscaled, as in the released code
    of CaMeLS, so that one sweep of rates fits both optimisers; torch's own would scale it by each weight's size.
    """
    if name == "adafactor":
        from transformers.optimization import Adafactor  # a slow import

        return Adafactor(parameters, lr=rate, scale_parameter=False, relative_step=False)
    # A fused step on 82 million weights takes 0.12 s on one core, an unfused one 0.39 s.
    return torch.optim.Adam(parameters, lr=rate, fused=True)


class FineTuned(ClosedBook):
    """A method that keeps documents in the float32 weights of a base LM, which stay changed until the next `reset`.

    `window` is the most tokens of a piece; one whose tokens all have weight 0 makes no step. Raises ModelError if the
    base LM cannot be tuned.
    """

    def __init__(self, base: BaseLM, weights: TokenWeights, *, rate: float, optimiser: Optimiser, window: int) -> None:
        base.tune()
        base.eval()
        super().__init__(base)
        self._weights, self._window = weights, window
        self._kind, self._rate = optimiser, rate
        # On the host: GPU memory is scarcer, and these are rarely needed.
        self._initial = [value.detach().to("cpu", copy=True) for value in base.parameters()]
        self._optimiser = self._fresh_optimiser()

    @torch.no_grad()
    def reset(self) -> None:
        for value, initial in zip(self._base.parameters(), self._initial, strict=True):
            value.copy_(initial)
        self._optimiser.zero_grad()  # left by an interrupted step
        self._optimiser = self._fresh_optimiser()

    def adapt(self, documents: Sequence[str]) -> None:
        for document in documents:
            for piece in self._base.prompt_tokenizer.pieces(document, self._window):
                with torch.no_grad():  # the weights may come from a model
                    weights = self._weights(piece)
                if not weights.any():
                    continue
                self._base.piece_loss(piece, weights).backward()
                self._optimiser.step()
                self._optimiser.zero_grad()

    def footprint(self) -> Footprint:
        """All weights that differ from the base LM's, as stored; the paper counts no memory for fine-tuning."""
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
    """Adapt to the validation documents at each rate, always from the same weights, and ask the validation questions.

    Returns the rate with the best F1 against the shortest answers; ties go to the better EM, then to the smaller rate.
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
