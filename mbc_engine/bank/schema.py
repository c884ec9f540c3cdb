"""The tables of a bank file, how they are made, recognised and read; docs/bank-format.md describes them to the byte."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from mbc_engine.bank.block import checksum
from mbc_engine.bank.counts import Counts, read_counts, write_counts
from mbc_engine.bank.database import (
    bytes_at,
    closed_on_error,
    connect,
    damaged,
    decoded,
    explained,
    refuse_folder,
    refuse_foreign,
)
from mbc_engine.bank.format import CodeShape
from mbc_engine.bank.records import BankHeader, ModelSignature
from mbc_engine.errors import BankError

APPLICATION_ID: Final = int.from_bytes(b"mbc\0", "big")
FORMAT_VERSION: Final = 3

_READ_HEADER: Final = """SELECT
    model, amortizer, codebook, tokens, levels, num_codes, per_position, dim, keeps_origins, keeps_text, created, crc
    FROM bank"""
TABLES: Final = {
    "bank": """CREATE TABLE bank (
        model TEXT NOT NULL, amortizer TEXT NOT NULL, codebook TEXT NOT NULL,
        tokens INTEGER NOT NULL, levels INTEGER NOT NULL, num_codes INTEGER NOT NULL, per_position INTEGER NOT NULL,
        dim INTEGER NOT NULL, keeps_origins INTEGER NOT NULL, keeps_text INTEGER NOT NULL, created TEXT NOT NULL,
        crc INTEGER NOT NULL, counts BLOB NOT NULL, text_bytes INTEGER NOT NULL, state_crc INTEGER NOT NULL)""",
    "blocks": """CREATE TABLE blocks (
        id INTEGER PRIMARY KEY, documents INTEGER NOT NULL, origins INTEGER NOT NULL, chunks INTEGER NOT NULL,
        crc INTEGER NOT NULL, keys BLOB NOT NULL, digests BLOB NOT NULL, lengths BLOB NOT NULL,
        described BLOB NOT NULL, texts BLOB NOT NULL)""",
    "codes": "CREATE TABLE codes (id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, data BLOB NOT NULL)",
    "texts": "CREATE TABLE texts (id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, data BLOB NOT NULL)",
}


@contextmanager
def opened(path: Path, *, read_only: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection to a bank file of any version, closed in the end; what SQLite reports becomes a BankError.

    Raises:
        BankError: there is none, or the file is something else, which stays untouched.
    """
    connection = open_file(path, read_only=read_only)
    with closing(connection), explained(str(path)):
        yield connection


def open_file(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Connect to a bank file of any version.

    Raises:
        BankError: there is none, or the file is something else, which stays untouched.
    """
    refuse_folder(path)
    if not bytes_at(path):
        raise _no_bank(path)
    refuse_foreign(path, APPLICATION_ID)
    connection = connect(path, read_only=read_only)
    with closed_on_error(connection), explained(str(path)), decoded(str(path)):
        # Looking undoes a making of the bank that was interrupted while it was written.
        if not connection.execute("PRAGMA page_count").fetchone()[0]:
            raise _no_bank(path)
    return connection


def write_schema(connection: sqlite3.Connection, header: BankHeader) -> None:
    """Make the tables of an empty bank. The caller holds a transaction."""
    for statement in TABLES.values():
        connection.execute(statement)
    values, shape = _values(header), header.shape
    counts = write_counts(np.zeros((shape.levels, shape.positions, shape.num_codes), np.int64))
    row = (*values, header_checksum(values), counts, 0, state_checksum(counts, 0))
    connection.execute(f"INSERT INTO bank VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 - marks alone
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


def require_format(connection: sqlite3.Connection, name: str) -> None:
    """Make sure that the tables are those of this version and nothing else: a trigger or a view could run anything.

    Raises:
        BankError: another version wrote the file, or it is damaged.
    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > FORMAT_VERSION:
        raise BankError(
            f"{name} was written by a newer mbc (bank format {version}; this one reads {FORMAT_VERSION}).",
            hint="Update mbc.",
        )
    if 0 < version < FORMAT_VERSION:
        raise BankError(
            f"{name} was written by an older mbc (bank format {version}).",
            hint=f"Bring it up to date with `mbc bank upgrade --bank {name}`.",
        )
    if version != FORMAT_VERSION:
        raise damaged(name)
    with decoded(name):  # SQLite says what is malformed in the file's own bytes
        found = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
    if len(found) != len(TABLES) or dict(found) != TABLES:  # a trigger may bear the name of a table
        raise damaged(name)


def read_header(connection: sqlite3.Connection, name: str) -> BankHeader:
    """What the bank says about itself.

    Raises:
        BankError: it makes no sense.
    """
    row: Any = connection.execute(_READ_HEADER).fetchone()
    with decoded(name):
        *values, crc = row
        if crc != header_checksum(values):
            raise ValueError("the header's checksum does not fit")
        model, amortizer, codebook, tokens, levels, num_codes, per_position, dim, keeps_origins, keeps_text, created = (
            values
        )
        shape = CodeShape(tokens, levels, num_codes, bool(per_position))
    return BankHeader(
        ModelSignature(model, amortizer, codebook), shape, dim, bool(keeps_origins), bool(keeps_text), created
    )


def read_state(connection: sqlite3.Connection, header: BankHeader, name: str) -> tuple[Counts, int]:
    """How often each code occurs, and how many bytes all texts have.

    Raises:
        BankError: it makes no sense.
    """
    row: Any = connection.execute("SELECT counts, text_bytes, state_crc FROM bank").fetchone()
    with decoded(name):
        counts, text_bytes, crc = row
        if crc != state_checksum(counts, text_bytes):
            raise ValueError("the checksum of the counts does not match")
        return read_counts(counts, header.shape), text_bytes


def state_checksum(counts: bytes, text_bytes: int) -> int:
    """CRC-32 of the counts as they are stored, and of the size of all texts."""
    return checksum(counts, np.array(text_bytes, "<i8").tobytes())


def now() -> str:
    """This moment, ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _no_bank(path: Path) -> BankError:
    return BankError(f"No bank at {path}.", hint=f"Make one with `mbc ingest FOLDER --bank {path}`.")


def _values(header: BankHeader) -> tuple[str | int, ...]:
    signature, shape = header.signature, header.shape
    return (
        *(signature.name, signature.amortizer, signature.codebook),
        *(shape.tokens, shape.levels, shape.num_codes, int(shape.per_position)),
        *(header.dim, int(header.keeps_origins), int(header.keeps_text), header.created),
    )


def header_checksum(values: Sequence[str | int]) -> int:
    """CRC-32 of the header as a JSON array without spaces."""
    return checksum(json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode())
