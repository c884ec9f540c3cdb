"""Which blocks may hold a key: 32-bit numbers looked up by the ten thousand among millions.

The blocks of a bank in its database: found by what they hold, read whole or in part, written back.
"""

import sqlite3
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.block import (
    Block,
    Listing,
    Origins,
    Row,
    checksum,
    key,
    keys_of,
    read_block,
    read_digests,
    read_first_texts,
    read_keys,
    read_lengths,
    read_listing,
    read_origins,
)
from mbc_engine.bank.codes import Codes, PackedBlock, unpack_some
from mbc_engine.bank.database import damaged, decoded
from mbc_engine.bank.records import BankHeader
from mbc_engine.bank.text_codec import decode_row, row_checksum

# For so few keys, every block is searched by itself: sorting all blocks into one would take longer.
_FEW: Final = 64
# So many pairs are kept apart before they are sorted in with all others.
_RECENT: Final = 1 << 17
_BLOCK_BITS: Final = np.uint64(32)
_BLOCK: Final = np.uint64(0xFFFFFFFF)

Pairs = NDArray[np.uint64]


class KeyIndex:
    """Pairs of a key and a block. A pair stays when the key leaves the block: what is found is a place to look.

    Args:
        blocks: numbers of blocks below 2**32, with the keys of each.
    """

    def __init__(self, blocks: Iterable[tuple[int, NDArray[np.integer[Any]]]]) -> None:
        self._added = [_pairs(block, keys) for block, keys in blocks]
        self._recent = self._settled = np.empty(0, np.uint64)

    def add(self, block: int, keys: NDArray[np.integer[Any]]) -> None:
        """Say that a block now holds further keys."""
        pairs = _pairs(block, keys)
        while self._added and len(self._added[-1]) <= len(pairs):  # else, each of a million additions would be searched
            pairs = np.sort(np.concatenate([self._added.pop(), pairs]))
        self._added.append(pairs)

    def blocks_of(self, keys: NDArray[np.integer[Any]]) -> dict[int, set[int]]:
        """The blocks to look in, for each key that may be in any."""
        wanted = np.sort(keys).astype(np.uint64)
        if len(wanted) > _FEW:
            self._settle()
        found: defaultdict[int, set[int]] = defaultdict(set)
        for pairs in (self._settled, self._recent, *self._added):
            starts = np.searchsorted(pairs, wanted << _BLOCK_BITS)
            ends = np.searchsorted(pairs, wanted << _BLOCK_BITS | _BLOCK, side="right")
            for place in np.flatnonzero(starts < ends).tolist():
                found[int(wanted[place])].update((pairs[starts[place] : ends[place]] & _BLOCK).tolist())
        return found

    def _settle(self) -> None:
        if self._added:
            self._recent = np.sort(np.concatenate([self._recent, *self._added]))
            self._added = []
        if len(self._recent) > _RECENT:
            self._settled = np.sort(np.concatenate([self._settled, self._recent]))
            self._recent = self._recent[:0]


def _pairs(block: int, keys: NDArray[np.integer[Any]]) -> Pairs:
    if not 0 <= block <= _BLOCK:
        raise OverflowError(f"{block} is no number of a block")
    if (keys[1:] < keys[:-1]).any():
        keys = np.sort(keys)
    return keys.astype(np.uint64) << _BLOCK_BITS | np.uint64(block)


# Blocks held decoded. Files come in the order of their folder, so that one block answers for thousands of them.
_HELD: Final = 4
# One chunk in so many is few: from there on, unpacking the whole block is as quick.
_BLOCKS_FEW: Final = 16
_COLUMNS: Final = "documents, origins, chunks, crc, keys, digests, lengths, described, texts"

Name = tuple[str, str]
Kept = TypeVar("Kept")


class Place(NamedTuple):
    """A document's block, and its row in it."""

    block: int
    row: int


