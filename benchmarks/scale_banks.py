"""The banks that docs/scale.md is measured on: all documents in one, and the same documents cut into shards."""

import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import bank as banks
import numpy as np
import torch

from mbc_engine.bank import MemoryBank
from mbc_engine.paper.codebook import Codebook
from mbc_engine.paper.memories import Router

SHARDS: Final = (1, 2, 4, 8, 16, 64)
TOP: Final = 64  # documents and chunks that a ranking keeps: as many as mini finds

_STEP: Final = 1 << 16

# A chunk a document, the hardest case; with sources unless the name says otherwise.
FORMS: Final = {
    "paper": banks.Form("paper", banks.PAPER, banks.T5_WIDTH, 1, True),
    "mini": banks.Form("mini", banks.MINI, banks.MINI_DIM, 1, True, True),
}


def path_of(folder: str, name: str, shards: int, place: int) -> Path:
    """Where a shard of so many lies; the only one is the whole."""
    return Path(folder) / f"{name}-{shards}" / f"{place:02d}.mbc"


def paths_of(folder: str, name: str, shards: int) -> list[Path]:
    """All shards of so many, in the order of their documents."""
    return [path_of(folder, name, shards, place) for place in range(shards)]


def empty(path: Path, form: banks.Form, keeps_origins: bool) -> MemoryBank:
    """A new bank with made-up books."""
    shape = form.shape
    size = (shape.levels, shape.positions, shape.num_codes, form.dim)
    books = np.random.default_rng(1).standard_normal(size, dtype=np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    keeps = {"keeps_origins": keeps_origins, "keeps_text": form.keeps_text}
    return MemoryBank.create(path, banks.signature(books), shape, form.dim, **keeps)


def make(name: str, chunks: int, folder: str, numbers: Sequence[int] = SHARDS) -> dict[str, float]:
    """Make the banks of a form, the same documents once for each number of shards.

    Returns:
        `append`: seconds a chunk that adding to the whole took, some ten thousand chunks at a time.
    """
    form = FORMS[name]
    step = max(chunks // max(numbers), min(chunks, _STEP))
    assert chunks % max(numbers) == 0, "shards are of one size"
    assert chunks % step == 0
    stream = banks.items(form, chunks)
    filling: dict[int, MemoryBank] = {}
    seconds = 0.0
    for start in range(0, chunks, step):
        items = list(islice(stream, step))
        for shards in numbers:
            size = chunks // shards
            for own in range(start, start + step, min(size, step)):
                if own % size == 0:
                    if shards in filling:
                        filling[shards].close()
                    filling[shards] = empty(path_of(folder, name, shards, own // size), form, form.keeps_origins)
                began = time.perf_counter()
                filling[shards].put(items[own - start : own - start + min(size, step)])
                seconds += time.perf_counter() - began if shards == 1 else 0.0
    for bank in filling.values():
        bank.close()
    return {"append": seconds / chunks}


class GivenTables(Router):
    """A router of questions whose tables were made elsewhere, [B, T, levels, num_codes]: a node needs no model."""

    def __init__(self, tables: torch.Tensor) -> None:
        super().__init__(1)
        self.given = tables

    def tables(self, question: torch.Tensor, codebook: Codebook) -> torch.Tensor:
        """What was given."""
        return self.given


def routing_of(name: str, questions: int) -> tuple[Codebook, Router, torch.Tensor]:
    """What a scan needs: a codebook's shape, and lookup tables of made-up questions, of which the last says
    how many there are.
    """
    shape = FORMS[name].shape
    book = Codebook(shape.num_codes, 1, shape.tokens, levels=shape.levels, per_position=shape.per_position)
    size = (questions, shape.tokens, shape.levels, shape.num_codes)
    tables = torch.randn(size, generator=torch.Generator().manual_seed(0))
    return book, GivenTables(tables), torch.zeros(questions, 1, 1)
