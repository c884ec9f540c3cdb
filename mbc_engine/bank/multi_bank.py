"""Several banks of one model read as one, without copying: counts add up, and each bank may be weighted."""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, replace
from pathlib import Path
from typing import Self

import numpy as np

from mbc_engine.bank.database import identity
from mbc_engine.bank.memory_bank import MemoryBank, require_one_model
from mbc_engine.bank.reader import ReadableBank
from mbc_engine.bank.records import BankSizes, CodeShape, ModelSignature
from mbc_engine.errors import ConfigError


class Banks(ReadableBank):
    """Banks read as one that holds the documents of each, in order; they are closed with this object.

    Content that two banks hold counts twice. A bank of weight w counts as if it held each of its documents w times;
    only the ratio of weights matters.

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
        self._parts = tuple(part for bank in banks for part in bank._parts)  # noqa: SLF001 - the same interface
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

    def require(self, signature: ModelSignature, shape: CodeShape) -> None:
        for bank in self.banks:
            bank.require(signature, shape)

    def sizes(self) -> BankSizes:
        total = BankSizes(*np.sum([astuple(bank.sizes()) for bank in self.banks], 0).tolist())
        return replace(total, codebook=self.header.codebook_bytes)

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
