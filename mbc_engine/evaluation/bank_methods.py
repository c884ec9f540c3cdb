"""Methods with a bank: MBC and MAC (paper, sections 3 and 3.1), controls with corrupted banks, and a retriever-reader.

MBC keeps a document as a few codes, MAC (Tack et al., 2024) as T continuous vectors; both read all of them.
"""

import hashlib
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import torch

from mbc_engine.bank import Codes, MemoryBank, ModelSignature, StoredDocument
from mbc_engine.bank.exchange import merge
from mbc_engine.evaluation.language_models import answers as answers_of
from mbc_engine.evaluation.methods import Footprint, Method, MethodAnswer
from mbc_engine.lm.base import BaseLM
from mbc_engine.mini.model import RetrieverReader
from mbc_engine.mini.retrieval import Scope, by_document
from mbc_engine.model import Model
from mbc_engine.paper.codebook import Codebook
from mbc_engine.paper.model import MBC
from mbc_engine.paper.scoring import SOURCES, Memorised, answer_from, memorised
from mbc_engine.ranking import Hit

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
        corrupt: Callable[[Codes], Codes] = lambda codes: codes,
    ) -> None:
        self._model, self._read_mode, self._reader, self._corrupt = model, read_mode, model.reader(), corrupt
        self._codebook = model.require_codebook() if keeps_codes else None
        self.reset()

    def reset(self) -> None:
        self._documents: list[np.ndarray] = []  # codes [n, T, levels] or vectors [n, T, D] of each one's chunks
        self._digests: list[str] = []
        self._memorised: Memorised | None = None

    def adapt(self, documents: Sequence[str]) -> None:
        chunked = [self._model.chunker(text) for text in documents]
        chunks = [chunk for texts in chunked for chunk in texts]
        self._documents += np.split(
            self._encoded(chunks), np.cumsum([len(texts) for texts in chunked], dtype=np.int64)
        )[:-1]
        self._digests += map(_digest, documents)
        self._memorised = None

    def answer(self, questions: Sequence[str]) -> list[MethodAnswer]:
        answers = answer_from(self._model, questions, self.memorised(), read_mode=self._read_mode, reader=self._reader)
        return [MethodAnswer(*answer) for answer in answers]

    def memorised(self) -> Memorised:
        if self._memorised is None:
            rows, device = np.concatenate([self._encoded([]), *self._documents]), self._model.base.model.device
            chunks = torch.from_numpy(rows).to(device) if self._codebook is None else self._corrupt(rows)
            self._memorised = memorised(chunks, list(map(len, self._documents)), self._codebook)
        return self._memorised

    def footprint(self) -> Footprint:
        """For vectors, their size in float32; for codes, the bank file that `mbc ingest --no-sources` would make."""
        if self._codebook is None:
            row = self._model.settings.tokens * self._model.base.shape.dim * _FLOAT_BYTES
            return Footprint(sum(map(len, self._documents)) * row, row)
        shape, books = self._codebook.shape, self._codebook.books
        stored = zip(self._digests, self._documents, strict=True)
        with _bank_in_memory(self._model, keeps_text=False) as bank:
            bank.put([StoredDocument(digest, len(codes), None, (), codes) for digest, codes in stored if len(codes)])
            file = _size_as_file(bank)
        return Footprint(file, shape.tokens * shape.levels * _INDEX_BYTES, books.numel() * _FLOAT_BYTES)

    def _encoded(self, chunks: Sequence[str]) -> np.ndarray:
        return self._model.amortise(chunks).cpu().numpy() if self._codebook is None else self._model.memorise(chunks)


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


class WrongBank(Method):
    """A method that memorises, for each document of the stream, one of `others`, which are not in it, or nothing if
    there are no more; its sources are empty."""

    def __init__(self, method: Method, others: Sequence[str], seed: int = 0) -> None:
        self._method, self._others = method, list(dict.fromkeys(others))
        random.Random(seed).shuffle(self._others)
        self.reset()

    def reset(self) -> None:
        self._method.reset()
        self._unused = iter(self._others)

    def adapt(self, documents: Sequence[str]) -> None:
        self._method.adapt([text for _, text in zip(documents, self._unused, strict=False)])

    def answer(self, questions: Sequence[str]) -> list[MethodAnswer]:
        return [MethodAnswer(answer.text, ()) for answer in self._method.answer(questions)]

    def footprint(self) -> Footprint:
        return self._method.footprint()


