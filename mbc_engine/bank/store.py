"""The memory bank as one SQLite file in WAL mode: a row a document, its packed codes in it, and the running counts.

Every change is one transaction, so a process killed at any moment leaves the bank as it was before or after. Readers in
other processes go on beside one writer.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.counts import Counts, count
from mbc_engine.bank.database import (
    bytes_at,
    closed_on_error,
    connect,
    damaged,
    decoded,
    explained,
    refuse_folder,
    refuse_foreign,
    transaction,
    wal_of,
)
from mbc_engine.bank.format import Codes, CodeShape, check, pack, unpack
from mbc_engine.bank.records import BankHeader, BankSizes, ChunkSource, DocumentRecord, ModelSignature, StoredDocument
from mbc_engine.errors import BankError, ModelMismatch

_APPLICATION_ID: Final = int.from_bytes(b"mbc\0", "big")
_FORMAT_VERSION: Final = 1

_TABLES: Final = (
    """
    CREATE TABLE bank (
        model TEXT NOT NULL, amortizer TEXT NOT NULL, codebook TEXT NOT NULL,
        tokens INTEGER NOT NULL, levels INTEGER NOT NULL, num_codes INTEGER NOT NULL, per_position INTEGER NOT NULL,
        dim INTEGER NOT NULL, created TEXT NOT NULL,
        counts BLOB NOT NULL  -- little-endian int64 [levels, positions, num_codes]
    )""",
    """
    CREATE TABLE documents (
        id INTEGER PRIMARY KEY, source TEXT NOT NULL UNIQUE, digest TEXT NOT NULL, size INTEGER NOT NULL, date TEXT,
        chunks INTEGER NOT NULL, codes BLOB NOT NULL
    )""",
)


class MemoryBank:
    """The codes of every document (paper, section 3.2), with where they came from and how often each code occurs.

    Chunks have a stored order: documents in the order they were first added, a replaced one in its old place. A bank
    may pass from thread to thread but serves one at a time. Use it as a context manager, or `close` it.
    """

    path: Path | None
    header: BankHeader

    def __init__(self, connection: sqlite3.Connection, path: Path | None) -> None:
        """Not for callers: use `create`, `open`, `open_or_create` or `in_memory`."""
        self.path = path
        self._connection = connection
        self._chunk_ends: tuple[object, NDArray[np.int64], NDArray[np.int64]] | None = None
        with explained(self.name):
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")  # a removed document leaves no byte behind
            self.header = self._read_header()

    @classmethod
    def create(cls, path: Path, signature: ModelSignature, shape: CodeShape, dim: int) -> Self:
        """Make a new, empty bank, and the folder it lies in.

        Args:
            path: a file that does not exist yet, or an empty one.
            signature: the model that will write the bank.
            shape: the shape of its codes.
            dim: the width of a codebook vector (D in the paper).

        Raises:
            BankError: something stands at `path` already, or nothing can be written there.
        """
        refuse_folder(path)
        # An empty file is what is left of a bank whose making was interrupted.
        if bytes_at(path):
            raise _exists(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BankError(
                f"The folder {path.parent} cannot be made.", hint="Check the permissions, or name another place."
            ) from error
        connection = connect(path, create=True)
        with closed_on_error(connection), explained(str(path)):
            # The first transaction is written without WAL, so that the file itself says from then on what it is.
            with transaction(connection, "IMMEDIATE"):
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise _exists(path)
                _write_schema(connection, signature, shape, dim)
            connection.execute("PRAGMA journal_mode = WAL")
            return cls(connection, path)

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> Self:
        """Open a bank.

        Raises:
            BankError: there is none, it is something else (which stays untouched), it is damaged, or a newer version
                wrote it.
        """
        refuse_folder(path)
        if not bytes_at(path):
            raise BankError(f"No bank at {path}.", hint=f"Make one with `mbc ingest FOLDER --bank {path}`.")
        refuse_foreign(path, _APPLICATION_ID)
        connection = connect(path, read_only=read_only)
        with closed_on_error(connection), explained(str(path)):
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > _FORMAT_VERSION:
                raise BankError(
                    f"{path} was written by a newer mbc (bank format {version}; this one reads {_FORMAT_VERSION}).",
                    hint="Update mbc.",
                )
            if not read_only:
                connection.execute("PRAGMA journal_mode = WAL")  # stays on; said again in case `create` was interrupted
            return cls(connection, path)

    @classmethod
    def open_or_create(cls, path: Path, signature: ModelSignature, shape: CodeShape, dim: int) -> Self:
        """Open the bank at `path` for this model, or make it.

        Raises:
            BankError: as `open` and `create`.
            ModelMismatch: the bank belongs to another model.
        """
        if not bytes_at(path):
            return cls.create(path, signature, shape, dim)
        bank = cls.open(path)
        with closed_on_error(bank._connection):
            bank.require(signature)
        return bank

    @classmethod
    def in_memory(cls, signature: ModelSignature, shape: CodeShape, dim: int) -> Self:
        """An empty bank that goes when it is closed."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        with transaction(connection, "IMMEDIATE"):
            _write_schema(connection, signature, shape, dim)
        return cls(connection, None)

    @property
    def name(self) -> str:
        """The path, or what stands for it in messages."""
        return str(self.path) if self.path else "The bank in memory"

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
                hint="Name its model with --model, or another bank with --bank.",
            )

    def add(self, items: Sequence[tuple[DocumentRecord, NDArray[np.integer[Any]]]]) -> None:
        """Add documents with their codes [chunks, tokens, levels]; all or, on any error, none.

        A document whose source the bank knows takes the place of the old one.

        Raises:
            BankError: the bank cannot be written.
            ValueError: codes do not fit the bank's shape.
        """
        shape = self.header.shape
        checked = [(document, check(codes, shape)) for document, codes in items]
        if not checked:
            return
        with self._writing():
            removed = [old for document, codes in checked if (old := self._replace(document, codes)) is not None]
            self._change_counts([codes for _, codes in checked], removed)

    def remove(self, source: str) -> bool:
        """Remove a document; False when the bank does not know it.

        Raises:
            BankError: the bank cannot be written.
        """
        with self._writing():
            removed = self._codes_of(source)
            if removed is None:
                return False
            self._connection.execute("DELETE FROM documents WHERE source = ?", (source,))
            self._change_counts([], [removed])
            return True

    def digest_of(self, source: str) -> str | None:
        """The digest a document was stored with, or None when the bank does not know it."""
        row = self._row("SELECT digest FROM documents WHERE source = ?", source)
        return str(row[0]) if row else None

    def documents(self) -> Iterator[StoredDocument]:
        """All documents in stored order. The bank may be changed meanwhile, as in pruning."""
        last = 0
        query = "SELECT id, source, digest, size, date, chunks FROM documents WHERE id > ? ORDER BY id LIMIT 1000"
        while True:
            with explained(self.name):
                rows = self._connection.execute(query, (last,)).fetchall()
            if not rows:
                return
            for row in rows:
                yield StoredDocument(*row[1:])
            last = rows[-1][0]

    @property
    def num_documents(self) -> int:
        """How many documents the bank holds."""
        return self._number("SELECT count(*) FROM documents")

    @property
    def num_chunks(self) -> int:
        """How many chunks the bank holds."""
        return self._number("SELECT coalesce(sum(chunks), 0) FROM documents")

    def sizes(self) -> BankSizes:
        """What the bank weighs, in bytes."""
        shape = self.header.shape
        if self.path is None:
            file = self._number("PRAGMA page_count") * self._number("PRAGMA page_size")
        else:
            file = bytes_at(self.path) + bytes_at(wal_of(self.path))
        return BankSizes(
            codes=self._number("SELECT coalesce(sum(length(codes)), 0) FROM documents"),
            codebook=shape.levels * shape.positions * shape.num_codes * self.header.dim * 4,
            file=file,
        )

    def counts(self) -> Counts:
        """How often each code occurs, [levels, positions, num_codes]; one read, whatever the bank's size."""
        shape = self.header.shape
        row = self._row("SELECT counts FROM bank")
        with decoded(self.name):
            return np.frombuffer(row[0], "<i8").astype(np.int64).reshape(shape.levels, shape.positions, shape.num_codes)

    def blocks(self, size: int = 65_536) -> Iterator[Codes]:
        """All codes in stored order, in blocks [size, tokens, levels] of which only the last may be smaller.

        The bank as it was at the first block is read to the end, whatever other processes write; this `MemoryBank`
        must not write meanwhile.
        """
        shape = self.header.shape
        left = np.empty((0, shape.tokens, shape.levels), np.uint16)
        held, chunks, packed = 0, list[int](), list[bytes]()
        with explained(self.name):
            for number, data in self._connection.execute("SELECT chunks, codes FROM documents ORDER BY id"):
                held += number
                chunks.append(number)
                packed.append(data)
                if held >= size:
                    codes = np.concatenate([left, self._unpack(b"".join(packed), chunks)])
                    whole = held - held % size
                    yield from np.split(codes[:whole], whole // size)
                    left, held, chunks, packed = codes[whole:], held - whole, [], []
        if held:
            yield np.concatenate([left, self._unpack(b"".join(packed), chunks)])

    def sources(self, chunk_indices: Sequence[int] | NDArray[np.integer[Any]]) -> list[ChunkSource]:
        """Where chunks came from, by their index in stored order (the order of `blocks`).

        Indices hold for the bank as it is: read codes and sources inside one `snapshot` where others may write.

        Raises:
            IndexError: there is no such chunk.
        """
        wanted = np.asarray(chunk_indices, dtype=np.int64)
        with self.snapshot():
            ids, ends = self._ends_of_documents()
            total = int(ends[-1]) if len(ends) else 0
            if wanted.size and (wanted.min() < 0 or wanted.max() >= total):
                raise IndexError(f"chunk indices must be in [0, {total}), not in [{wanted.min()}, {wanted.max()}]")
            places = np.searchsorted(ends, wanted, side="right")
            starts = np.concatenate([[0], ends])[places]
            query = "SELECT source, digest, date FROM documents WHERE id = ?"
            rows = {place: self._row(query, int(ids[place])) for place in set(places.tolist())}
        return [
            ChunkSource(source=rows[place][0], digest=rows[place][1], ordinal=ordinal, date=rows[place][2])
            for place, ordinal in zip(places.tolist(), (wanted - starts).tolist(), strict=True)
        ]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Inside, every read sees the bank as it was at the first one; this `MemoryBank` must not write meanwhile."""
        if self._connection.in_transaction:
            yield
        else:
            with transaction(self._connection, "DEFERRED"):
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

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self._connection.in_transaction:
            raise RuntimeError("a bank cannot be changed inside its own snapshot")
        with explained(self.name), transaction(self._connection, "IMMEDIATE"):
            yield

    def _row(self, query: str, *values: object) -> Any:
        with explained(self.name):
            return self._connection.execute(query, values).fetchone()

    def _number(self, query: str) -> int:
        return int(self._row(query)[0])

    def _read_header(self) -> BankHeader:
        row = self._row(
            "SELECT model, amortizer, codebook, tokens, levels, num_codes, per_position, dim, created FROM bank"
        )
        if row is None:
            raise damaged(self.name)
        model, amortizer, codebook, tokens, levels, num_codes, per_position, dim, created = row
        with decoded(self.name):
            shape = CodeShape(tokens, levels, num_codes, bool(per_position))
        return BankHeader(ModelSignature(model, amortizer, codebook), shape, dim, created)

    def _codes_of(self, source: str) -> Codes | None:
        row = self._row("SELECT codes, chunks FROM documents WHERE source = ?", source)
        return self._unpack(row[0], row[1]) if row else None

    def _unpack(self, data: bytes, chunks: int | list[int]) -> Codes:
        with decoded(self.name):
            return unpack(data, self.header.shape, chunks)

    def _replace(self, document: DocumentRecord, codes: Codes) -> Codes | None:
        """Store a document; returns the codes it had before, if any."""
        old = self._codes_of(document.source)
        self._connection.execute(
            "INSERT INTO documents (source, digest, size, date, chunks, codes) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (source) DO UPDATE SET digest = excluded.digest, size = excluded.size, "
            "date = excluded.date, chunks = excluded.chunks, codes = excluded.codes",
            (
                document.source,
                document.digest,
                document.size,
                document.date,
                len(codes),
                pack(codes, self.header.shape),
            ),
        )
        return old

    def _change_counts(self, added: list[Codes], removed: list[Codes]) -> None:
        shape = self.header.shape
        counts = self.counts()
        if added:
            counts += count(np.concatenate(added), shape)
        if removed:
            counts -= count(np.concatenate(removed), shape)
        self._connection.execute("UPDATE bank SET counts = ?", (counts.astype("<i8").tobytes(),))

    def _ends_of_documents(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row ids in stored order and, for each, the index after its last chunk; read anew after a change."""
        version = (self._number("PRAGMA data_version"), self._connection.total_changes)
        if self._chunk_ends is None or self._chunk_ends[0] != version:
            rows = self._connection.execute("SELECT id, chunks FROM documents ORDER BY id").fetchall()
            table = np.array(rows, dtype=np.int64).reshape(-1, 2)
            self._chunk_ends = (version, table[:, 0], np.cumsum(table[:, 1]))
        return self._chunk_ends[1], self._chunk_ends[2]


def _write_schema(connection: sqlite3.Connection, signature: ModelSignature, shape: CodeShape, dim: int) -> None:
    for table in _TABLES:
        connection.execute(table)
    counts = bytes(8 * shape.levels * shape.positions * shape.num_codes)
    connection.execute(
        "INSERT INTO bank VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            signature.name,
            signature.amortizer,
            signature.codebook,
            shape.tokens,
            shape.levels,
            shape.num_codes,
            shape.per_position,
            dim,
            datetime.now(UTC).isoformat(timespec="seconds"),
            counts,
        ),
    )
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {_FORMAT_VERSION}")


def _exists(path: Path) -> BankError:
    return BankError(f"There is already a file at {path}.", hint="Name another file, or open this one.")
