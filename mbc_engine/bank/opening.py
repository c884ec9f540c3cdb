"""Bank files made and opened: what stands at a path becomes a connection to a bank, or is refused and left as it is."""

import sqlite3
from contextlib import suppress
from pathlib import Path

from mbc_engine.bank.database import (
    bytes_at,
    closed_on_error,
    connect,
    explained,
    refuse_folder,
    transaction,
    use_log,
)
from mbc_engine.bank.records import BankHeader
from mbc_engine.bank.schema import open_file, require_format, write_schema
from mbc_engine.errors import BankError
from mbc_engine.whole_file import PRIVATE_FILE, make_private_folder


def make_file(path: Path, header: BankHeader) -> sqlite3.Connection:
    """Make an empty bank in a file; its folder is made too.

    Raises:
        BankError: something stands at `path` already, or nothing can be written there.
    """
    refuse_folder(path)
    # An empty file is what is left of a bank whose making was interrupted.
    if bytes_at(path):
        raise _exists(path)
    try:
        make_private_folder(path.parent)
    except OSError as error:
        raise BankError(
            f"The folder {path.parent} cannot be made.", hint="Check the permissions, or name another place."
        ) from error
    connection = _connected(path)
    with closed_on_error(connection), explained(str(path)):
        # The first transaction is written without WAL, so that the file itself says from then on what it is.
        with transaction(connection, "DEFERRED"):
            # Gives what changes leave unused back to the disk. Has to come first, and writes: on its own, it would
            # leave a database that is no bank yet.
            connection.execute("PRAGMA auto_vacuum = FULL")
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise _exists(path)
            write_schema(connection, header)
        use_log(connection)
    return connection


def make_in_memory(header: BankHeader) -> sqlite3.Connection:
    """Make an empty bank that goes when it is closed."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    with transaction(connection, "IMMEDIATE"):
        write_schema(connection, header)
    return connection


def open_current(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open a bank of the present format.

    Raises:
        BankError: there is none, it is something else (which stays untouched), it is damaged, or another version of
            mbc wrote it.
    """
    connection = open_file(path, read_only=read_only)
    with closed_on_error(connection), explained(str(path)):
        require_format(connection, str(path))
        if not read_only:
            use_log(connection)  # stays on; said again in case making the bank was interrupted
    return connection


def _connected(path: Path) -> sqlite3.Connection:
    """A connection to a new file, which only its owner may read. What SQLite puts beside it gets the same permissions."""
    with suppress(OSError):  # which SQLite will tell
        path.touch(PRIVATE_FILE)
    return connect(path, create=True)


def _exists(path: Path) -> BankError:
    return BankError(f"There is already a file at {path}.", hint="Name another file, or open this one.")