def shuffled_over_documents(codes: Codes, seed: int = 0) -> Codes:
    """Shuffle the codes of each position across chunks: every document becomes a mixture of others."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(codes[:, token]) for token in range(codes.shape[1])], axis=1)


def shuffled_over_codebook(codes: Codes, codebook: Codebook, seed: int = 0) -> Codes:
    """Permute each codebook, so that every code stands for another vector; code frequencies are kept."""
    shape = codebook.books.shape[:3]  # levels, positions, codes
    others = np.random.default_rng(seed).permuted(np.broadcast_to(np.arange(shape[2]), shape), axis=-1)
    positions = np.arange(codes.shape[1]) if codebook.per_position else 0
    read = [others[level, positions, codes[..., level]] for level in range(codes.shape[2])]
    return np.stack(read, axis=-1).astype(codes.dtype)


class RetrieveAndRead(Method):
    """A retriever-reader such as mini with a bank of the stream's documents, codes and text.

    It always answers with the likeliest span, however unlikely, since a withheld answer counts as wrong here.
    """

    def __init__(self, model: RetrieverReader) -> None:
        self._model = model
        self.reset()

    def reset(self) -> None:
        self._bank = _bank_in_memory(self._model, keeps_text=True)
        self._index_of: dict[str, int] = {}  # index in the stream by document digest
        self._documents = 0
        self._scope: Scope | None = None

    def adapt(self, documents: Sequence[str]) -> None:
        """Chunk and store documents; a blank one is not stored but still counts in the stream."""
        chunked = [self._model.chunker.chunks(text) for text in documents]
        codes = iter(self._model.memorise([chunk.text for chunks in chunked for chunk in chunks]))
        items = []
        for index, (text, chunks) in enumerate(zip(documents, chunked, strict=True), start=self._documents):
            if chunks:
                digest, stored = _digest(text), np.stack(list(islice(codes, len(chunks))))
                self._index_of.setdefault(self._bank.header.shortened([digest])[0].hex(), index)
                items.append(StoredDocument(digest, len(chunks), None, (), stored, chunks))
        self._bank.put(items)
        self._documents += len(documents)
        self._scope = None

    def answer(self, questions: Sequence[str]) -> list[MethodAnswer]:
        bank, answers = self._bank, []
        if not bank.totals().chunks:
            return [MethodAnswer("", ()) for _ in questions]
        self._scope = self._scope or self._model.scope(bank)
        with bank.snapshot():
            hits = self._model.search(questions, self._scope).chunks
            for found, (text, first) in zip(hits, self._read(questions, hits), strict=True):
                chunks = bank.chunks_at([source.chunk for source in by_document(found, SOURCES, first)])
                answers.append(MethodAnswer(text, tuple(self._index_of[chunk.document.digest] for chunk in chunks)))
        return answers

    def _read(self, questions: Sequence[str], hits: Sequence[Sequence[Hit]]) -> Iterator[tuple[str, Hit | None]]:
        """An answer to each question from the chunks found for it, and the chunk it is from."""
        for answered in self._model.read(questions, hits, self._texts_of):
            span = answered.best
            yield " ".join(span.text.split()) if span else "", answered.read_chunks[span.passage][0] if span else None

    def _texts_of(self, hits: Iterable[Hit]) -> dict[int, str | None]:
        chunks = [hit.chunk for hit in hits]
        texts = self._bank.texts_at(chunks)
        return {chunk: text.text if text else None for chunk, text in zip(chunks, texts, strict=True)}

    def footprint(self) -> Footprint:
        """The bank file, as `mbc ingest --no-sources` would make it. The paper does not count text."""
        return Footprint(_size_as_file(self._bank))


class TextPrefix(RetrieveAndRead):
    """The paper's read over exact codes: a chunk is found by its codes and words, its text decoded, and the text's keys
    and values are the prefix of a frozen base LM with KV-LoRA.

    A control that `shuffles` reads the text of another chunk than the one found.
    """

    def __init__(self, model: RetrieverReader, base: BaseLM, *, shuffles: bool = False, seed: int = 0) -> None:
        self._base, self._shuffles, self._seed = base, shuffles, seed
        super().__init__(model)

    def answer(self, questions: Sequence[str]) -> list[MethodAnswer]:
        if self._bank.totals().chunks:
            return super().answer(questions)
        return [MethodAnswer(text, ()) for text in answers_of(self._base, questions)]  # from an empty prefix

    def _read(self, questions: Sequence[str], hits: Sequence[Sequence[Hit]]) -> Iterator[tuple[str, Hit | None]]:
        best = [found[0] for found in hits]
        order = np.arange(self._bank.totals().chunks)
        if self._shuffles:
            order = np.random.default_rng(self._seed).permutation(order)
        texts = self._bank.texts_at([int(order[hit.chunk]) for hit in best])
        passages = [stored.text if stored else "" for stored in texts]
        return zip(answers_of(self._base, questions, passages), best, strict=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _bank_in_memory(model: Model, *, keeps_text: bool) -> MemoryBank:
    """An empty bank without origins, which only this process reads."""
    # All fingerprints have the same length, and computing a large model's takes longer than everything else.
    signature = ModelSignature(model.name, "0" * 16, "0" * 16)
    shape, dim = model.code_shape, model.codebooks.shape[-1]
    return MemoryBank.create(None, signature, shape, dim, keeps_origins=False, keeps_text=keeps_text)


def _size_as_file(bank: MemoryBank) -> int:
    """Bytes of a new bank file with a bank's documents."""
    with tempfile.TemporaryDirectory() as folder, MemoryBank.open(Path(folder, "bank.mbc"), create=bank.header) as copy:
        for _ in merge(copy, bank):
            pass
        copy.checkpoint()
        return copy.sizes().file