class BlockTable:
    """Reads and writes blocks and texts; transactions are the caller's.

    Checksums of a block are compared when it is first read; those of texts each time. What it holds in memory stays
    right while only its owner writes: after another's write, or a rollback, `forget`.
    """

    def __init__(self, connection: sqlite3.Connection, header: BankHeader, name: str) -> None:
        self._connection, self._header, self._name = connection, header, name
        self.forget()

    def forget(self) -> None:
        """Trust the database alone."""
        self._held: OrderedDict[int, Block] = OrderedDict()
        self._listed: OrderedDict[int, Listing] = OrderedDict()
        self._by_origin: KeyIndex | None = None
        self._by_digest: KeyIndex | None = None
        self._checked_rows: set[int] = set()
        self._checked_codes: set[int] = set()

    def extents(self) -> NDArray[np.int64]:
        """Number and chunks of each block in stored order, [blocks, 2]."""
        self._check_rows()
        rows = self._connection.execute("SELECT id, chunks FROM blocks ORDER BY id").fetchall()
        with decoded(self._name):
            extents = np.array(rows, np.int64).reshape(-1, 2)
            if not ((extents > 0) & (extents < [1 << 32, 1 << 40])).all():
                raise ValueError("no block has such a number, or so many chunks")
        return extents

    def numbers(self) -> list[int]:
        """The blocks' numbers in stored order."""
        return [block for (block,) in self._connection.execute("SELECT id FROM blocks ORDER BY id")]

    def row(self, block: int) -> Row:
        """A block's columns, its codes left out.

        Raises:
            KeyError: there is no such block.
            ValueError, TypeError: its checksum does not match.
        """
        found = self._connection.execute(f"SELECT {_COLUMNS} FROM blocks WHERE id = ?", (block,)).fetchone()  # noqa: S608 - ours
        if found is None:
            raise KeyError(block)
        row = Row(*found)
        self._check_row(block, row)
        return row

    def packed(self, block: int) -> bytes:
        """A block's codes as bits.

        Raises:
            ValueError, TypeError: they are missing, or their checksum does not match.
        """
        row = self._connection.execute("SELECT crc, data FROM codes WHERE id = ?", (block,)).fetchone()
        return self._check_codes(block, *(row or (None, None)))

    def all_packed(self) -> Iterator[PackedBlock]:
        """The codes of each block in stored order, all from one state of the bank."""
        self._check_rows()
        query = """SELECT blocks.id, documents, chunks, lengths, codes.crc, data
            FROM blocks LEFT JOIN codes USING (id) ORDER BY blocks.id"""
        for block, documents, chunks, lengths, crc, data in self._connection.execute(query):
            with decoded(self._name):
                packed = self._check_codes(block, crc, data)
                yield PackedBlock(self._header.shape, packed, read_lengths(lengths, documents, chunks))

    def all_lengths(self) -> Iterator[NDArray[np.int64]]:
        """Chunks of each document of each block in stored order; the codes are not read."""
        self._check_rows()
        for row in self._connection.execute("SELECT lengths, documents, chunks FROM blocks ORDER BY id"):
            with decoded(self._name):
                yield read_lengths(*row)

    def get(self, block: int) -> Block:
        """A whole block, which must be there. Who changes it has to `put` it.

        Raises:
            BankError: it is not, or makes no sense.
        """
        content = self.find(block)
        if content is None:
            raise damaged(self._name)
        return content

    def find(self, block: int) -> Block | None:
        """A whole block, or None where there is none of this number: an index may name blocks that are gone."""
        if block in self._held:
            self._held.move_to_end(block)
            return self._held[block]
        row = self._row_if_there(block)
        if row is None:
            return None
        with decoded(self._name):
            return self._hold(block, read_block(row, self.packed(block), self._header))

    def listing(self, block: int) -> Listing | None:
        """The documents of a block, its codes not read, or None where there is no block of this number."""
        if block in self._held:
            return self._held[block].listing()
        if block not in self._listed:
            row = self._row_if_there(block)
            if row is None:
                return None
            with decoded(self._name):
                _keep(self._listed, block, read_listing(row, self._header))
        self._listed.move_to_end(block)
        return self._listed[block]

    def codes_at(self, block: int, within: NDArray[np.int64]) -> Codes:
        """The codes of some chunks of a block by their indices in it, [n, tokens, levels]; few are unpacked alone.

        Raises:
            BankError: it is not there, or makes no sense.
        """
        if block in self._held:
            return self._held[block].codes[within]
        row = self._connection.execute("SELECT chunks FROM blocks WHERE id = ?", (block,)).fetchone()
        if row is None:
            raise damaged(self._name)
        if len(within) * _BLOCKS_FEW > row[0]:
            return self.get(block).codes[within]
        with decoded(self._name):
            return unpack_some(self.packed(block), self._header.shape, row[0], within)

    def text_numbers_at(self, block: int, within: NDArray[np.int64]) -> list[int]:
        """The numbers in the table `texts` of some chunks of a block, by their indices in it.

        Raises:
            BankError: it is not there, or makes no sense.
        """
        known = self._held.get(block) or self._listed.get(block)
        if known is not None:
            lengths, firsts = known.lengths, known.first_texts
        else:
            row = self._row_if_there(block)
            if row is None:
                raise damaged(self._name)
            with decoded(self._name):
                lengths = read_lengths(row.lengths, row.documents, row.chunks).tolist()
                firsts = read_first_texts(row, self._header, lengths)
        ends = np.cumsum(lengths)
        rows = np.searchsorted(ends, within, side="right")
        starts = ends - np.array(lengths)
        numbers: list[int] = (np.array(firsts)[rows] + within - starts[rows]).tolist()
        return numbers

    def text_rows(self, first: int, count: int) -> list[bytes]:
        """Texts of chunks as they are stored, that of number `first` and those that follow it.

        Raises:
            BankError: one of them is not there, or is damaged.
        """
        query = "SELECT id, crc, data FROM texts WHERE id BETWEEN ? AND ? ORDER BY id"
        with decoded(self._name):
            found = self._connection.execute(query, (first, first + count - 1)).fetchall()
            for row in found:
                decode_row(*row)
        if [number for number, _, _ in found] != list(range(first, first + count)):
            raise damaged(self._name)
        return [data for _, _, data in found]

    def append_texts(self, rows: Sequence[bytes]) -> int:
        """Put texts behind all others; returns the number of the first."""
        (last,) = self._connection.execute("SELECT coalesce(max(id), 0) FROM texts").fetchone()
        with decoded(self._name):  # there is no larger number than the largest
            self._connection.executemany(
                "INSERT INTO texts VALUES (?, ?, ?)",
                ((number, row_checksum(number, data), data) for number, data in enumerate(rows, last + 1)),
            )
        return int(last) + 1

    def delete_texts(self, first: int, count: int) -> int:
        """Remove texts, that of number `first` and those that follow it; returns how many bytes they were."""
        span = (first, first + count - 1)
        with decoded(self._name):
            (size,) = self._connection.execute(
                "SELECT coalesce(sum(length(data)), 0) FROM texts WHERE id BETWEEN ? AND ?", span
            ).fetchone()
            self._connection.execute("DELETE FROM texts WHERE id BETWEEN ? AND ?", span)
        return int(size)

    def digest_at(self, place: Place) -> bytes:
        """The content hash of a document."""
        return self.get(place.block).digests[place.row]

    def origins(self, block: int) -> Origins:
        """The origins in a block, its codes not read; none where there is no block of this number."""
        if block in self._held:
            return self._held[block].origins.between(0, len(self._held[block]))
        row = self._row_if_there(block)
        if row is None:
            return Origins()
        with decoded(self._name):
            return read_origins(row, self._header)[1]

    def put(self, block: int, content: Block) -> None:
        """Write a block in the place of the one that has its number; one without documents goes."""
        self._checked_rows.discard(block)
        self._checked_codes.discard(block)
        if not len(content):
            self._connection.execute("DELETE FROM blocks WHERE id = ?", (block,))
            self._connection.execute("DELETE FROM codes WHERE id = ?", (block,))
            self._held.pop(block, None)
            self._listed.pop(block, None)
            return
        packed = content.packed(self._header.shape)
        self._connection.execute("REPLACE INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (block, *content.row()))
        self._connection.execute("REPLACE INTO codes VALUES (?, ?, ?)", (block, checksum(packed), packed))
        self._hold(block, content)

    def append(self, new: Block) -> None:
        """Put documents behind all others: into the last block while it has room, then into further ones."""
        last = self._connection.execute("SELECT max(id) FROM blocks").fetchone()[0]
        block, content = (last, self.get(last)) if last else (1, Block.empty(self._header.shape))
        start = 0
        while start < len(new):
            room = self._header.block_chunks - len(content.codes)
            if room <= 0:
                block, content = block + 1, Block.empty(self._header.shape)
                continue
            added = new.filling(start, room)
            content.extend(added)
            self.put(block, content)
            self.note(block, added.digests, added.origins)
            start += len(added)

    def note(self, block: int, digests: Sequence[bytes], origins: Origins) -> None:
        """Remember where documents and origins are to be found from now on."""
        if self._by_digest is not None:
            self._by_digest.add(block, _digest_keys(b"".join(digests), self._header.digest_bytes))
        if self._by_origin is not None:
            self._by_origin.add(block, keys_of(origins))

    def find_source(self, source: str) -> dict[str, Place]:
        """Every part read from a source, and where it is."""
        return {
            part: place
            for block in self._holding_origins([key(source)]).get(key(source), ())
            for (_, part), place in self._origins_in(block, lambda name: name[0] == source)
        }

    def find_origins(self, names: Collection[Name]) -> dict[Name, Place]:
        """Where the documents are that were read from these sources and parts, if there are any."""
        if not names:  # which needs no index of the bank
            return {}
        keys = [key(*name) for name in names]
        holding = self._holding_origins(keys)
        wanted: defaultdict[int, set[Name]] = defaultdict(set)
        for name, number in zip(names, keys, strict=True) if holding else ():
            for block in holding.get(number, ()):
                wanted[block].add(name)
        return {
            name: place
            for block, sought in wanted.items()
            for name, place in self._origins_in(block, sought.__contains__)
        }

    def find_digests(self, digests: Collection[bytes]) -> dict[bytes, Place]:
        """Where the documents with these content hashes are, if there are any."""
        if not digests:
            return {}
        holding = self._holding_digests(_digest_keys(b"".join(digests), self._header.digest_bytes))
        blocks = {block for several in holding.values() for block in several}
        return {
            digest: Place(block, row)
            for block in blocks
            for row, digest in enumerate(self._digests_in(block))
            if digest in digests
        }

    def _row_if_there(self, block: int) -> Row | None:
        with decoded(self._name):
            try:
                return self.row(block)
            except KeyError:
                return None

    def _check_rows(self) -> None:
        """Compare the checksums of all blocks that were not read yet; their codes are not read."""
        for block in self.numbers():
            if block not in self._checked_rows:
                self._row_if_there(block)

    def _check_row(self, block: int, row: Row) -> None:
        if block not in self._checked_rows:
            if row.checksum() != row.crc:
                raise ValueError("the checksum of its documents does not match")
            self._checked_rows.add(block)

    def _check_codes(self, block: int, crc: object, data: Any) -> bytes:
        if block not in self._checked_codes:
            if type(data) is not bytes or checksum(data) != crc:
                raise ValueError("the checksum of its codes does not match")
            self._checked_codes.add(block)
        packed: bytes = data
        return packed

    def _hold(self, block: int, content: Block) -> Block:
        self._listed.pop(block, None)
        _keep(self._held, block, content)
        return content

    def _origins_in(self, block: int, is_sought: Callable[[Name], bool]) -> Iterator[tuple[Name, Place]]:
        """The origins in a block, by source and part, for which `is_sought` is true, and their documents."""
        content = self.find(block)
        if content is not None:
            names = list(zip(content.origins.sources, content.origins.parts, strict=True))
            found = [number for number, name in enumerate(names) if is_sought(name)]
            rows = content.origins.rows() if found else []
            yield from ((names[number], Place(block, rows[number])) for number in found)

    def _digests_in(self, block: int) -> list[bytes]:
        if block in self._held:
            return self._held[block].digests
        row = self._row_if_there(block)
        if row is None:
            return []
        with decoded(self._name):
            return read_digests(row, self._header)

    def _holding_origins(self, keys: Sequence[int]) -> dict[int, set[int]]:
        if self._by_origin is None:
            self._check_rows()
            rows = self._connection.execute("SELECT id, keys FROM blocks")
            with decoded(self._name):
                self._by_origin = KeyIndex((block, read_keys(data)) for block, data in rows)
        return self._by_origin.blocks_of(np.array(keys, np.uint32))

    def _holding_digests(self, keys: NDArray[np.uint32]) -> dict[int, set[int]]:
        if self._by_digest is None:
            self._check_rows()
            width = self._header.digest_bytes
            rows = self._connection.execute("SELECT id, digests FROM blocks")
            with decoded(self._name):
                self._by_digest = KeyIndex((block, _digest_keys(data, width)) for block, data in rows)
        return self._by_digest.blocks_of(keys)


def _keep(kept: OrderedDict[int, Kept], block: int, content: Kept) -> None:
    """Remember what was decoded last, and forget what was not used for longest."""
    kept[block] = content
    kept.move_to_end(block)
    if len(kept) > _HELD:
        kept.popitem(last=False)


def _digest_keys(data: bytes, width: int) -> NDArray[np.uint32]:
    starts = np.frombuffer(data, np.uint8).reshape(-1, width)[:, :4]
    return np.ascontiguousarray(starts).view(">u4")[:, 0].astype(np.uint32)
