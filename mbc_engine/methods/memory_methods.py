"""MBC and MAC as methods (paper, sections 3 and 3.1), and controls with corrupted banks, which they must beat.

MBC keeps a document as a few codes, MAC (Tack et al., 2024) as T continuous vectors; both read all of them.
"""

import hashlib
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch

from mbc_engine.bank import Codes, StoredDocument
from mbc_engine.methods.method import Footprint, Method, MethodAnswer
from mbc_engine.methods.reading import bank_in_memory, size_as_file
from mbc_engine.paper.mbc import MBC
from mbc_engine.paper.memories import CodeMemory, ReadableMemory, VectorMemory
from mbc_engine.paper.scoring import Memorised, answer_from

_FLOAT_BYTES: Final = 4
_INDEX_BYTES: Final = 8  # the released code keeps indices as int64


class MemoryMethod(Method):
    """MBC or MAC: documents are chunked, never truncated, and encoded on arrival; questions read the chunks of all.

    `read_mode` is NAME or NAME:NUMBER, None for the model's own. Without `keeps_codes`, documents are kept as vectors,
    as in MAC. A control's `corrupt` changes all codes [N, T, levels] before they are read. Raises ModelError if codes
    are to be kept but the model makes none.
    """

    def __init__(
        self,
        model: MBC,
        *,
        read_mode: str | None = None,
        keeps_codes: bool = True,
        corrupt: Callable[[Codes], Codes] | None = None,
    ) -> None:
        self._model, self._read_mode, self._reader, self._corrupt = model, read_mode, model.reader(), corrupt
        self._codebook = model.require_codebook() if keeps_codes else None
        self.reset()

    def reset(self) -> None:
        self._chunks: list[np.ndarray] = []  # codes [n, T, levels] or vectors [n, T, D] of the chunks of each `adapt`
        self._lengths = np.zeros(0, np.int64)  # chunks of each document
        self._digests: list[str] = []
        self._memorised: Memorised | None = None

    def adapt(self, documents: Sequence[str]) -> None:
        pieces = [self._model.documents.chunker(text) for text in documents]
        chunks = [piece for several in pieces for piece in several]
        if self._codebook is None:
            self._chunks.append(self._model.amortise(chunks).cpu().numpy())
        else:
            self._chunks.append(self._model.memorise(chunks))
        self._lengths = np.append(self._lengths, np.array(list(map(len, pieces)), np.int64))
        self._digests += [hashlib.sha256(text.encode(errors="replace")).hexdigest() for text in documents]
        self._memorised = None

    def answer(self, questions: Sequence[str]) -> list[MethodAnswer]:
        order = sorted(range(len(questions)), key=lambda place: len(questions[place]))
        asked = [questions[place] for place in order]
        answers = answer_from(self._model, asked, self.memorised(), read_mode=self._read_mode, reader=self._reader)
        placed = {place: MethodAnswer(*own) for place, own in zip(order, answers, strict=True)}
        return [placed[place] for place in range(len(questions))]

    def memorised(self) -> Memorised:
        if self._memorised is None:
            chunks, lengths = self._kept(), self._lengths[self._lengths > 0]
            if self._codebook is None:
                vectors = torch.from_numpy(chunks).to(self._model.base.model.device)
                memory: ReadableMemory = VectorMemory(vectors, lengths)
            else:
                memory = CodeMemory(self._corrupt(chunks) if self._corrupt else chunks, self._codebook, lengths)
            self._memorised = memory, np.repeat(np.arange(len(self._lengths)), self._lengths)
        return self._memorised

    def footprint(self) -> Footprint:
        """For vectors, their size in float32; for codes, the bank file that `mbc ingest --no-sources` would make."""
        chunks = self._kept()
        if self._codebook is None:
            row = chunks.shape[1] * chunks.shape[2] * _FLOAT_BYTES
            return Footprint(len(chunks) * row, row)
        shape, books = self._codebook.shape, self._codebook.books
        codes = np.split(chunks, np.cumsum(self._lengths)[:-1]) if len(self._lengths) else []
        kept = [(digest, own) for digest, own in zip(self._digests, codes, strict=True) if len(own)]
        with bank_in_memory(self._model, keeps_text=False) as bank:
            bank.put([StoredDocument(digest, len(own), None, (), own) for digest, own in kept])
            file = size_as_file(bank)
        return Footprint(file, shape.tokens * shape.levels * _INDEX_BYTES, books.numel() * _FLOAT_BYTES)

    def _kept(self) -> np.ndarray:
        if len(self._chunks) != 1:
            tokens, dim = self._model.settings.tokens, self._model.base.shape.dim
            none: np.ndarray = np.zeros((0, tokens, dim), np.float32)
            if self._codebook is not None:
                none = np.zeros((0, self._codebook.tokens, self._codebook.levels), np.uint16)
            self._chunks = [np.concatenate([none, *self._chunks])]
        return self._chunks[0]


class EmptyBank(MemoryMethod):
    """Nothing is memorised: the model answers from the questions alone, whose vectors then are the modulation."""

    def __init__(self, model: MBC, *, read_mode: str | None = None) -> None:
        super().__init__(model, read_mode=read_mode, keeps_codes=False)

    def adapt(self, documents: Sequence[str]) -> None:
        """Nothing is kept."""

    def answer(self, questions: Sequence[str]) -> list[MethodAnswer]:
        return [MethodAnswer(answer.text) for answer in super().answer(questions)]

    def footprint(self) -> Footprint:
        return Footprint(0)


class WrongBank(MemoryMethod):
    """Memorises as many of `others`, which are not in the stream, as the stream has documents; sources are empty."""

    def __init__(self, model: MBC, others: Sequence[str], seed: int = 0, **options: Any) -> None:
        self._others = list(dict.fromkeys(others))
        random.Random(seed).shuffle(self._others)
        super().__init__(model, **options)

    def reset(self) -> None:
        super().reset()
        self._unused = iter(self._others)

    def adapt(self, documents: Sequence[str]) -> None:
        super().adapt([text for _, text in zip(documents, self._unused, strict=False)])

    def answer(self, questions: Sequence[str]) -> list[MethodAnswer]:
        return [MethodAnswer(answer.text, ()) for answer in super().answer(questions)]


def shuffled_documents(model: MBC, seed: int = 0, *, read_mode: str | None = None) -> MemoryMethod:
    """MBC with the codes of each position shuffled across chunks: every document becomes a mixture of others."""

    def corrupt(codes: Codes) -> Codes:
        rng = np.random.default_rng(seed)
        return np.stack([rng.permutation(codes[:, token]) for token in range(codes.shape[1])], axis=1)

    return MemoryMethod(model, read_mode=read_mode, corrupt=corrupt)


def shuffled_codes(model: MBC, seed: int = 0, *, read_mode: str | None = None) -> MemoryMethod:
    """MBC with each codebook permuted, so that every code stands for another vector; code frequencies are kept."""
    codebook = model.require_codebook()

    def corrupt(codes: Codes) -> Codes:
        shape = codebook.books.shape[:3]  # levels, positions, codes
        others = np.random.default_rng(seed).permuted(np.broadcast_to(np.arange(shape[2]), shape), axis=-1)
        positions = np.arange(codes.shape[1]) if codebook.per_position else 0
        read = [others[level, positions, codes[..., level]] for level in range(codes.shape[2])]
        return np.stack(read, axis=-1).astype(codes.dtype)

    return MemoryMethod(model, read_mode=read_mode, corrupt=corrupt)
