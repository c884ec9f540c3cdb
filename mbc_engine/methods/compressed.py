"""MBC: every document as a few codes, read by the aggregator (paper, section 3)."""

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from mbc_engine.bank import Codes, MemoryBank, ModelSignature, Record
from mbc_engine.methods.method import Footprint, PaperCount
from mbc_engine.methods.remembering import Remembering
from mbc_engine.model.code_memory import CodeMemory, shape_of
from mbc_engine.model.mbc import MBC
from mbc_engine.model.memory import Lengths, Memory

# The released code keeps indices as int64, and its codebook as float32.
_INDEX_BYTES: Final = 8
_FLOAT_BYTES: Final = 4


class Compressed(Remembering):
    """MBC with the codes of the stream's documents.

    Args:
        model: one that makes codes.
        read_mode: see `Remembering`.

    Raises:
        ModelError: the model makes none.
    """

    def __init__(self, model: MBC, *, read_mode: str | None = None) -> None:
        self._codebook = model.require_codebook()
        super().__init__(model, read_mode=read_mode)

    def adapt(self, documents: Sequence[str]) -> None:
        """See `Remembering`."""
        super().adapt(documents)
        self._digests += [hashlib.sha256(text.encode(errors="replace")).hexdigest() for text in documents]

    def footprint(self) -> Footprint:
        """The bank file of these documents, and what the paper counts.

        The file is made by the store that `mbc ingest --no-sources` writes to, and measured: codes, counts, and a short
        hash of each document, which is what keeps it from being stored twice; the codebook is in the model. Names of files are left out;
        they belong to where a document was read, and a stream has none.
        """
        books = self._codebook.books
        row = self._codebook.tokens * self._codebook.levels * _INDEX_BYTES
        with tempfile.TemporaryDirectory() as folder:
            # Fingerprints of every model are as long; those of a large one take longer to compute than all the rest.
            signature = ModelSignature(self._model.name, "0" * 16, "0" * 16)
            shape = shape_of(self._codebook)
            path, dim = Path(folder, "bank.mbc"), books.shape[-1]
            with MemoryBank.create(path, signature, shape, dim, keeps_origins=False) as bank:
                bank.add(self._records())
                bank.settle()
                file = bank.sizes().file
        return Footprint(file, PaperCount(books.numel() * _FLOAT_BYTES, row))

    def _records(self) -> list[tuple[Record, Codes]]:
        """The documents as the bank takes them."""
        codes = np.split(self._codes(), np.cumsum(self._lengths)[:-1]) if len(self._lengths) else []
        return [
            (Record("", "", digest, 0, None), own) for digest, own in zip(self._digests, codes, strict=True) if len(own)
        ]

    def _forget(self) -> None:
        self._parts: list[Codes] = []
        self._digests: list[str] = []

    def _remember(self, chunks: Sequence[str]) -> None:
        self._parts.append(self._model.memorise(chunks))

    def _memory(self, lengths: Lengths) -> Memory:
        return CodeMemory(self._read_codes(self._codes()), self._codebook, lengths)

    def _read_codes(self, codes: Codes) -> Codes:
        """What is read in place of the codes [N, T, levels]; the codes themselves, unless this is a control."""
        return codes

    def _codes(self) -> Codes:
        """The codes of all chunks, [N, T, levels]."""
        none = np.zeros((0, self._codebook.tokens, self._codebook.levels), np.uint16)
        return np.concatenate([none, *self._parts])
