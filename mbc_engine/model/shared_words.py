"""Routing that also counts words: a rare word of a question that a chunk holds as well speaks for the chunk.

The words are in the codes anyway, so that this takes no further byte. It only puts those chunks in order that addresses
name first; to unfold the words of all others would take longer and finds little more.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mbc_engine.model.code_memory import CodedMemory
from mbc_engine.model.memory import Chosen, Group, Masses, Rows
from mbc_engine.model.ranking import Ranking
from mbc_engine.model.router import Routing
from mbc_engine.model.word_codebook import WordCodebook

# Chunks of each question whose words are looked at.
LOOKED_AT: Final = 64


class SharedWords:
    """A memory whose best chunks score higher by the words they share with a question.

    Args:
        memory: the memory.
        codebook: what its codes stand for.
        asked: the distinct pieces of each question, [n].
        worth: what sharing each piece of the vocabulary is worth, on the scale of scores, [V].
    """

    def __init__(self, memory: CodedMemory, codebook: WordCodebook, asked: Sequence[Tensor], worth: Tensor) -> None:
        self._memory, self._codebook, self._asked, self._worth = memory, codebook, asked, worth

    def __len__(self) -> int:
        return len(self._memory)

    def rows(self) -> Rows:
        """See `Memory`."""
        return self._memory.rows()

    def shares(self, attention: Tensor) -> Iterator[Masses]:
        """See `Memory`."""
        return self._memory.shares(attention)

    def chosen(self, chunks: NDArray[np.int64]) -> Chosen:
        """See `Memory`."""
        return self._memory.chosen(chunks)

    def groups(self, size: int) -> Iterator[Group]:
        """See `Memory`."""
        return self._memory.groups(size)

    def scores(self, router: Routing, question: Tensor) -> Iterator[Masses]:
        """See `Memory`. The chunks are gone through twice: which are best is known in the end."""
        ranking = Ranking(len(question), LOOKED_AT)
        for masses in self._memory.scores(router, question):
            ranking.add(masses.values)
        best = [np.array([own.chunk for own in ranked], np.int64) for ranked in ranking.result()]
        worths = [self._shared(chunks, asked) for chunks, asked in zip(best, self._asked, strict=True)]
        start = 0
        for masses in self._memory.scores(router, question):
            values = masses.values.copy()
            end = start + values.shape[1]
            for own, chunks, worth in zip(values, best, worths, strict=True):
                here = (chunks >= start) & (chunks < end)
                own[chunks[here] - start] += worth[here]
            yield Masses(values, masses.lengths)
            start = end

    def _shared(self, chunks: NDArray[np.int64], asked: Tensor) -> NDArray[np.float32]:
        """What the words are worth that each of the chunks shares with a question, [n]."""
        codes = torch.from_numpy(self._memory.codes_at(chunks).astype(np.int64)).to(asked.device)
        pieces, _, _ = self._codebook.split(codes)
        is_shared = (pieces.unsqueeze(-1) == asked).any(1)  # however often it occurs
        worth: NDArray[np.float32] = (is_shared * self._worth[asked]).sum(-1).float().cpu().numpy()
        return worth
