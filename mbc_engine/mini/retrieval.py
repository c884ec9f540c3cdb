"""Finding the passages that a question is about: one scan of the bank's address codes, then the words of the best.

Address codes find by meaning; a rare word that a question shares with a chunk speaks for the chunk beside that. The
words are looked for in the text of the best chunks alone, where the bank keeps text: that puts the right one of 402
SQuAD paragraphs first for 79% of the questions, address codes alone for 62%.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mbc_engine.bank import ReadableBank, Selection
from mbc_engine.paper.memories import chunk_weights, log_of
from mbc_engine.paper.reads import Ranked, Ranking

# Places in a large bank that a sample is taken from.
_RUNS: Final = 8


@dataclass(frozen=True)
class Hit:
    """A chunk that a question may be about.

    Attributes:
        chunk: its index in stored order.
        document: which document it is of, in stored order.
        share: its probability under the softmax over all chunks' scores.
    """

    chunk: int
    document: int
    share: float


@dataclass(frozen=True)
class WordScore:
    """What shared words say for a chunk: the sum of their inverse document frequencies (Spärck Jones, 1972).

    Attributes:
        tokenize: the distinct word pieces of each of several texts.
        frequencies: the inverse document frequency of each piece of the vocabulary, divided by the largest, [V].
    """

    tokenize: Callable[[Sequence[str]], list[set[int]]]
    frequencies: NDArray[np.float32]

    def __call__(self, question: Collection[int], texts: Sequence[str]) -> NDArray[np.float32]:
        """What each text shares with a question, given as its pieces: [len(texts)]."""
        return np.array(
            [self.frequencies[sorted(pieces & set(question))].sum() for pieces in self.tokenize(texts)], np.float32
        )


class Scope:
    """The part of a bank that is searched, in one state of the bank.

    Args:
        bank: the bank, or several.
        selection: which documents count, and how much; None for all.

    Attributes:
        log_weights: logarithms of how much each chunk counts, [N]; None where all count alike.
    """

    def __init__(self, bank: ReadableBank, selection: Selection | None) -> None:
        self.bank = bank
        self.log_weights: NDArray[np.float32] | None = None
        if selection is not None and not selection.is_everything:
            self.log_weights = log_of(chunk_weights(bank, selection))
        elif bank.is_weighted:
            self.log_weights = log_of(chunk_weights(bank, Selection()))

    def __len__(self) -> int:
        """How many chunks count at all."""
        if self.log_weights is None:
            return self.bank.totals().chunks
        return int(np.isfinite(self.log_weights).sum())

    def sample(self, most: int) -> NDArray[np.uint16]:
        """The codes of at most `most` of the chunks, [n, tokens, 1]: of all, or of some runs of neighbours.

        Neighbours lie in one block of a bank; single chunks from everywhere would take all blocks.
        """
        weights = self.log_weights
        there = np.arange(self.bank.totals().chunks) if weights is None else np.flatnonzero(np.isfinite(weights))
        if len(there) > most:
            run = most // _RUNS
            starts = np.linspace(0, len(there) - run, _RUNS).astype(np.int64)
            there = there[(starts[:, None] + np.arange(run)).ravel()]
        return self.bank.codes_at(there)

    def best(self, tables: Tensor, top: int) -> list[list[Ranked]]:
        """The best chunks of each question by what their codes are worth, [B, tokens, num_codes]: the one scan."""
        ranking, start = Ranking(len(tables), top), 0
        lengths: list[NDArray[np.int64]] = []
        for sums, own in self.bank.sums(tables.unsqueeze(2).float().cpu().numpy()):
            end = start + sums.shape[1]
            ranking.add(sums if self.log_weights is None else sums + self.log_weights[start:end])
            start = end
            lengths.append(own)
        self._document_ends = np.cumsum(np.concatenate(lengths)) if lengths else np.empty(0, np.int64)
        return ranking.result()

    def documents_of(self, chunks: Sequence[int]) -> list[int]:
        """Which documents the chunks are of, in stored order; after `best`, whose scan tells how long each is."""
        found: list[int] = np.searchsorted(self._document_ends, chunks, side="right").tolist()
        return found


def rerank(found: Sequence[Ranked], bonus: NDArray[np.float32]) -> list[Ranked]:
    """Chunks in the order of their scores with a bonus each, with their shares of everything as it is then.

    Args:
        found: the best of all chunks, with their shares of the softmax over all.
        bonus: what is added to the logarithm of each share, [n], none below 0.

    Returns:
        the chunks, best first; of equal ones, the first stays.
    """
    shares = np.array([own.share for own in found])
    raised = shares * np.exp((bonus - bonus.max(initial=0)).astype(np.float64))
    rest = max(0.0, 1 - shares.sum()) * float(np.exp(-bonus.max(initial=0)))
    total = raised.sum() + rest
    order = np.argsort(-raised, kind="stable").tolist()
    return [Ranked(found[at].chunk, float(raised[at] / total), 0) for at in order]


def by_document(hits: Sequence[Hit], top: int, first: Hit | None = None) -> list[Ranked]:
    """The best documents among chunks, each with its best chunk and the share of all its chunks here.

    Args:
        hits: the chunks.
        top: the most documents.
        first: the chunk whose document goes before the others, with this chunk instead of its best one.
    """
    best: dict[int, tuple[int, float]] = {}
    for hit in hits:
        chunk, share = best.get(hit.document, (hit.chunk, 0.0))
        best[hit.document] = chunk, share + hit.share
    if first is not None:
        best[first.document] = first.chunk, best[first.document][1]
    order = sorted(best, key=lambda document: (first is None or document != first.document, -best[document][1]))
    shares = [share for _, share in best.values()]
    return [
        Ranked(chunk, min(1.0, share), shares.count(share) - 1) for chunk, share in (best[own] for own in order[:top])
    ]
