"""A training set: distinct documents, the questions about them, and the order of each epoch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from mbc_engine.datasets.example import QAExample
from mbc_engine.metrics import shortest


@dataclass(frozen=True)
class Batch:
    """Questions and the documents they are about.

    Attributes:
        examples: numbers of the questions, K of them.
        documents: numbers of the distinct documents, U of them.
        own: for each question, its document's place in `documents`, [K].
    """

    examples: list[int]
    documents: list[int]
    own: list[int]


class TrainingSet:
    """Examples, at least one, with each document kept once."""

    def __init__(self, examples: Sequence[QAExample]) -> None:
        self.questions = [example.question for example in examples]
        self.answers = [shortest(example.answers) for example in examples]
        place: dict[str, int] = {}
        self._document = [place.setdefault(example.text, len(place)) for example in examples]
        self.documents = list(place)

    def __len__(self) -> int:
        return len(self.questions)

    def steps(self, batch_size: int) -> int:
        """Batches in an epoch; a last partial one is left out, unless it is the only one."""
        return max(1, len(self) // batch_size)

    def epoch(self, epoch: int, batch_size: int, *, seed: int, skip: int = 0) -> Iterator[Batch]:
        """The batches of an epoch in their seeded order, after the first `skip`."""
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        order = torch.randperm(len(self), generator=generator).tolist()
        for step in range(skip, self.steps(batch_size)):
            yield self.batch(order[step * batch_size : (step + 1) * batch_size])

    def batch(self, examples: list[int]) -> Batch:
        """A batch of chosen questions."""
        place: dict[int, int] = {}
        own = [place.setdefault(self._document[example], len(place)) for example in examples]
        return Batch(examples, list(place), own)
