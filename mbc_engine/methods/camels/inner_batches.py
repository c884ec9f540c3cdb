"""The inner batches of a meta-training: which documents, with a question to each, and a text to leave alone."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from mbc_engine.datasets.example import QAExample
from mbc_engine.methods.answering import MAX_NEW_TOKENS, QUESTION_WINDOW
from mbc_engine.methods.camels.inner_update import InnerBatch
from mbc_engine.metrics import shortest
from mbc_engine.model.base import BaseLM


@dataclass(frozen=True)
class InnerBatches:
    """An endless sequence of inner batches, the same whenever it is begun.

    Attributes:
        base: what they are for.
        examples: questions about documents, at least one; each comes once in a round of all.
        count: document-question-answer triples of a batch.
        window: most tokens of a document; of a longer one a piece with the answer is taken.
        seed: of the order of each round, and of the texts to leave alone.
    """

    base: BaseLM
    examples: Sequence[QAExample]
    count: int
    window: int
    seed: int

    def batch(self, number: int) -> InnerBatch:
        """The inner batch of this number, and a text of none of its documents, if there is another."""
        chosen = [self.examples[place] for place in self._places(number * self.count)]
        texts = [example.text for example in chosen]
        answers = [shortest(example.answers) for example in chosen]
        others = [example.text for example in self.examples if example.text not in texts] or texts
        elsewhere = random.Random(f"{self.seed} elsewhere {number}").choice(others)
        window = min(self.window, self.base.context - 1)
        pieces = [self._piece_of(text, answer, window) for text, answer in zip(texts, answers, strict=True)]
        return InnerBatch(
            documents=self.base.texts.written(pieces, window=window),
            questions=self.base.texts.asked(
                [example.question for example in chosen],
                answers,
                question_window=QUESTION_WINDOW,
                answer_window=MAX_NEW_TOKENS,
            ),
            elsewhere=self.base.texts.written([self._piece_of(elsewhere, "", window)], window=window),
        )

    def _places(self, start: int) -> list[int]:
        """The next `count` places from `start` on, in rounds of all examples in an order drawn for each."""
        total, end = len(self.examples), start + self.count
        places = []
        for round_number in range(start // total, (end - 1) // total + 1):
            order = random.Random(f"{self.seed} round {round_number}").sample(range(total), total)
            first = round_number * total
            places += order[max(0, start - first) : end - first]
        return places

    def _piece_of(self, text: str, answer: str, window: int) -> str:
        """The first piece of a text with an answer in it, or the first of all."""
        pieces = [piece.text for piece in self.base.texts.pieces(text, window)]
        return next((piece for piece in pieces if answer in piece), pieces[0])
