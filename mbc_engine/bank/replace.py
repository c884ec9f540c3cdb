"""All of a bank replaced by another one's content, in one transaction: whoever reads sees the old or the new."""

import contextlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from mbc_engine.bank.database import explained, transaction
from mbc_engine.bank.schema import FORMAT_VERSION, TABLES, open_file


def replace_content(path: Path, by: Path, *, check: Callable[[], None] | None = None) -> None:
    """Make the bank at `path`, of whatever format, a copy of the one at `by`, which stays.

    A process killed meanwhile leaves the old one.

    Args:
        path: the bank.
        by: another one, of the present format.
        check: called when no other process can write any more, before anything changes; what it raises ends it all.

    Raises:
        BankError: one of them is not a bank, the disk is full, or another process is writing.
    """
    open_file(by, read_only=True).close()
    with closing(open_file(path)) as connection, explained(str(path)):
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("ATTACH ? AS new", (f"{by.absolute().as_uri()}?mode=rw",))
        with transaction(connection, "IMMEDIATE"):
            if check:
                check()
            for (table,) in connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall():
                connection.execute(f'DROP TABLE main."{table}"')
            for table, statement in TABLES.items():
                connection.execute(statement)
                connection.execute(f"INSERT INTO main.{table} SELECT * FROM new.{table}")  # noqa: S608 - one of ours
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        connection.execute("DETACH new")
        # What is replaced is replaced: a disk too full for the smaller file must not make that an error.
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA auto_vacuum = FULL")
            connection.execute("VACUUM")
