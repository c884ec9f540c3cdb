"""Reading from one bank or several as one: a bank has one part, its block table, and several have one each."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple, replace
from itertools import accumulate
from operator import methodcaller
from typing import Any, Final, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank import database
from mbc_engine.bank.block import Lengths
from mbc_engine.bank.block_table import BlockTable
from mbc_engine.bank.records import (
    BankHeader,
    BankSizes,
    BankTotals,
    Codes,
    CodeShape,
    EncodedText,
    Indices,
    ModelSignature,
    Numbers,
    Scores,
    StoredChunk,
    read_across,
    table_sums,
    unpack,
)
from mbc_engine.bank.selection import Selection
from mbc_engine.bank.text_codec import OpenTextModel, decode_found
from mbc_engine.errors import BankError
from mbc_engine.text import Chunk

_T = TypeVar("_T")
# Results in memory that `kept` keeps.
_KEPT: Final = 4


class ReadableBank(ABC):
    """What a question can be asked of: a `MemoryBank`, several as `Banks`, or those of a cluster as `Shards`.

    Chunks are numbered in stored order, across all parts. Their indices are valid only until a bank changes: use one
    `snapshot` for related calls. Use it as a context manager, or `close` it.
    """

    header: BankHeader  # of the first part
    banks: tuple["ReadableBank", ...] = ()  # that are read as this one
    _parts: tuple[BlockTable, ...]
    _weights: tuple[float, ...] = (1.0,)  # of each part
    _kept: tuple[Hashable, OrderedDict[Hashable, Any]] = None, OrderedDict()

    @property
    @abstractmethod
    def name(self) -> str:
        """The path or paths, as shown to users."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Inside, every read sees the parts as they were at the first one, and this object must not write."""

    def sizes(self) -> BankSizes:
        """Sizes in bytes, without write-ahead logs; the model's codebook is counted once."""
        each = [astuple(sizes) for sizes in self._of_banks(methodcaller("sizes"))]
        return replace(BankSizes(*np.sum(each, 0).tolist()), codebook=self.header.codebook_bytes)

    def require(self, signature: ModelSignature, shape: CodeShape) -> None:
        """Raises ModelMismatch if another model wrote it, BankError if it says so but has codes of another shape."""
        self._of_banks(methodcaller("require", signature, shape))

    def version(self) -> tuple[Any, ...]:
        """A value that changes with each write, by this process or another; takes microseconds, or a call to a cluster."""
        return tuple(self._of_banks(methodcaller("version")))

    def is_replaced(self) -> bool:
        """Whether a file was replaced or deleted; reads see the old one until it is opened again."""
        return any(self._of_banks(methodcaller("is_replaced")))

    def _of_banks(self, work: Callable[..., _T]) -> list[_T]:
        return [work(bank) for bank in self.banks]

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of banks that do not answer, and whose documents are therefore left out."""
        return ()

    def each(self, work: Callable[..., _T], *arguments: Sequence[Any]) -> list[_T]:
        """What `work` returns for each bank that is read on its own, in stored order; here, for this one.

        It gets the bank, and one of each of the `arguments`. Banks of a cluster are given to it where their files are,
        all at once, so it and what it returns are pickled.
        """
        return [work(self, *given) for given in zip(*arguments, strict=True)] if arguments else [work(self)]

    def kept(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """What `make` returns, or has returned for this key not long ago, while the bank has not changed."""
        version = self.version()
        if self._kept[0] != version:
            self._kept = version, OrderedDict()
        made = self._kept[1]
        if key not in made:
            made[key] = make()
        made.move_to_end(key)
        if len(made) > _KEPT:
            made.popitem(last=False)
        return cast("_T", made[key])

    @property
    def is_weighted(self) -> bool:
        return len(set(self._weights)) > 1

    def totals(self) -> BankTotals:
        """How much the parts hold; no slower for a large bank than for a small one."""
        return BankTotals(*np.sum(list(self._each(lambda part: [part.sizes()[:, 1:].sum(0)])), 0).tolist())

    def counts(self) -> NDArray[Any]:
        """How often each code occurs, [levels, positions, num_codes]: int64, or float64 if the parts are weighted."""
        with self.snapshot():
            counts = np.stack(list(self._each(lambda part: [part.state()[0]])))
            if self.is_weighted:
                return np.asarray(np.tensordot(np.exp(self._log_weights()), counts.astype(np.float64), 1))
            return np.asarray(counts.sum(0))

    def blocks(self) -> Iterator[tuple[Codes, Lengths]]:
        """All codes in one snapshot, thousands of chunks [chunks, tokens, levels] at a time, with document lengths."""
        shape = self.header.shape
        return self._each(lambda part: part.read_codes(lambda packed, chunks: unpack(packed, shape, chunks)))

    def scan(self, tables: Scores) -> Iterator[tuple[Scores, Lengths]]:
        """Sums of table entries over each chunk's codes, block by block as `blocks`.

        From tables [questions, tokens, levels, num_codes] to sums [questions, chunks] and the number of chunks of each
        document in the block, [documents].
        """
        sums = table_sums(self.header.shape, tables)
        return self._each(lambda part: part.read_codes(sums))

    def log_weights(self, selection: Selection) -> Iterator[NDArray[np.float64]]:
        """The log weights of chunks in stored order, several at a time: those of their documents, plus that of the part.

        Raises BankError if the selection leaves anything out and a part has no origins.
        """
        with self.snapshot():
            for part, weight in zip(self._parts, self._log_weights(), strict=True):
                with database.wrap_sqlite_errors(part.name):
                    if selection.is_everything:
                        yield np.full(part.totals()[-1], weight)
                        continue
                    if not part.header.keeps_origins:
                        raise BankError(
                            f"{part.name} was made without sources: it stores no names or dates.",
                            hint="Leave out the options for paths and dates, or use a bank with sources.",
                        )
                    for origins, lengths in part.all_origins():
                        yield np.repeat(selection.log_weights(origins), lengths) + weight

    def codes_at(self, chunks: Numbers) -> Codes:
        """The codes of some chunks, by index: [len(chunks), tokens, levels]."""
        shape = self.header.shape
        return np.array(self._read_at("codes_at", chunks), np.uint16).reshape(-1, shape.tokens, shape.levels)

    def chunks_with(self, words: Sequence[int]) -> list[Indices]:
        """The indices of chunks with each of these words (`word_numbers`); none where no text is kept.

        Words that share a number are not distinguished.
        """
        found = list(self._each(lambda part: [(part.chunks_with(words), part.totals()[-1])]))
        starts = accumulate((chunks for _, chunks in found), initial=0)
        of_parts = [
            [chunks + start for chunks in of_words] for (of_words, _), start in zip(found, starts, strict=False)
        ]
        return list(map(np.concatenate, zip(*of_parts, strict=True)))

    def encoded_texts_at(self, chunks: Numbers) -> Sequence[EncodedText | None]:
        """The texts of some chunks, by index, as stored; None where none are kept."""
        return self._read_at("encoded_texts_at", chunks)

    def texts_at(self, chunks: Numbers, open_model: OpenTextModel | None = None) -> Sequence[Chunk | None]:
        """The exact texts of some chunks, by index; `open_model` is for those coded with a language model."""
        return decode_found(self.encoded_texts_at(chunks), self.name, open_model)

    def chunks_at(self, chunks: Numbers) -> list[StoredChunk]:
        """Where some chunks came from, by index."""
        return self._read_at("chunks_at", chunks)

    def parts_of(self, source: str) -> set[str]:
        """The parts of a source that are held; "" is the whole of it."""
        return set(self._each(lambda part: part.find_parts(source)))

    def _each(self, read: Callable[[BlockTable], Iterable[_T]]) -> Iterator[_T]:
        """What `read` yields for each part, in one snapshot."""
        with self.snapshot():
            for part in self._parts:
                with database.wrap_sqlite_errors(part.name):
                    yield from read(part)

    def _read_at(self, method: str, chunks: Numbers) -> list[Any]:
        """What this method of the parts reads of chunks, by their indices."""
        with self.snapshot():
            blocks = list(self._each(lambda part: ((part, *row) for row in part.chunks_per_block().tolist())))

            def read_block(at: int, within: Indices) -> list[Any]:
                part, block, _ = blocks[at]
                with database.wrap_sqlite_errors(part.name):
                    return list(getattr(part, method)(block, within))

            return read_across(chunks, np.array([size for *_, size in blocks], np.int64), read_block)

    def _log_weights(self) -> NDArray[np.float64]:
        """Logarithm of each part's weight relative to the largest; -inf for one that holds nothing."""
        holds_some = np.array(list(self._each(lambda part: [part.totals()[-1] > 0])))
        logs = np.where(holds_some, np.log(self._weights), -np.inf)
        return logs - logs.max() if holds_some.any() else logs
