"""The learning rate of a fine-tuning method, found on validation documents (paper, section 4.3.2)."""

from collections.abc import Generator, Sequence

from mbc_engine.datasets.example import QAExample
from mbc_engine.events import RateTried
from mbc_engine.methods.fine_tuned import FineTuned
from mbc_engine.methods.optimisers import Optimiser
from mbc_engine.methods.token_weights import TokenWeights
from mbc_engine.metrics import exact_match, f1, shortest
from mbc_engine.model.base import BaseLM


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
