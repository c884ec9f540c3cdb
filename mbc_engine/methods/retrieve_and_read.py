"""A retriever-reader: passages found by their address codes and words, and the answer read in their text."""

import hashlib
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from torch import Tensor

from mbc_engine.bank import MemoryBank, ModelSignature, Record
from mbc_engine.bank.merging import merge
from mbc_engine.methods.method import Footprint, Reply
from mbc_engine.mini.model import RetrieverReader
from mbc_engine.mini.retrieval import Scope, by_document
from mbc_engine.model.ranking import Ranked

_SOURCES: Final = 5


class RetrieveAndRead:
    """A retriever-reader with a bank of the stream's documents, codes and text.

    It always answers, with the likeliest span, however unlikely: an answer that is withheld is a wrong one here.

    Args:
        model: what finds and reads.
    """

    def __init__(self, model: RetrieverReader) -> None:
        self._model = model
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        # Fingerprints of every model are as long, and these banks are read by this one alone.
        self._signature = ModelSignature(self._model.name, "0" * 16, "0" * 16)
        self._bank = MemoryBank.in_memory(
            self._signature, self._model.code_shape, self._model.books.shape[-1], keeps_origins=False, keeps_text=True
        )
        self._places: dict[str, int] = {}  # in the stream, of each document's digest
        self._documents = 0
        self._searched: tuple[Scope, Tensor] | None = None

    def adapt(self, documents: Sequence[str]) -> None:
        """Keep documents, chunked; one of nothing but white space is not kept, but has its place."""
        chunked = [self._model.chunker.chunks(text) for text in documents]
        codes = iter(self._model.memorise([chunk.text for chunks in chunked for chunk in chunks]))
        items = []
        for place, (text, chunks) in enumerate(zip(documents, chunked, strict=True), start=self._documents):
            if chunks:
                digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()
                record = Record("", "", digest, 0, None)
                self._places.setdefault(self._bank.header.shortened([digest])[0].hex(), place)
                items.append((record, np.stack(list(islice(codes, len(chunks)))), chunks))
        self._bank.add(items)
        self._documents += len(documents)
        self._searched = None

    def answer(self, questions: Sequence[str]) -> list[Reply]:
        """Answers, each with five documents: the one that it was read in, then those found best."""
        model, bank = self._model, self._bank
        if not bank.totals().chunks:
            return [Reply("", ()) for _ in questions]
        with bank.snapshot():
            scope, whitening = self._scope()
            hits = model.find(questions, scope, top=model.settings.candidates, whitening=whitening)
            read = [own[: model.settings.passages] for own in hits]
            passages = [
                [(chunk.text, hit) for chunk, hit in zip(bank.texts_at([hit.chunk for hit in own]), own, strict=True)]
                for own in read
            ]
            answers = [own.answer for own in model.read(questions, passages)]
            ranked = [
                by_document(found, _SOURCES, own[span.passage] if span else None)
                for found, own, span in zip(hits, read, answers, strict=True)
            ]
            texts = [" ".join(span.text.split()) if span else "" for span in answers]
            return [Reply(text, self._sources(own)) for text, own in zip(texts, ranked, strict=True)]

    def footprint(self) -> Footprint:
        """The bank file, as `mbc ingest --no-sources` makes it. The paper counts no text."""
        with tempfile.TemporaryDirectory() as folder:
            shape, dim = self._model.code_shape, self._model.books.shape[-1]
            path = Path(folder, "bank.mbc")
            with MemoryBank.create(path, self._signature, shape, dim, keeps_origins=False, keeps_text=True) as bank:
                for _ in merge(bank, self._bank):
                    pass
                bank.settle()
                return Footprint(bank.sizes().file)

    def _scope(self) -> tuple[Scope, Tensor]:
        """All that is kept, and its whitening, until more comes."""
        if self._searched is None:
            scope = Scope(self._bank, None)
            self._searched = scope, self._model.whitening(scope)
        return self._searched

    def _sources(self, ranked: Sequence[Ranked]) -> tuple[int, ...]:
        """The places of documents in the stream."""
        found = self._bank.chunks_at([own.chunk for own in ranked])
        return tuple(self._places[chunk.document.digest] for chunk in found)
