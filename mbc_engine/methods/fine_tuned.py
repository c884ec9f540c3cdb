"""Online adaptation by fine-tuning: the base LM takes a step on every piece of the stream (paper, section 4.3.2).

As in CaMeLS (Hu et al. 2023, Meta-Learning Online Adaptation of Language Models): one pass over the documents in their
order, a piece a step, a constant learning rate; what tells the methods apart are the weights of tokens. Uniform
fine-tuning counts all tokens alike. Unlike there, adaptation is without dropout, so that it is always the same.
"""

from collections.abc import Sequence

import torch

from mbc_engine.methods.answering import answers
from mbc_engine.methods.method import Footprint, Reply
from mbc_engine.methods.optimisers import Optimiser, make_optimiser
from mbc_engine.methods.token_weights import TokenWeights
from mbc_engine.model.base import BaseLM


class FineTuned:
    """A method that keeps documents in the weights of the base LM.

    Args:
        base: a base LM in float32, which has learned to answer questions (`question_training.py`); it is changed until
            the next `reset`.
        weights: of the tokens; a piece whose tokens all weigh nothing makes no step.
        rate: learning rate, see `rate_sweep.py`.
        optimiser: adam or adafactor.
        window: most tokens of a piece.

    Raises:
        ModelError: the base LM cannot be tuned.
    """

    def __init__(self, base: BaseLM, weights: TokenWeights, *, rate: float, optimiser: Optimiser, window: int) -> None:
        base.tune()
        base.eval()
        self._base, self._weights, self._window = base, weights, window
        self._kind, self._rate = optimiser, rate
        # Beside the host's memory a GPU's is small, and it is read only when the method is reset.
        self._initial = [value.detach().to("cpu", copy=True) for value in base.parameters()]
        self._optimiser = self._fresh_optimiser()

    @torch.no_grad()
    def reset(self) -> None:
        """Restore the base LM as it was given, and forget the optimiser's moments."""
        for value, initial in zip(self._base.parameters(), self._initial, strict=True):
            value.copy_(initial)
        self._optimiser.zero_grad()  # of a step that was interrupted
        self._optimiser = self._fresh_optimiser()

    def adapt(self, documents: Sequence[str]) -> None:
        """Take a step on each piece of the documents, in their order."""
        for document in documents:
            for piece in self._base.texts.pieces(document, self._window):
                with torch.no_grad():  # the weights may be a model's
                    weights = self._weights(piece)
                if not weights.any():
                    continue
                self._base.piece_loss(piece, weights).backward()
                self._optimiser.step()
                self._optimiser.zero_grad()

    def answer(self, questions: Sequence[str]) -> list[Reply]:
        """Answers from the weights alone, greedy; no sources can be named."""
        return [Reply(text) for text in answers(self._base, questions)]

    def footprint(self) -> Footprint:
        """All weights that differ from the base LM's, as they are stored; the paper counts none for fine-tuning."""
        pairs = zip(self._base.parameters(), self._initial, strict=True)
        changed = [initial for value, initial in pairs if not torch.equal(value.detach().cpu(), initial)]
        return Footprint(on_disk=sum(value.numel() * value.element_size() for value in changed))

    def _fresh_optimiser(self) -> torch.optim.Optimizer:
        return make_optimiser(self._kind, self._base.parameters(), self._rate)
