"""Several banks of one model read as one, without copying: counts add up, and each bank may be weighted."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, replace
from itertools import accumulate
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.block import Lengths
from mbc_engine.bank.database import identity
from mbc_engine.bank.records import (
    BankSizes,
    BankTotals,
    Codes,
    EncodedText,
    Indices,
    ModelSignature,
    Numbers,
    Scores,
    StoredChunk,
    read_across,
)
from mbc_engine.bank.selection import Selection
from mbc_engine.bank.store import MemoryBank, require_one_model
from mbc_engine.bank.text_codec import OpenTextModel, decode_found
from mbc_engine.errors import ConfigError
from mbc_engine.text import Chunk

_T = TypeVar("_T")


class Banks:
    """Banks read as one that holds the documents of each, in order; methods are as in `MemoryBank`.

    Chunks are numbered across all banks, which are closed with this object. Content that two banks hold counts twice. A
    bank of weight w counts as if it held each of its documents w times; only the ratio of weights matters.

    Raises ModelMismatch if the banks are not of one model, ConfigError if there are none, one is given twice, or the
    weights are invalid.
    """

    def __init__(self, banks: Sequence[MemoryBank], weights: Sequence[float] | None = None) -> None:
        if not banks:
            raise ConfigError("No bank is named.", hint="Name at least one with --bank.")
        if weights is not None:
            _require_weights(len(banks), weights)
        for number, bank in enumerate(banks):
            _require_another(banks[:number], bank)
            require_one_model(banks[0], bank)
        self.banks, self.header = tuple(banks), banks[0].header
        self._weights = (1.0,) * len(banks) if weights is None else tuple(weights)

    @classmethod
    def open(cls, paths: Sequence[Path], weights: Sequence[float] | None = None) -> Self:
        with ExitStack() as opened:
            banks = cls([opened.enter_context(MemoryBank.open(path, read_only=True)) for path in paths], weights)
            opened.pop_all()  # they stay open
        return banks

    @property
    def name(self) -> str:
        return " + ".join(bank.name for bank in self.banks)

    @property
    def is_weighted(self) -> bool:
        return len(set(self._weights)) > 1

    def require(self, signature: ModelSignature) -> None:
        for bank in self.banks:
            bank.require(signature)

    def totals(self) -> BankTotals:
        return BankTotals(*np.sum([astuple(bank.totals()) for bank in self.banks], 0).tolist())

    def sizes(self) -> BankSizes:
        """In bytes; the model's codebook is counted once."""
        total = BankSizes(*np.sum([astuple(bank.sizes()) for bank in self.banks], 0).tolist())
        return replace(total, codebook=self.header.codebook_bytes)

    def counts(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """Weighted, if the banks are: [levels, positions, num_codes]."""
        with self.snapshot():
            each = np.stack([bank.counts() for bank in self.banks])
            if self.is_weighted:
                return np.asarray(np.tensordot(np.exp(self._logs()), each.astype(np.float64), 1))
            return np.asarray(each.sum(0))

    def blocks(self) -> Iterator[tuple[Codes, Lengths]]:
        with self.snapshot():
            for bank in self.banks:
                yield from bank.blocks()

    def scan(self, tables: Scores) -> Iterator[tuple[Scores, Lengths]]:
        with self.snapshot():
            for bank in self.banks:
                yield from bank.scan(tables)

    def log_weights(self, selection: Selection) -> Iterator[NDArray[np.float64]]:
        """Each plus the logarithm of its bank's weight relative to the largest."""
        with self.snapshot():
            for bank, log in zip(self.banks, self._logs(), strict=True):
                if selection.is_everything:
                    yield np.full(bank.totals().chunks, log)
                else:
                    yield from (own + log for own in bank.log_weights(selection))

    def codes_at(self, chunks: Numbers) -> Codes:
        shape = self.header.shape
        return np.array(self._read_across(chunks, MemoryBank.codes_at), np.uint16).reshape(
            -1, shape.tokens, shape.levels
        )

    def chunks_with(self, words: Sequence[int]) -> list[Indices]:
        with self.snapshot():
            starts = accumulate((bank.totals().chunks for bank in self.banks), initial=0)
            each = [
                [own + start for own in bank.chunks_with(words)]
                for start, bank in zip(starts, self.banks, strict=False)
            ]
        return [np.concatenate(own) for own in zip(*each, strict=True)]

    def encoded_texts_at(self, chunks: Numbers) -> Sequence[EncodedText | None]:
        return self._read_across(chunks, MemoryBank.encoded_texts_at)

    def texts_at(self, chunks: Numbers, open_model: OpenTextModel | None = None) -> Sequence[Chunk | None]:
        return decode_found(self.encoded_texts_at(chunks), self.name, open_model)

    def chunks_at(self, chunks: Numbers) -> list[StoredChunk]:
        return self._read_across(chunks, MemoryBank.chunks_at)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with ExitStack() as stack:
            for bank in self.banks:
                stack.enter_context(bank.snapshot())
            yield

    def version(self) -> tuple[tuple[int, int], ...]:
        return tuple(bank.version() for bank in self.banks)

    def is_replaced(self) -> bool:
        return any(bank.is_replaced() for bank in self.banks)

    def close(self) -> None:
        for bank in self.banks:
            bank.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _logs(self) -> NDArray[np.float64]:
        """Logarithm of each bank's weight relative to the largest; -inf for an empty bank."""
        holds_some = np.array([bank.totals().chunks > 0 for bank in self.banks])
        logs = np.where(holds_some, np.log(self._weights), -np.inf)
        return logs - logs.max() if holds_some.any() else logs

    def _read_across(self, chunks: Numbers, read: Callable[[MemoryBank, Indices], Iterable[_T]]) -> list[_T]:
        with self.snapshot():
            sizes = np.array([bank.totals().chunks for bank in self.banks], np.int64)
            return read_across(chunks, sizes, lambda bank, within: read(self.banks[bank], within))


# What a question can be asked of.
ReadableBank = MemoryBank | Banks


def _require_weights(banks: int, weights: Sequence[float]) -> None:
    if len(weights) != banks:
        raise ConfigError(
            f"The number of weights ({len(weights)}) does not match the number of banks ({banks}).",
            hint="Give one --weight for each --bank, in their order, or none.",
        )
    for weight in weights:
        if not (math.isfinite(weight) and weight > 0):
            raise ConfigError(f"{weight:g} is not a valid weight.", hint="Give a number above 0, such as --weight 0.5.")


def _require_another(banks: Sequence[MemoryBank], bank: MemoryBank) -> None:
    for other in banks:
        if other is bank or (other.path and bank.path and identity(other.path) == identity(bank.path)):
            is_same = other.name == bank.name
            raise ConfigError(
                f"{bank.name} is named twice." if is_same else f"{other.name} and {bank.name} are the same file.",
                hint="Name it once; with a larger --weight than the others it counts more.",
            )
