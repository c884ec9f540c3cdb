"""A model that remembers words: what `mini` is. Documents are coded in words and addresses, the rest is as in `MBC`."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from mbc_engine.errors import ModelError
from mbc_engine.model.address import SEEN_CHUNKS
from mbc_engine.model.code_memory import CodedMemory
from mbc_engine.model.codebook import AnyCodebook
from mbc_engine.model.mbc import MBC
from mbc_engine.model.memory import Memory
from mbc_engine.model.reads import Reader, Reading, read
from mbc_engine.model.router import Routing
from mbc_engine.model.shared_words import SharedWords
from mbc_engine.model.word_codebook import WordCodebook
from mbc_engine.model.word_encoder import WordEncoder
from mbc_engine.model.word_pieces import PieceAligner

# What sharing the rarest word is worth beside a cosine of 1; chosen on paragraphs held out from SQuAD's training set.
WORD_SHARE: Final = 0.1


class AddressRouting(Routing):
    """Some questions' tables of what codes of addresses are worth; words are worth nothing.

    Args:
        tables: of these questions, [B, parts, num_codes].
    """

    def __init__(self, tables: Tensor) -> None:
        self._tables = tables

    def tables(self, question: Tensor, codebook: AnyCodebook) -> Tensor:
        """See `Routing`; the questions are those of the tables."""
        worths = self._tables.new_zeros(len(self._tables), codebook.tokens, 1, codebook.num_codes)
        worths[:, : self._tables.shape[1], 0] = self._tables
        return worths

    def scores(self, question: Tensor, documents: Tensor) -> Tensor:
        """Raises ModelError: documents are found by their addresses' codes."""
        raise _without_codes()


class WordMBC(MBC):
    """`MBC` over words: `documents` is a `WordEncoder`, the codebook a `WordCodebook`; there is no router to train."""

    documents: WordEncoder
    codebook: WordCodebook

    @cached_property
    def _aligner(self) -> PieceAligner:
        return PieceAligner(self.base.tokenizer)

    def _encoded(self, texts: Sequence[str]) -> Tensor:
        words = self.documents.words_of(texts, self._aligner, self.codebook)
        return self.codebook.join(
            words.pieces,
            self.codebook.nearest(words.contexts),
            self.codebook.address.encode(words.address),
        )

    def coding_state(self) -> dict[str, Tensor]:
        """See `MBC`: a role is its vector, a piece its embedding."""
        address = self.codebook.address
        return {
            "role_book": self.codebook.role_book,
            "vocabulary": self.codebook.vocabulary,
            "address.basis": address.basis,
            "address.mean": address.document_mean,
            "address.books": address.books,
        }

    @torch.no_grad()
    def read(
        self,
        questions: Sequence[str],
        memory: Memory,
        *,
        read_mode: str | None = None,
        top: int = 5,
        reader: Reader | None = None,
    ) -> Reading:
        """See `MBC`; documents are found by their addresses."""
        side, address = self.questions, self.codebook.address
        ids, mask = side.tokenize(questions)
        states = side.amortizer.contextualise(ids, mask)
        # Questions are about what tells this memory's documents apart, which its codes say.
        focus = None
        if len(memory):
            focus = address.focus(self._addresses(memory)) if reader is None else self._kept_focus(memory)
        tables = address.tables(address.questions(states, mask), focus)
        finder = replace(reader or self.reader(), router=AddressRouting(tables))
        vectors = side.amortizer.vectors(states, mask)
        found_in = memory
        if isinstance(memory, CodedMemory):
            worth = WORD_SHARE * address.log_scale.exp() * self.codebook.rarity
            found_in = SharedWords(memory, self.codebook, self._pieces(questions), worth)
        return read(read_mode or self.settings.read, finder, vectors, found_in, top=top)

    def _pieces(self, questions: Sequence[str]) -> list[Tensor]:
        """The distinct pieces of each question, [n] int64."""
        device = self.codebook.rarity.device
        cuts = self.base.texts.tokens(questions)
        return [torch.tensor(sorted({*ids}), dtype=torch.int64, device=device) for ids in cuts]

    def _kept_focus(self, memory: Memory) -> Tensor:
        """The focus on a memory, found once: 16 of the 38 ms that a read of ten thousand chunks takes."""
        if memory not in self._focuses:
            self._focuses[memory] = self.codebook.address.focus(self._addresses(memory))
        return self._focuses[memory]

    @cached_property
    def _focuses(self) -> WeakKeyDictionary[Memory, Tensor]:
        return WeakKeyDictionary()

    def _addresses(self, memory: Memory) -> Tensor:
        """Addresses of a memory's chunks, or of a sample of them: [n, parts] int64."""
        if not isinstance(memory, CodedMemory):
            raise _without_codes()
        codes = memory.sample(SEEN_CHUNKS)[:, : self.codebook.address.tokens, 0]
        return torch.from_numpy(codes.astype("int64")).to(self.codebook.books.device)


def _without_codes() -> ModelError:
    return ModelError("Documents are found by the codes of their addresses.", hint="Read a bank, or codes at hand.")
