"""The optimisers of fine-tuning: Adam, and Adafactor for large models (paper, section 4.3.2).

How much each token of a document counts when a model is fine-tuned on it.

Online adaptation by fine-tuning: the base LM takes a step on every piece of the stream (paper, section 4.3.2).

The learning rate of a fine-tuning method, found on validation documents (paper, section 4.3.2).

Rare words count more: tokens weighed by TF-IDF, a variant of CaMeLS without its model (Hu et al. 2023).
"""

import math
import re
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from typing import Final, Literal, Protocol

import torch
from torch import Tensor, nn

from mbc_engine.datasets.layout import QAExample
from mbc_engine.events import RateTried
from mbc_engine.lm.base import BaseLM
from mbc_engine.lm.texts import TokenisedText
from mbc_engine.methods.method import Footprint, Reply
from mbc_engine.methods.reading import answers
from mbc_engine.metrics import exact_match, f1, shortest

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


class TokenWeights(Protocol):
    """Weights of the loss on tokens."""

    def __call__(self, piece: TokenisedText) -> Tensor:
        """Weights of a piece's tokens, [S], not negative; the loss is the mean over tokens of weight times loss."""
        ...


def uniform(piece: TokenisedText) -> Tensor:
    """Every token counts alike: plain fine-tuning."""
    return torch.ones(len(piece.ids))


def over_characters(piece: TokenisedText, marked: Iterable[tuple[int, int, float]]) -> Tensor:
    """Weights of a piece's tokens from weights of its characters: of each token the largest, 0 where there is none.

    Args:
        piece: what is weighed.
        marked: (start, end, weight) of stretches of the text.
    """
    by_character, spans = torch.zeros(len(piece.text)), piece.spans
    for start, end, weight in marked:
        by_character[start:end] = by_character[start:end].clamp_min(weight)
    # A token may cover no character: some tokenizers put one before the first word.
    return torch.stack([by_character[start:end].amax() if start < end else torch.zeros(()) for start, end in spans])


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

    Args:
        base: what is tuned; afterwards as it was.
        weights: the method's weights of tokens.
        rates: at least one.
        validation: questions; the stream is their documents, each once, in this order.
        optimiser, window: as in `FineTuned`.

    Returns:
        The rate with the best F1 against the shortest answers; of equals that with the better EM, then the smallest.
    """
    documents = list(dict.fromkeys(example.text for example in validation))
    questions = [example.question for example in validation]
    golds = [shortest(example.answers) for example in validation]
    tried = []
    for rate in rates:
        method = FineTuned(base, weights, rate=rate, optimiser=optimiser, window=window)
        try:
            method.adapt(documents)
            pairs = [(reply.text, gold) for reply, gold in zip(method.answer(questions), golds, strict=True)]
        finally:
            method.reset()
        count = max(1, len(pairs))
        event = RateTried(
            rate,
            exact_match=100 * sum(exact_match(said, gold) for said, gold in pairs) / count,
            f1=100 * sum(f1(said, gold) for said, gold in pairs) / count,
        )
        tried.append(event)
        yield event
    return max(tried, key=lambda event: (event.f1, event.exact_match, -event.rate)).rate


_WORD: Final = re.compile(r"\w+")


class TfIdf:
    """Weights of tokens: how often their word occurs in the piece, times how rare it is in a corpus.

    The inverse document frequency is ln((1 + N) / (1 + n)) + 1 for a word in n of N texts. One that the corpus does not
    have is the rarest of all; the released code gives it no weight, but what a model has not read of is what it has to
    learn. A token that is part of a word weighs as the word, one between words nothing.

    The weights of a piece have mean 1. A learning rate then says the same as with uniform weights, whatever the length
    of the piece, and so the methods of a sweep compare.

    Args:
        texts: the corpus, such as the documents that were trained on.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = 0
        self._texts_with: Counter[str] = Counter()
        for text in texts:
            self._texts += 1
            self._texts_with.update(set(_words(text)))

    def __call__(self, piece: TokenisedText) -> Tensor:
        """Weights of a piece's tokens, [S], of mean 1; all 0 if it has no word."""
        counts = Counter(_words(piece.text))
        found = (
            (match.start(), match.end(), counts[match[0].casefold()] * self._rarity(match[0].casefold()))
            for match in _WORD.finditer(piece.text)
        )
        weights = over_characters(piece, found)
        return weights / weights.mean() if weights.any() else torch.zeros_like(weights)

    def _rarity(self, word: str) -> float:
        return math.log((1 + self._texts) / (1 + self._texts_with[word])) + 1


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
