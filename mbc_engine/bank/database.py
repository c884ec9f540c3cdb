"""One SQLite file as a bank uses it: opening, transactions, and what SQLite reports in a person's words."""

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mbc_engine.errors import BankBusy, BankError

_BUSY_SECONDS: Final = 10.0
_ERRORS: Final = {
    sqlite3.SQLITE_BUSY: ("is being written by another process.", "Try again when that has finished."),
    sqlite3.SQLITE_READONLY: ("cannot be written.", "Check the permissions of the file and its folder."),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened.", "Check the permissions of the file and its folder."),
    sqlite3.SQLITE_FULL: ("cannot grow, the disk is full.", "Make room and try again; nothing stored was lost."),
    sqlite3.SQLITE_IOERR: ("cannot be read or written, the disk reports an error.", "Check that the disk has room."),
}
_SIGNS_OF_DAMAGE: Final = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT,
}

# What reading values that make no sense may raise.
NONSENSE: Final = (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)


def connect(path: Path, *, read_only: bool = False, create: bool = False) -> sqlite3.Connection:
    """Open a database that exists, or with `create` one that may not; waits up to 10 s for another writer.

    Raises:
        BankError: the file cannot be opened.
    """
    mode = "rwc" if create else "rw"
    # Who may write does so even to read: SQLite's files beside the bank go only with a connection that can.
    if read_only and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        mode = "ro"
        if not os.access(path.parent, os.W_OK) and not wal_of(path).exists():
            mode += "&immutable=1"  # where no file can be put beside it, SQLite reads a WAL database only so
    with explained(str(path)):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        if read_only:
            connection.execute("PRAGMA query_only = ON")
        return connection


def use_log(connection: sqlite3.Connection) -> None:
    """Write to a log from now on (WAL), so that readers go on beside a writer.

    The first time needs the file alone for a moment, for which SQLite, as for nothing else, does not wait by itself.
    """
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
    """All or nothing; `kind` is IMMEDIATE to write, DEFERRED to read one state of the database."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


@contextmanager
def patience(connection: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Inside, the connection waits no longer than this for other processes."""
    (before,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute(f"PRAGMA busy_timeout = {round(1000 * seconds)}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {before}")


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
        # A text that is not UTF-8 comes without a code.
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
def decoded(name: str) -> Iterator[None]:
    """Stored values that do not fit together mean that the file is damaged."""
    try:
        yield
    except NONSENSE as error:
        raise damaged(name) from error


def damaged(name: str) -> BankError:
    """The error for a bank whose content makes no sense."""
    return BankError(
        f"{name} is damaged.",
        hint="`mbc bank verify` lists the damage. Ingest the documents again into another bank.",
    )


def bytes_at(path: Path) -> int:
    """The size of a file, 0 when there is none.

    Raises:
        BankError: it cannot be looked at.
    """
    found = _status(path)
    return found.st_size if found else 0


def identity(path: Path) -> tuple[int, int] | None:
    """What tells the file at a path from any that takes its place; None where there is none.

    Raises:
        BankError: it cannot be looked at.
    """
    found = _status(path)
    return (found.st_dev, found.st_ino) if found else None


def wal_of(path: Path) -> Path:
    """SQLite's log of changes not yet merged into the file."""
    return path.with_name(path.name + "-wal")


def delete(path: Path) -> None:
    """Delete a database that nobody has open, and what an interrupted process may have left beside it."""
    for file in (path, wal_of(path), path.with_name(path.name + "-shm")):
        file.unlink(missing_ok=True)


def refuse_folder(path: Path) -> None:
    """Raises BankError if `path` is a folder, or cannot be looked at."""
    found = _status(path)
    if found and stat.S_ISDIR(found.st_mode):
        raise BankError(f"{path} is a folder, not a bank.", hint="Name a file, such as memory.mbc.")


def refuse_foreign(path: Path, application_id: int) -> None:
    """Look at the file's first page alone: opening a strange database could already change it.

    SQLite does the looking. Were this process to open and close the file by itself, POSIX would take away the locks of
    all its connections to it, and the next process to close the bank would delete the log they are using.

    Raises:
        BankError: it is not a SQLite database of this application, or cannot be read.
    """
    with explained(str(path)):
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            found = connection.execute("PRAGMA application_id").fetchone()[0]
        except sqlite3.DatabaseError as error:
            # Malformed it may only seem, while another process writes; whoever opens it for good will see.
            found = application_id if error.sqlite_errorcode == sqlite3.SQLITE_CORRUPT else None
            if error.sqlite_errorcode not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise
        finally:
            connection.close()
    if found != application_id:
        raise BankError(f"{path} is not a bank.", hint="Name a file that `mbc ingest` made.")


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BankError(f"{path} cannot be read.", hint="Check the path and its permissions.") from error
