"""A bank's SQLite file: opening and creating it, its tables and header, and readable messages for SQLite's errors.

docs/bank-format.md specifies the tables to the byte.
"""

import json
import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from mbc_engine.atomic_write import PRIVATE_FILE, make_private_folder
from mbc_engine.bank.block import checksum, read_counts, write_counts
from mbc_engine.bank.records import BankHeader, BlockTotals, CodeShape, Counts, ModelSignature, TextState
from mbc_engine.errors import BankBusy, BankDamaged, BankError

_BUSY_SECONDS: Final = 10
_IMMUTABLE: Final = "ro&immutable=1"  # a mode in which nothing is written beside a file
_ERRORS: Final = {
    sqlite3.SQLITE_BUSY: ("is being written by another process.", "Try again when that has finished."),
    sqlite3.SQLITE_READONLY: ("cannot be written.", "Check the permissions of the file and its folder."),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened.", "Check the permissions of the file and its folder."),
    sqlite3.SQLITE_FULL: ("cannot grow: the disk is full.", "Free some space and try again; nothing stored was lost."),
    sqlite3.SQLITE_IOERR: (
        "cannot be read or written: the disk reports an error.",
        "Free some space if the disk is full; otherwise check the disk itself.",
    ),
}
_SIGNS_OF_DAMAGE: Final = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT,
}

# What reading invalid values may raise; `wrap_invalid_data` turns it into a BankError.
INVALID_DATA_ERRORS: Final = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
    MemoryError,
)


def connect(path: Path, *, read_only: bool = False, create: bool = False) -> sqlite3.Connection:
    """Open an existing database, or with `create` also a new one; waits up to 10 s for another writer."""
    mode = "rwc" if create else "rw"
    wal = wal_of(path)
    # Open writable if possible, even to read: only then does SQLite remove its files beside the bank.
    if read_only and not (os.access(path, os.W_OK) and os.access(wal.parent, os.W_OK)):
        # In a read-only folder, SQLite reads a WAL database only as immutable.
        mode = "ro" if os.access(wal.parent, os.W_OK) or wal.exists() else _IMMUTABLE
    with wrap_sqlite_errors(str(path)):
        connection = _opened(path, mode)
        if not read_only:
            return connection
        try:
            connection.execute("PRAGMA schema_version")  # reads the file
        except sqlite3.OperationalError as error:
            is_full = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
            if not is_full or bytes_at(wal):
                connection.close()
                raise
            connection.close()
            connection = _opened(path, _IMMUTABLE)  # no room for SQLite's files beside the bank
        connection.execute("PRAGMA query_only = ON")
        return connection


class ImmutableConnection(sqlite3.Connection):
    """Sees no change of its file, which has to be opened again."""


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=ImmutableConnection if mode == _IMMUTABLE else sqlite3.Connection,
    )


