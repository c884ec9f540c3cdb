"""What the methods share that keep documents as T vectors a chunk, as codes or as they are, and read all of them.

MAC: every document as T continuous vectors, read by the aggregator (paper, section 3.1; Tack et al., 2024).

MBC: every document as a few codes, read by the aggregator (paper, section 3).

Banks that a model must not answer as well from as from the real one: empty, shuffled, or of other documents.

Which reads cannot see what a control spoils; their answers say nothing, and are no failure of the real bank.
"""

import hashlib
import math
import random
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from mbc_engine.bank import Codes, MemoryBank, ModelSignature, Record
from mbc_engine.config import ReadMode
from mbc_engine.methods.method import Footprint, PaperCount, Reply
from mbc_engine.paper.mbc import MBC
from mbc_engine.paper.memories import CodeMemory, Lengths, Memory, VectorMemory, shape_of
from mbc_engine.paper.scoring import Memorised, answer_from


class Remembering(ABC):
    """Documents are chunked, never cut, and encoded as they come; questions read the chunks of all of them.

    Args:
        model: what encodes and answers.
        read_mode: NAME or NAME:NUMBER, see `read_modes.py`; None takes the model's own.
    """

    def __init__(self, model: MBC, *, read_mode: str | None = None) -> None:
        self._model, self._read_mode, self._reader = model, read_mode, model.reader()
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._lengths = np.zeros(0, np.int64)
        self._memorised: Memorised | None = None
        self._forget()

    def adapt(self, documents: Sequence[str]) -> None:
        """Encode the next documents; one of nothing but white space is not remembered, but has its place."""
        pieces = [self._model.documents.chunker(text) for text in documents]
        self._remember([piece for several in pieces for piece in several])
        self._lengths = np.append(self._lengths, np.array(list(map(len, pieces)), np.int64))
        self._memorised = None

    def answer(self, questions: Sequence[str]) -> list[Reply]:
        """Answer in batches of questions of about one length, each from everything remembered."""
        order = sorted(range(len(questions)), key=lambda place: len(questions[place]))
        memorised = self._memorised = self._memorised or self._now()
        asked = [questions[place] for place in order]
        said = answer_from(self._model, asked, memorised, read_mode=self._read_mode, reader=self._reader)
        replies = {place: Reply(own.text, own.sources) for place, own in zip(order, said, strict=True)}
        return [replies[place] for place in range(len(questions))]

    @abstractmethod
    def footprint(self) -> Footprint:
        """What is kept of the documents."""

    @abstractmethod
    def _forget(self) -> None:
        """Keep no chunk any more."""

    @abstractmethod
    def _remember(self, chunks: Sequence[str]) -> None:
        """Keep some more chunks."""

    @abstractmethod
    def _memory(self, lengths: Lengths) -> Memory:
        """All chunks kept; `lengths` are the chunks of each document that has any."""

    def _now(self) -> Memorised:
        lengths = self._lengths
        return Memorised(self._memory(lengths[lengths > 0]), np.repeat(np.arange(len(lengths)), lengths))


_FLOAT_BYTES: Final = 4


class Amortized(Remembering):
    """MAC with the vectors of the stream's documents, in single precision."""

    def footprint(self) -> Footprint:
        """The numbers of a safetensors file of the vectors; its header, some hundred bytes, is left out."""
        vectors = self._vectors()
        row = vectors.shape[1] * vectors.shape[2] * _FLOAT_BYTES
        return Footprint(len(vectors) * row, PaperCount(0, row))

    def _forget(self) -> None:
        self._parts: list[Tensor] = []

    def _remember(self, chunks: Sequence[str]) -> None:
        self._parts.append(self._model.amortise(chunks))

    def _memory(self, lengths: Lengths) -> Memory:
        return VectorMemory(self._vectors(), lengths)

    def _vectors(self) -> Tensor:
        """The vectors of all chunks, [N, T, D]; parts become one, so that they are held but once."""
        if len(self._parts) != 1:
            none = torch.zeros(0, self._model.settings.tokens, self._model.base.shape.dim)
            self._parts = [torch.cat(self._parts) if self._parts else none]
        return self._parts[0]


# The released code keeps indices as int64, and its codebook as float32.
_INDEX_BYTES: Final = 8
_COMPRESSED_FLOAT_BYTES: Final = 4


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
        return Footprint(file, PaperCount(books.numel() * _COMPRESSED_FLOAT_BYTES, row))

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


# Its codes change documents, of which there are as many of each as before.
_MIXED: Final = "mbc-shuffled-documents"


def alike_up_to(control: str, read_mode: ReadMode) -> float:
    """Up to how many chunks a bank has for a read to be as it was, whatever a control does to it.

    Codes that change documents show where some are read and others not, or apart from others: not in the flat read,
    which looks at how often each code occurs and no further; nor where a bank is one group of a hierarchical read, or
    a routed read takes all of it.

    Args:
        control: its name in the roster.
        read_mode: with its number, be it the model's own.

    Returns:
        0 where the read always sees the control's doing, infinity where it never does.
    """
    if control != _MIXED:
        return 0
    return math.inf if read_mode.number is None else read_mode.number
