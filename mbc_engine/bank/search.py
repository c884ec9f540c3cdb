"""Documents found in a bank: by what they are called, as somebody types, and by a code that they use."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mbc_engine.bank.block import Block
from mbc_engine.bank.records import Origin, StoredDocument
from mbc_engine.bank.store import MemoryBank


def documents_with_code(
    bank: MemoryBank, level: int, position: int, code: int, top: int = 10
) -> list[tuple[StoredDocument, int, int]]:
    """The `top` documents a code stands in most often, most often first; of equal ones, the first stored.

    Level, position and code are as in `MemoryBank.counts`; ValueError if there is no such code. Each document comes with
    how often the code stands in it, and how many codes of the same codebook it has.
    """
    shape = bank.header.shape
    if not (0 <= level < shape.levels and 0 <= position < shape.positions and 0 <= code < shape.num_codes):
        raise ValueError(f"there is no code {code} at level {level}, position {position} among {shape}")
    tables = np.zeros((1, shape.tokens, shape.levels, shape.num_codes), np.float32)
    tables[0, position if shape.per_position else slice(None), level, code] = 1
    times, chunks, seen = np.empty(0, np.int64), np.empty(0, np.int64), 0
    with bank.snapshot():
        for sums, lengths in bank.scan(tables):
            starts = np.cumsum(lengths) - lengths
            own = np.add.reduceat(sums[0], starts).astype(np.int64)
            used = np.flatnonzero(own)
            times, chunks = np.append(times, own[used]), np.append(chunks, seen + starts[used])
            best = np.argsort(-times, kind="stable")[:top]
            times, chunks, seen = times[best], chunks[best], seen + sums.shape[1]
        documents = [chunk.document for chunk in bank.chunks_at(chunks)]
    each = 1 if shape.per_position else shape.tokens
    return [(own, number, each * own.chunks) for own, number in zip(documents, times.tolist(), strict=True)]


def find_documents(bank: MemoryBank, text: str = "", most: int = 1000) -> Iterator[tuple[list[StoredDocument], int]]:
    """Find documents in stored order, block by block; stop by taking no more. The bank may change meanwhile.

    Args:
        text: what stands in `path` or `path#part`, upper case or lower, or begins a date; in a bank without origins,
            what begins a digest. "" finds all.
        most: documents in all; beyond that, matches are only counted.

    Yields the documents of a further block, each once for each of its origins that match, with that origin alone; and
    how many have matched so far.
    """
    sought = text.casefold()
    matches = yielded = 0
    for block in bank.document_blocks():
        found = list(_matching(block, sought, has_origins=bank.header.keeps_origins))
        documents = [replace(block.document(row), origins=own) for row, own in found[: most - yielded]]
        yielded, matches = yielded + len(documents), matches + len(found)
        yield documents, matches


def _matching(block: Block, sought: str, *, has_origins: bool) -> Iterator[tuple[int, tuple[Origin, ...]]]:
    if not has_origins:
        yield from ((row, ()) for row, digest in enumerate(block.digests) if digest.hex().startswith(sought))
        return
    for row, origins in enumerate(block.origins):
        for origin in origins:
            if sought in origin.name.casefold() or (origin.date is not None and origin.date.startswith(sought)):
                yield row, (origin,)
