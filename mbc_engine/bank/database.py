"""One SQLite file as a bank uses it: opening, transactions, and what SQLite reports in a person's words."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mbc_engine.errors import BankError

_BUSY_SECONDS: Final = 10.0
_ERRORS: Final = {
    sqlite3.SQLITE_BUSY: ("is being written by another process.", "Try again when that has finished."),
    sqlite3.SQLITE_READONLY: ("cannot be written.", "Check the permissions of the file and its folder."),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened.", "Check the permissions of the file and its folder."),
    sqlite3.SQLITE_FULL: ("cannot grow, the disk is full.", "Make room and try again; nothing stored was lost."),
    sqlite3.SQLITE_IOERR: ("cannot be read or written, the disk reports an error.", "Check the disk."),
}
_SIGNS_OF_DAMAGE: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}


def connect(path: Path, *, read_only: bool = False, create: bool = False) -> sqlite3.Connection:
    """Open a database that exists, or with `create` one that may not; waits up to 10 s for another writer.

    Raises:
        BankError: the file cannot be opened.
    """
    mode = "ro" if read_only else "rwc" if create else "rw"
    if read_only and not os.access(path.parent, os.W_OK) and not wal_of(path).exists():
        mode += "&immutable=1"  # where no file can be put beside it, SQLite reads a WAL database only so
    with explained(str(path)):
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    """All or nothing; `kind` is IMMEDIATE to write, DEFERRED to read one state of the database."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


@contextmanager
def closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    """Close the connection if the block does not succeed."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn what SQLite reports about the file `name` into a BankError; mistakes of the program stay as they are."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _SIGNS_OF_DAMAGE:
            raise damaged(name) from error
        if code not in _ERRORS:
            raise
        what, hint = _ERRORS[code]
        raise BankError(f"{name} {what}", hint=hint) from error


@contextmanager
def decoded(name: str) -> Iterator[None]:
    """Stored values that do not fit together mean that the file is damaged."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise damaged(name) from error


def damaged(name: str) -> BankError:
    """The error for a bank whose content makes no sense."""
    return BankError(f"{name} is damaged.", hint="Make it anew from the documents with `mbc ingest`, in another file.")


def bytes_at(path: Path) -> int:
    """The size of a file, 0 when there is none.

    Raises:
        BankError: it cannot be looked at.
    """
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise BankError(f"{path} cannot be read.", hint="Check the path and its permissions.") from error


def wal_of(path: Path) -> Path:
    """SQLite's log of changes not yet merged into the file."""
    return path.with_name(path.name + "-wal")


def refuse_folder(path: Path) -> None:
    """Raises BankError if `path` is a folder."""
    if path.is_dir():
        raise BankError(f"{path} is a folder, not a bank.", hint="Name a file, such as memory.mbc.")


def refuse_foreign(path: Path, application_id: int) -> None:
    """Look at the file's first bytes alone: opening a strange database could already change it.

    Raises:
        BankError: it is not a SQLite database of this application, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            start = file.read(72)
    except OSError as error:
        raise BankError(f"{path} cannot be read.", hint="Check the path and its permissions.") from error
    if not start.startswith(b"SQLite format 3\0") or int.from_bytes(start[68:72], "big") != application_id:
        raise BankError(f"{path} is not a bank.", hint="Name a file that `mbc ingest` made.")
