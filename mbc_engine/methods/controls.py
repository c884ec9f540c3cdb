"""Banks that a model must not answer as well from as from the real one: empty, shuffled, or of other documents.

Where they do as well, the answers do not come from the documents. Which reads cannot tell a control from the real
bank says `blind_reads.py`.
"""

import random
from collections.abc import Sequence

import numpy as np
import torch

from mbc_engine.bank import Codes
from mbc_engine.methods.compressed import Compressed
from mbc_engine.methods.method import Footprint, Reply
from mbc_engine.model.mbc import MBC
from mbc_engine.model.scoring import Memorised, answer_from
from mbc_engine.model.vector_memory import VectorMemory


class EmptyBank:
    """Nothing is remembered: what the model says by its questions alone, which are then their own modulation.

    Args:
        model: what is asked.
        read_mode: is of no matter, since there is nothing to read.
    """

    def __init__(self, model: MBC, *, read_mode: str | None = None) -> None:
        self._model, self._read_mode = model, read_mode

    def reset(self) -> None:
        """There is nothing to forget."""

    def adapt(self, documents: Sequence[str]) -> None:
        """Pass the documents over."""

    def answer(self, questions: Sequence[str]) -> list[Reply]:
        """Answer from nothing, without sources."""
        settings = self._model.settings
        nothing = VectorMemory(torch.zeros(0, settings.tokens, self._model.base.shape.dim))
        memorised = Memorised(nothing, np.zeros(0, np.int64))
        said = answer_from(self._model, questions, memorised, read_mode=self._read_mode)
        return [Reply(own.text) for own in said]

    def footprint(self) -> Footprint:
        """Nothing at all."""
        return Footprint(0)


class _Shuffled(Compressed):
    """Codes that are not what they were.

    Args:
        model: one that makes codes.
        seed: of the changes.
        read_mode: see `Remembering`.
    """

    def __init__(self, model: MBC, seed: int = 0, *, read_mode: str | None = None) -> None:
        self._seed = seed
        super().__init__(model, read_mode=read_mode)


class ShuffledDocuments(_Shuffled):
    """At each position the codes of all chunks change places: every document is a mixture of others.

    The flat read looks at how often each code occurs and no further, so that its answers stay as they are and only
    its sources change; a hierarchical read of a single group is such a read too, and a routed one of all chunks.
    """

    def _read_codes(self, codes: Codes) -> Codes:
        chance = np.random.default_rng(self._seed)
        return np.stack([chance.permutation(codes[:, token]) for token in range(codes.shape[1])], axis=1)


class ShuffledCodes(_Shuffled):
    """Every code stands for the vector of another of its book: how often each occurs is kept, what it says is not."""

    def _read_codes(self, codes: Codes) -> Codes:
        chance, books = np.random.default_rng(self._seed), self._codebook.books
        others = chance.permuted(np.broadcast_to(np.arange(books.shape[2]), books.shape[:3]), axis=-1)
        positions = np.arange(codes.shape[1]) if self._codebook.per_position else 0
        read = [others[level, positions, codes[..., level]] for level in range(codes.shape[2])]
        return np.stack(read, axis=-1).astype(codes.dtype)


class WrongBank:
    """As many documents as the stream has, but others; no source is the stream's.

    Args:
        model: one that makes codes.
        others: documents to take from, fewer if there are not so many; one that the stream has is not taken.
        seed: which of them come first.
        read_mode: see `Remembering`.
    """

    def __init__(self, model: MBC, others: Sequence[str], seed: int = 0, *, read_mode: str | None = None) -> None:
        self._others = list(dict.fromkeys(others))
        random.Random(seed).shuffle(self._others)
        self._bank = Compressed(model, read_mode=read_mode)
        self.reset()

    def reset(self) -> None:
        """See `Method`."""
        self._bank.reset()
        self._stream: list[str] = []
        self._held: list[str] = []

    def adapt(self, documents: Sequence[str]) -> None:
        """Take in as many other documents."""
        self._stream += documents
        avoided = set(self._stream)
        wanted = [text for text in self._others if text not in avoided][: len(self._stream)]
        if wanted[: len(self._held)] != self._held:  # the stream came to one that is held
            self._bank.reset()
            self._held = []
        self._bank.adapt(wanted[len(self._held) :])
        self._held = wanted

    def answer(self, questions: Sequence[str]) -> list[Reply]:
        """Answer from the others."""
        return [Reply(reply.text, ()) for reply in self._bank.answer(questions)]

    def footprint(self) -> Footprint:
        """Of the others."""
        return self._bank.footprint()