def use_log(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging (WAL), so that readers can continue beside a writer."""
    # The first switch needs an exclusive lock, the only one that SQLite's busy timeout does not cover.
    end = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(0.01)


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    """Commits, or rolls back on any error; `kind` is IMMEDIATE to write, DEFERRED to read a consistent state."""
    connection.execute(f"BEGIN {kind}")
    with connection:
        yield


def checkpoint(connection: sqlite3.Connection) -> None:
    """Merge the log into the file and truncate it, waiting up to half a second for readers."""
    connection.execute("PRAGMA busy_timeout = 500")
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(1000 * _BUSY_SECONDS)}")


@contextmanager
def closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    """Close the connection on any error."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


@contextmanager
def wrap_sqlite_errors(name: str) -> Iterator[None]:
    """Turn SQLite's errors about the file `name` into a BankError; programming errors pass through."""
    try:
        yield
    except sqlite3.Error as error:
        # The error for text that is not UTF-8 has no code.
        unknown = sqlite3.SQLITE_CORRUPT if isinstance(error, sqlite3.OperationalError) else 0
        code = getattr(error, "sqlite_errorcode", unknown) & 0xFF
        if code in _SIGNS_OF_DAMAGE:
            raise damaged(name) from error
        if code not in _ERRORS:
            raise
        what, hint = _ERRORS[code]
        kind = BankBusy if code == sqlite3.SQLITE_BUSY else BankError
        raise kind(f"{name} {what}", hint=hint) from error


@contextmanager
def wrap_invalid_data(name: str) -> Iterator[None]:
    """Turn errors from invalid stored values into a BankError: the file is damaged."""
    try:
        yield
    except INVALID_DATA_ERRORS as error:
        raise damaged(name) from error


def damaged(name: str, places: int | None = None) -> BankDamaged:
    """The error for a bank with invalid content, perhaps counted."""
    where = "" if places is None else f" in {places:,} {'place' if places == 1 else 'places'}"
    return BankDamaged(
        f"{name} is damaged{where}.", hint="Restore it from a backup, or ingest the documents again into another bank."
    )


def bytes_at(path: Path) -> int:
    """The size of a file, 0 if there is none. Raises BankError if it cannot be accessed or is a folder."""
    status = _status(path)
    if status and stat.S_ISDIR(status.st_mode):
        raise BankError(f"{path} is a folder, not a bank.", hint="Name a file, such as memory.mbc.")
    return status.st_size if status else 0


def identity(path: Path, connection: sqlite3.Connection | None = None) -> tuple[int, ...] | None:
    """Device and inode of the file at a path, which change if it is replaced; None if there is none.

    For a connection that sees no changes, also what changes with its content.
    """
    status = _status(path)
    if status is None or not isinstance(connection, ImmutableConnection):
        return (status.st_dev, status.st_ino) if status else None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, bytes_at(wal_of(path))


def wal_of(path: Path) -> Path:
    """SQLite's log of changes not yet merged into the file; beside the file itself if the path is a link."""
    return Path(os.path.realpath(path) + "-wal")


def beside(path: Path, what: Literal["reencoding", "removed", "removed.new", "removed.old"]) -> Path:
    """A bank beside a bank: what its re-encoding fills, or what was removed last, for an undo, the next and the one before.

    A removal replaces the last undo by the next as it is committed.
    """
    return path.with_name(f"{path.name}.{what}")


def end_undo(path: Path) -> None:
    """Delete what removals from a bank keep for an undo, and what interrupted ones have left."""
    for file in (beside(path, "removed"), beside(path, "removed.new"), beside(path, "removed.old")):
        delete(file)


@contextmanager
def ending_undo(path: Path) -> Iterator[None]:
    """While a removal is committed, its undo takes the place of the last one's, which comes back on any error."""
    kept, new, old = beside(path, "removed"), beside(path, "removed.new"), beside(path, "removed.old")
    if kept.exists():
        kept.replace(old)
    try:
        if new.exists():
            new.replace(kept)
        yield
    except BaseException:
        delete(kept)
        delete(new)
        if old.exists():
            old.replace(kept)
        raise
    delete(old)


def files_of(path: Path) -> list[Path]:
    """The files that may hold a bank's content: itself, its log, and the banks beside it, such as a copy for an undo."""
    return [
        file
        for bank in {Path(os.path.realpath(path)), path.absolute()}
        for file in sorted(bank.parent.iterdir())
        if (file == bank or file.name.startswith((f"{bank.name}.", f"{bank.name}-wal"))) and file.is_file()
        if bytes_at(file)
    ]


def delete(path: Path) -> None:
    """Delete a database that no process has open, and files that an interrupted one may have left beside it."""
    real = os.path.realpath(path)
    for end in ("", "-wal", "-shm"):
        Path(real + end).unlink(missing_ok=True)


def _refuse_foreign(path: Path) -> None:
    """Raises BankError if the file is not a bank. Reads only its first page, as opening a foreign one could change it.

    SQLite does the reading: if this process opened and closed the file itself, POSIX would drop the locks of all its
    connections to it, and the next process to close the bank would delete the log they are using.
    """
    with wrap_sqlite_errors(str(path)), closing(_opened(path, _IMMUTABLE)) as connection:
        try:
            is_bank = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        except sqlite3.DatabaseError as error:
            # It may look malformed only because another process is writing; the actual opening will tell.
            is_bank = error.sqlite_errorcode == sqlite3.SQLITE_CORRUPT
            if not is_bank and error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
                raise
    if not is_bank:
        raise BankError(f"{path} is not a bank.", hint="Name a file that `mbc ingest` made.")


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BankError(f"{path} cannot be read.", hint="Check the path and its permissions.") from error


APPLICATION_ID: Final = int.from_bytes(b"mbc\0", "big")
FORMAT_VERSION: Final = 7

_READ_HEADER: Final = """SELECT
    model, amortizer, codebook, tokens, levels, num_codes, per_position, dim, keeps_origins, keeps_text, context_tokens,
    created, crc FROM bank"""
_TOTALS: Final = "blocks", "documents", "origins", "chunks"
_STATE: Final = "counts", *_TOTALS, "text_bytes", "lm", "lm_texts", "lm_bytes", "lm_offered", "state_crc"
TABLES: Final = {
    "bank": """CREATE TABLE bank (
        model TEXT NOT NULL, amortizer TEXT NOT NULL, codebook TEXT NOT NULL,
        tokens INTEGER NOT NULL, levels INTEGER NOT NULL, num_codes INTEGER NOT NULL, per_position INTEGER NOT NULL,
        dim INTEGER NOT NULL, keeps_origins INTEGER NOT NULL, keeps_text INTEGER NOT NULL,
        context_tokens INTEGER NOT NULL, created TEXT NOT NULL, crc INTEGER NOT NULL, counts BLOB NOT NULL,
        blocks INTEGER NOT NULL, documents INTEGER NOT NULL, origins INTEGER NOT NULL, chunks INTEGER NOT NULL,
        text_bytes INTEGER NOT NULL, lm TEXT NOT NULL,
        lm_texts INTEGER NOT NULL, lm_bytes INTEGER NOT NULL, lm_offered INTEGER NOT NULL,
        state_crc INTEGER NOT NULL)""",
    "blocks": """CREATE TABLE blocks (
        id INTEGER PRIMARY KEY, documents INTEGER NOT NULL, origins INTEGER NOT NULL, chunks INTEGER NOT NULL,
        crc INTEGER NOT NULL, keys BLOB NOT NULL, digests BLOB NOT NULL, lengths BLOB NOT NULL,
        described BLOB NOT NULL, texts BLOB NOT NULL, outlines BLOB NOT NULL)""",
    "codes": "CREATE TABLE codes (id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, data BLOB NOT NULL)",
    "words": "CREATE TABLE words (id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, data BLOB NOT NULL)",
    "texts": """CREATE TABLE texts (
        id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, columns BLOB NOT NULL, data BLOB NOT NULL)""",
}


def open_file(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Connect to a bank of any version. Raises BankError if there is none, or it is not a bank (left untouched)."""
    if not bytes_at(path):
        raise _no_bank(path)
    _refuse_foreign(path)
    connection = connect(path, read_only=read_only)
    with closed_on_error(connection), wrap_sqlite_errors(str(path)), wrap_invalid_data(str(path)):
        # Reading rolls back an interrupted creation of the bank.
        if not connection.execute("PRAGMA page_count").fetchone()[0]:
            raise _no_bank(path)
    return connection


def write_schema(connection: sqlite3.Connection, header: BankHeader) -> None:
    """Create the tables of an empty bank, in the caller's transaction."""
    for statement in TABLES.values():
        connection.execute(statement)
    counts = np.zeros((header.shape.levels, header.shape.positions, header.shape.num_codes), np.int64)
    insert_bank(connection, header, write_counts(counts), (0, 0, 0, 0), TextState())
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


def insert_bank(
    connection: sqlite3.Connection, header: BankHeader, counts: bytes, totals: BlockTotals, texts: TextState
) -> None:
    """Write the row of the table `bank`; counts as `write_counts` gives them."""
    keeps = int(header.keeps_origins), int(header.keeps_text), header.context_tokens
    values = (*astuple(header.signature), *map(int, astuple(header.shape)), header.dim, *keeps, header.created)
    state: tuple[int | str, ...] = (*totals, *texts)
    row = (*values, header_checksum(values), counts, *state, state_checksum(counts, state))
    connection.execute(f"INSERT INTO bank VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 - only question marks


def format_version(connection: sqlite3.Connection, name: str) -> int:
    """The version of a bank's format. Raises BankError if it has none."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version <= 0:
        raise damaged(name)
    return version


def require_format(connection: sqlite3.Connection, name: str) -> None:
    """Raises BankError unless the bank has this version's format."""
    version = format_version(connection, name)
    if version != FORMAT_VERSION:
        formats = f"(bank format {version}; this one reads {FORMAT_VERSION})"
        if version > FORMAT_VERSION:
            raise BankError(f"{name} was written by a newer mbc {formats}.", hint="Update mbc.")
        hint = "Ingest its files again, into a new bank."
        raise BankError(f"{name} was written by an older mbc {formats}.", hint=hint)
    require_tables(connection, TABLES, name)


def require_tables(connection: sqlite3.Connection, tables: Mapping[str, str], name: str) -> None:
    """Raises BankError unless the schema is exactly this: a trigger or a view could run anything."""
    with wrap_invalid_data(name):  # SQLite's message quotes the malformed bytes, which may not be UTF-8
        schema = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
    if len(schema) != len(tables) or dict(schema) != tables:  # a trigger may have the name of a table
        raise damaged(name)


def read_header(connection: sqlite3.Connection, name: str) -> BankHeader:
    """Read the bank's header."""
    rows: Any = connection.execute(f"{_READ_HEADER} LIMIT 2").fetchall()
    with wrap_invalid_data(name):
        ((*values, crc),) = rows
        if crc != header_checksum(values):
            raise ValueError("the header's checksum does not match")
        return parse_header(values)


def parse_header(values: Sequence[Any]) -> BankHeader:
    """The header from its values in the order of the table. Raises ValueError or TypeError if they are invalid."""
    name, amortizer, codebook, tokens, levels, codes, per_position, dim, origins, text, context_tokens, created = values
    shape, signature = CodeShape(tokens, levels, codes, bool(per_position)), ModelSignature(name, amortizer, codebook)
    return BankHeader(signature, shape, dim, bool(origins), bool(text), context_tokens, created)


def read_state(connection: sqlite3.Connection, header: BankHeader, name: str) -> tuple[Counts, TextState]:
    """How often each code occurs, and the totals of all texts."""
    row: Any = connection.execute(f"SELECT {', '.join(_STATE)} FROM bank").fetchone()  # noqa: S608 - constant names
    with wrap_invalid_data(name):
        counts, *state, crc = row
        if crc != state_checksum(counts, state):
            raise ValueError("the checksum of the counts does not match")
        return read_counts(counts, header.shape), TextState(*state[len(_TOTALS) :])


def read_totals(connection: sqlite3.Connection, name: str) -> BlockTotals:
    """What all blocks hold together, as recorded beside the counts."""
    row: Any = connection.execute(f"SELECT {', '.join(_TOTALS)} FROM bank").fetchone()  # noqa: S608 - constant names
    with wrap_invalid_data(name):
        return tuple(row)


def write_state(connection: sqlite3.Connection, counts: Counts, totals: BlockTotals, texts: TextState) -> None:
    """The inverse of `read_state` and `read_totals`."""
    state: tuple[int | str, ...] = (*totals, *texts)
    data = write_counts(counts)
    query = f"UPDATE bank SET {' = ?, '.join(_STATE)} = ?"  # noqa: S608 - constant names
    connection.execute(query, (data, *state, state_checksum(data, state)))


def state_checksum(counts: bytes, state: Sequence[int | str]) -> int:
    """CRC-32 of the counts as stored, then of the totals of blocks and texts as a JSON array without spaces."""
    return checksum(counts, _json(state))


def _no_bank(path: Path) -> BankError:
    return BankError(f"No bank at {path}.", hint=f"Make one with `mbc ingest FOLDER --bank {path}`.")


def header_checksum(values: Sequence[str | int]) -> int:
    """CRC-32 of the header as a JSON array without spaces."""
    return checksum(_json(values))


def _json(values: Sequence[str | int]) -> bytes:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()


def make_file(path: Path, header: BankHeader) -> sqlite3.Connection:
    """Create an empty bank file, and its folder. Raises BankError if the path is taken or cannot be written."""
    exists = BankError(f"There is already a file at {path}.", hint="Name another file, or open this one.")
    if bytes_at(path):  # an empty file is left by an interrupted creation
        raise exists
    try:
        make_private_folder(path.parent)
    except OSError as error:
        hint = "Check the permissions, or name another place."
        raise BankError(f"The folder {path.parent} cannot be created.", hint=hint) from error
    with suppress(OSError):  # SQLite will report it
        path.touch(PRIVATE_FILE)  # SQLite's files beside it get the same permissions
    connection = connect(path, create=True)
    with closed_on_error(connection), wrap_sqlite_errors(str(path)):
        # The first transaction is written without WAL, so that the file itself is a bank from then on.
        with transaction(connection, "DEFERRED"):
            # Returns unused pages to the disk. Has to come first, and writes: outside the transaction, it would leave
            # a database that is not a bank yet.
            connection.execute("PRAGMA auto_vacuum = FULL")
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise exists
            write_schema(connection, header)
        use_log(connection)
    return connection


def make_in_memory(header: BankHeader) -> sqlite3.Connection:
    """Create an empty bank that is discarded when closed."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    with transaction(connection, "IMMEDIATE"):
        write_schema(connection, header)
    return connection
