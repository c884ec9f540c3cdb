"""Holding back part of a dataset to validate on, by documents: a text that is trained on is never validated on."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mbc_engine.datasets.example import QAExample


@dataclass(frozen=True)
class HeldOut:
    """A dataset in two parts that share no document; each keeps the order it had."""

    training: list[QAExample]
    validation: list[QAExample]


def hold_out(examples: Sequence[QAExample], share: float, *, most: int = 500) -> HeldOut:
    """Hold back the last documents, in order of their first question.

    Args:
        examples: questions, in any order; those with the same text are about one document.
        share: how many of the documents, in [0, 1]; at least one, as long as one is left to train on.
        most: questions after which no further document is held back.
    """
    questions = Counter(example.text for example in examples)
    documents = list(questions)
    count = min(max(1, round(share * len(documents))), len(documents) - 1)
    held: set[str] = set()
    total = 0
    for text in documents[: -count - 1 : -1] if count > 0 else []:
        total += questions[text]
        if held and total > most:
            break
        held.add(text)
    return HeldOut(
        training=[example for example in examples if example.text not in held],
        validation=[example for example in examples if example.text in held],
    )
