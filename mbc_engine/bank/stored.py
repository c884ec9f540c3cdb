"""A bank as it is read: what it says of itself, its documents, and their codes, always of one state of the file."""

import os
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from operator import index
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.block import Block, Counts, Listing
from mbc_engine.bank.blocks import BlockTable
from mbc_engine.bank.codes import Codes, CodeTables, Indices, PackedBlock, Worths, located
from mbc_engine.bank.database import (
    bytes_at,
    closed_on_error,
    damaged,
    decoded,
    explained,
    identity,
    read_header,
    read_state,
    transaction,
    wal_of,
)
from mbc_engine.bank.records import (
    BankHeader,
    BankSizes,
    BankTotals,
    DocumentRecord,
    ModelSignature,
    Origin,
    StoredChunk,
    StoredDocument,
    StoredItem,
)
from mbc_engine.bank.selection import Selection
from mbc_engine.bank.text_codec import decode_chunk
from mbc_engine.errors import BankError, ModelMismatch
from mbc_engine.text import Chunk


class StoredBank:
    """What can be read of a `MemoryBank`, which see; a `ReadableBank`.

    Chunks have a stored order, that of `codes`, which any change may alter.
    """

    path: Path | None
    header: BankHeader
    is_weighted: Final = False  # without a selection, each of its documents counts once

    def __init__(self, connection: sqlite3.Connection, path: Path | None) -> None:
        self.path = path
        self._connection = connection
        with closed_on_error(connection), explained(self.name):
            self.header = read_header(connection, self.name)
            self._identity = identity(path) if path else None
            self._blocks = BlockTable(connection, self.header, self.name)
            self._version: int | None = None

    @property
    def name(self) -> str:
        """The path, or what stands for it in messages."""
        return str(self.path) if self.path else "The bank in memory"

    @property
    def keeps_text(self) -> bool:
        """Whether the exact text of every chunk is kept beside its codes."""
        return self.header.keeps_text

    def is_file(self, path: Path) -> bool:
        """Whether this is the bank's file, or one that SQLite keeps beside it."""
        if self.path is None:
            return False
        own = os.path.realpath(self.path)
        return os.path.realpath(path) in (own, f"{own}-wal", f"{own}-shm", f"{own}-journal")

    def require(self, signature: ModelSignature) -> None:
        """Make sure that this model wrote the bank.

        Raises:
            ModelMismatch: another one did.
        """
        own = self.header.signature
        if own != signature:
            raise ModelMismatch(
                f"{self.name} was written by model {own.name} ({own.fingerprint}), "
                f"not {signature.name} ({signature.fingerprint}).",
                hint="Name its model with --model, another bank with --bank, or rebuild it with `mbc bank reencode`.",
            )

    def knows(self, document: DocumentRecord) -> bool:
        """Whether adding the document would change nothing but its date."""
        (digest,) = self.header.shortened([document.digest])
        with self.snapshot():
            if not self.header.keeps_origins:
                return bool(self._blocks.find_digests([digest]))
            name = document.source, document.part
            return any(self._blocks.digest_at(at) == digest for at in self._blocks.find_origins([name]).values())

    def parts_of(self, source: str) -> set[str]:
        """The parts of a source that the bank holds; "" is the whole of it."""
        with self.snapshot():
            return set(self._blocks.find_source(source))

    def lookup(
        self, names: Collection[tuple[str, str]], digests: Collection[str] = ()
    ) -> list[tuple[StoredDocument, Codes]]:
        """The documents with these origins, given as source and part, or these digests, each once, with their codes."""
        return [(document, codes) for document, codes, _ in self._lookup(names, digests, with_texts=False)]

    def stored_lookup(self, names: Collection[tuple[str, str]], digests: Collection[str] = ()) -> list[StoredItem]:
        """As `lookup`, with the texts as `stored_items` has them."""
        return self._lookup(names, digests, with_texts=self.header.keeps_text)

    def document(self, source: str, part: str = "") -> tuple[StoredDocument, Codes] | None:
        """What was read from a part of a source, with its codes."""
        return next(iter(self.lookup([(source, part)])), None)

    def texts_of(self, digest: str) -> list[Chunk]:
        """The chunks of a document, by its digest; none where there is no such document.

        Raises:
            BankError: the bank keeps no text, or it is damaged.
        """
        self._require_text()
        with self.snapshot():
            for place in self._blocks.find_digests(set(self.header.shortened([digest]))).values():
                content = self._blocks.get(place.block)
                first, count = content.first_texts[place.row], content.lengths[place.row]
                return list(map(decode_chunk, self._blocks.text_rows(first, count)))
        return []

    def documents_like(self, digest: str) -> list[tuple[StoredDocument, Codes]]:
        """The documents whose digest begins so, or begins what is given, with their codes."""
        return [(found, codes) for found, codes in self.items() if digest.startswith(found.digest[: len(digest)])]

    def documents(self) -> Iterator[StoredDocument]:
        """All documents in stored order. The bank may be changed meanwhile, as in pruning."""
        return (document for listing in self.listings() for document in listing.documents())

    def listings(self) -> Iterator[Listing]:
        """All documents in stored order, some thousand at a time, column by column; codes are not read.

        The bank may be changed meanwhile.
        """
        with self.snapshot():
            blocks = self._blocks.numbers()
        for block in blocks:
            with self.snapshot():
                listing = self._blocks.listing(block)
            if listing is not None:
                yield listing

    def origins(self) -> Iterator[Origin]:
        """All origins, in no certain order; quicker than `documents`. The bank may be changed meanwhile."""
        return (origin for listing in self.listings() for several in listing.origins for origin in several)

    def items(self) -> Iterator[tuple[StoredDocument, Codes]]:
        """All documents in stored order with their codes. The bank may be changed meanwhile."""
        return ((document, codes) for document, codes, _ in self._stored_items(with_texts=False))

    def stored_items(self) -> Iterator[StoredItem]:
        """As `items`, with the texts as they are stored, which another bank may `add`; None in a bank without text.

        What `text_codec.decode_chunk` makes of each is a chunk; that it can has been checked.
        """
        return self._stored_items(with_texts=self.header.keeps_text)

    def totals(self) -> BankTotals:
        """How much the bank holds; takes no longer for a large bank than for a small one."""
        query = "SELECT coalesce(sum(documents), 0), coalesce(sum(origins), 0), coalesce(sum(chunks), 0) FROM blocks"
        row = self._row(query)
        with decoded(self.name):
            return BankTotals(*map(index, row))

    def sizes(self) -> BankSizes:
        """What the bank weighs, in bytes."""
        if self.path is None:
            file = self._row("PRAGMA page_count")[0] * self._row("PRAGMA page_size")[0]
        else:
            file = bytes_at(self.path) + bytes_at(wal_of(self.path))
        return BankSizes(
            codes=self._row("SELECT coalesce(sum(length(data)), 0) FROM codes")[0],
            texts=self._state()[1],
            codebook=self.header.codebook_bytes,
            file=file,
        )

    def counts(self) -> Counts:
        """How often each code occurs, [levels, positions, num_codes]; one read, whatever the bank's size."""
        with self.snapshot():
            return self._state()[0]

    def version(self) -> tuple[int, int]:
        """What is equal for as long as nobody has written to the bank, this process or another; takes microseconds.

        Ask before reading, and it is time to read again when the next one differs. See `is_replaced` too.
        """
        return int(self._row("PRAGMA data_version")[0]), self._connection.total_changes

    def is_replaced(self) -> bool:
        """Whether another bank, or none, stands at the path by now: what is read here is the old one until reopened.

        Raises:
            BankError: the path cannot be looked at.
        """
        if self.path is None:
            return False
        return identity(self.path) != self._identity or read_header(self._connection, self.name) != self.header

    def codes(self) -> Iterator[Codes]:
        """All codes, as `blocks` has them."""
        return (codes for codes, _ in self.blocks())

    def blocks(self) -> Iterator[tuple[Codes, NDArray[np.int64]]]:
        """All codes in stored order, some thousand chunks [chunks, tokens, levels] at a time, with documents' lengths.

        The bank as it was at the first is read to the end, whatever other processes write; this `MemoryBank` must not
        write meanwhile.
        """
        for block in self._packed():
            with decoded(self.name):
                yield block.codes(), block.lengths

    def sums(self, worths: Worths) -> Iterator[tuple[Worths, NDArray[np.int64]]]:
        """What the codes of chunks are worth together, some thousand chunks in stored order at a time, as `blocks`.

        Args:
            worths: what each code is worth to some questions, [questions, tokens, levels, num_codes].

        Yields:
            sums [questions, chunks], and the chunks of each document they belong to, [documents].
        """
        tables = CodeTables(self.header.shape, worths)
        for block in self._packed():
            with decoded(self.name):
                yield block.sums(tables), block.lengths

    def log_weights(self, selection: Selection) -> Iterator[NDArray[np.float64]]:
        """Logarithms of how much each chunk counts, as `Selection.log_weights`, block by block as `sums` has them.

        Raises:
            BankError: the bank keeps no origins, and has nothing to select by.
        """
        if not self.header.keeps_origins:
            raise BankError(
                f"{self.name} was made without sources: it knows no names or dates.",
                hint="Ask all of it, or make a bank with them.",
            )
        with self.snapshot():
            numbers = self._blocks.numbers()
            for number, lengths in zip(numbers, self._blocks.all_lengths(), strict=True):
                yield np.repeat(selection.log_weights(self._blocks.origins(number)), lengths)

    def codes_at(self, chunks: Sequence[int] | NDArray[np.integer[Any]]) -> Codes:
        """The codes of some chunks, by their index in stored order: [len(chunks), tokens, levels].

        Indices hold for the bank as it is: use one `snapshot` for all that belongs together.

        Raises:
            IndexError: there is no such chunk.
        """
        shape = self.header.shape
        result = np.empty((len(chunks), shape.tokens, shape.levels), np.uint16)
        with self.snapshot():
            for block, places, within in self._located(chunks):
                result[places] = self._blocks.codes_at(block, within)
        return result

    def texts_at(self, chunks: Sequence[int] | NDArray[np.integer[Any]]) -> list[Chunk]:
        """The exact texts of some chunks, by their index in stored order; otherwise as `codes_at`.

        Raises:
            BankError: the bank keeps no text, or it is damaged.
            IndexError: there is no such chunk.
        """
        self._require_text()
        result: dict[int, Chunk] = {}
        with self.snapshot():
            for block, places, within in self._located(chunks):
                numbers = self._blocks.text_numbers_at(block, within)
                texts = (decode_chunk(self._blocks.text_rows(number, 1)[0]) for number in numbers)
                result |= zip(places.tolist(), texts, strict=True)
        return [result[place] for place in range(len(result))]

    def chunks_at(self, chunks: Sequence[int] | NDArray[np.integer[Any]]) -> list[StoredChunk]:
        """Where chunks came from, by their index in stored order; otherwise as `codes_at`."""
        result: dict[int, StoredChunk] = {}
        with self.snapshot():
            for block, places, within in self._located(chunks):
                content = self._blocks.listing(block)
                if content is None:
                    raise damaged(self.name)
                ends = np.cumsum(content.lengths)
                rows = np.searchsorted(ends, within, side="right")
                ordinals = within - (ends[rows] - np.array(content.lengths)[rows])
                for place, row, ordinal in zip(places.tolist(), rows.tolist(), ordinals.tolist(), strict=True):
                    result[place] = StoredChunk(content.document(row), ordinal, self.name)
        return [result[place] for place in range(len(result))]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Inside, every read sees the bank as it was at the first one; this `MemoryBank` must not write meanwhile."""
        with explained(self.name):
            if self._connection.in_transaction:
                yield
                return
            with transaction(self._connection, "DEFERRED"):
                self._refresh()
                yield

    def close(self) -> None:
        """Close the file. The last to close it merges the log of changes into it."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _refresh(self) -> None:
        """Forget what another process has changed since."""
        version = self._row("PRAGMA data_version")[0]
        if version == self._version:
            return
        self._blocks.forget()
        if read_header(self._connection, self.name) != self.header:
            raise BankError(f"{self.name} was replaced by another bank.", hint="Open it again.")
        self._version = version

    def _lookup(
        self, names: Collection[tuple[str, str]], digests: Collection[str], *, with_texts: bool
    ) -> list[StoredItem]:
        rows: defaultdict[int, set[int]] = defaultdict(set)
        with self.snapshot():
            by_digest = self._blocks.find_digests(set(self.header.shortened(digests)))
            for place in (*self._blocks.find_origins(names).values(), *by_digest.values()):
                rows[place.block].add(place.row)
            blocks = ((self._blocks.get(block), sorted(rows[block])) for block in sorted(rows))
            return [item for content, own in blocks for item in self._items_of(content, own, with_texts)]

    def _require_text(self) -> None:
        if not self.header.keeps_text:
            raise BankError(
                f"{self.name} does not keep the text of its documents.",
                hint="Ingest them into a new bank, with a model that keeps text.",
            )

    def _state(self) -> tuple[Counts, int]:
        with explained(self.name):
            return read_state(self._connection, self.header, self.name)

    def _stored_items(self, *, with_texts: bool) -> Iterator[StoredItem]:
        with self.snapshot():
            blocks = self._blocks.numbers()
        for block in blocks:
            with self.snapshot():
                content = self._blocks.find(block)
                items = list(self._items_of(content, range(len(content)), with_texts)) if content else []
            yield from items

    def _items_of(self, content: Block, rows: Sequence[int], with_texts: bool) -> Iterator[StoredItem]:
        for row, (document, codes) in zip(rows, content.items(rows), strict=True):
            texts = self._blocks.text_rows(content.first_texts[row], document.chunks) if with_texts else None
            yield document, codes, texts

    def _row(self, query: str) -> Any:
        with explained(self.name):
            row = self._connection.execute(query).fetchone()
        if row is None:
            raise damaged(self.name)
        return row

    def _packed(self) -> Iterator[PackedBlock]:
        with self.snapshot():
            yield from self._blocks.all_packed()

    def _located(self, chunks: Sequence[int] | NDArray[np.integer[Any]]) -> Iterator[tuple[int, Indices, Indices]]:
        """Each block that holds some of the chunks, the places of these in `chunks`, and their indices in the block."""
        extents = self._blocks.extents()
        for row, places, within in located(chunks, extents[:, 1]):
            yield int(extents[row, 0]), places, within
