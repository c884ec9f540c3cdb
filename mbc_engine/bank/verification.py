"""Is a bank what was written? Checks every byte that has a meaning against others, without the model."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from mbc_engine.bank.block import Block, count, keys_of, read_block, read_keys
from mbc_engine.bank.blocks import BlockTable
from mbc_engine.bank.database import NONSENSE, opened, read_header, read_state, require_format, transaction
from mbc_engine.bank.records import BankHeader
from mbc_engine.bank.text_codec import decode_row
from mbc_engine.errors import BankError
from mbc_engine.events import BankVerified, DamageFound, Event, Progressed

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_OF_STRUCTURE: Final = 20


def verify(path: Path) -> Iterator[Event]:
    """Check the file's structure, all checksums, and that blocks, texts and counts fit together.

    Yields what is damaged, how far it is, and last `BankVerified`.

    Raises:
        BankError: there is no bank, or it is so damaged that it cannot be opened.
    """
    with opened(path, read_only=True) as connection, transaction(connection, "DEFERRED"):
        require_format(connection, str(path))
        checking = _Check(connection, read_header(connection, str(path)), str(path))
        yield from checking.events()


class _Check:
    """The checks of one bank, and what they know from block to block."""

    def __init__(self, connection: sqlite3.Connection, header: BankHeader, name: str) -> None:
        self._connection, self._header, self._name = connection, header, name
        self._blocks = BlockTable(connection, header, name)
        self._counts = np.zeros((header.shape.levels, header.shape.positions, header.shape.num_codes), np.int64)
        self._digests: list[NDArray[np.uint64]] = []
        self._origins: list[NDArray[np.int64]] = []
        self._texts: list[NDArray[np.int64]] = []

    def events(self) -> Iterator[Event]:
        """Every finding, and how far the checks are."""
        damages = documents = chunks = 0
        for finding in self._structure():
            damages += 1
            yield finding
        try:
            blocks = [block for (block,) in self._connection.execute("SELECT id FROM blocks ORDER BY id")]
        except sqlite3.Error as error:
            yield DamageFound("file", str(error))
            yield BankVerified(0, 0, damages + 1)
            return
        for number, block in enumerate(blocks, 1):
            try:
                content = self._block(block)
                documents, chunks = documents + len(content), chunks + len(content.codes)
            except (*NONSENSE, sqlite3.Error) as error:
                damages += 1
                yield DamageFound(f"block {block}", str(error))
            yield Progressed("verify blocks", number, len(blocks))
        for finding in self._whole():
            damages += 1
            yield finding
        yield BankVerified(documents, chunks, damages)

    def _structure(self) -> Iterator[DamageFound]:
        try:
            for (line,) in self._connection.execute(f"PRAGMA integrity_check({_MOST_OF_STRUCTURE})").fetchall():
                if line != "ok":
                    yield DamageFound("file", line)
        except sqlite3.Error as error:
            yield DamageFound("file", str(error))

    def _block(self, block: int) -> Block:
        """Read a block and add it to what is counted.

        Raises:
            ValueError, sqlite3.Error, and what nonsense raises: it is damaged.
        """
        row = self._blocks.row(block)
        content = read_block(row, self._blocks.packed(block), self._header)
        self._counts += count(content.codes, self._header.shape)
        if not np.array_equal(read_keys(row.keys), np.unique(keys_of(content.origins))):
            raise ValueError("its index does not match its origins")
        if self._header.keeps_text:
            lengths = np.array(content.lengths, np.int64)
            starts = np.array(content.first_texts, np.int64) - (np.cumsum(lengths) - lengths)
            self._texts.append(np.repeat(starts, lengths) + np.arange(len(content.codes)))
        self._digests.append(np.array([int.from_bytes(digest[:8], "big") for digest in content.digests], np.uint64))
        self._origins.append(
            np.array(list(map(hash, zip(content.origins.sources, content.origins.parts, strict=True))), np.int64)
        )
        return content

    def _whole(self) -> Iterator[DamageFound]:
        """What can be said when all blocks were seen. Contents and origins are compared by 64 bits of them."""
        try:
            yield from self._state()
            yield from self._all_texts()
            (strays,) = self._connection.execute(
                "SELECT count(*) FROM codes WHERE id NOT IN (SELECT id FROM blocks)"
            ).fetchone()
            if strays:
                yield DamageFound("codes", f"{strays} blocks of codes belong to no documents")
        except sqlite3.Error as error:
            yield DamageFound("file", str(error))
        for what, values in (("documents", self._digests), ("origins", self._origins)):
            together = np.concatenate([np.empty(0, np.int64), *(some.view(np.int64) for some in values)])
            if twice := len(together) - len(np.unique(together)):
                yield DamageFound(what, f"{twice} are stored more than once")

    def _state(self) -> Iterator[DamageFound]:
        try:
            counts, text_bytes = read_state(self._connection, self._header, self._name)
        except BankError:
            yield DamageFound("counts", "their checksum does not match")
            return
        if not np.array_equal(counts, self._counts):
            yield DamageFound("counts", "they are not those of the codes")
        (found,) = self._connection.execute("SELECT coalesce(sum(length(data)), 0) FROM texts").fetchone()
        if found != text_bytes:
            yield DamageFound("texts", f"they are {found} bytes, not {text_bytes}")

    def _all_texts(self) -> Iterator[DamageFound]:
        """Every text is decoded, and belongs to one chunk."""
        stored = []
        for number, crc, data in self._connection.execute("SELECT id, crc, data FROM texts"):
            stored.append(number)
            try:
                decode_row(number, crc, data)
            except NONSENSE as error:
                yield DamageFound(f"text {number}", str(error))
        owned = np.concatenate([np.empty(0, np.int64), *self._texts])
        wanted = np.unique(owned)
        for problem, several in (
            ("belong to several chunks", len(owned) - len(wanted)),
            ("are missing", len(np.setdiff1d(wanted, stored))),
            ("belong to no chunk", len(np.setdiff1d(np.array(stored, np.int64), wanted))),
        ):
            if several:
                yield DamageFound("texts", f"{several} {problem}")
