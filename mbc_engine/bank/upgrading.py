"""Banks of earlier formats brought to the present one.

Version 2 kept the codebook, no text, and counts without a checksum. Version 1 had a row a document; its content hashes
were of the bare bytes, so that the next ingest takes every document for changed, once.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from mbc_engine.bank.block import Row, checksum, read_block
from mbc_engine.bank.codes import CodeShape, unpack
from mbc_engine.bank.database import (
    FORMAT_VERSION,
    damaged,
    decoded,
    header_checksum,
    opened,
    require_format,
    transaction,
)
from mbc_engine.bank.exchange import copy, replace_content
from mbc_engine.bank.records import BankHeader, ModelSignature, Origin, StoredDocument, StoredItem
from mbc_engine.bank.store import MemoryBank
from mbc_engine.errors import BankError, ModelMismatch

_BATCH = 10_000


def upgrade(path: Path, signature: ModelSignature | None) -> bool:
    """Bring a bank to the present format in its place; False if it has that already. It keeps no text, as before.

    Args:
        path: the bank.
        signature: its model; None for whichever that is.

    Raises:
        BankError: there is no bank, it is damaged, or it cannot be written. The old one stays as it was.
        ModelMismatch: another model wrote it.
    """
    version = _version(path)
    if version == FORMAT_VERSION:
        return False
    with _folder_beside(path) as folder, opened(path, read_only=True) as connection:
        if version not in (1, 2):
            require_format(connection, str(path))  # which says what is wrong
        new = folder / "new.mbc"
        with transaction(connection, "DEFERRED"):
            with decoded(str(path)):
                header = _header(connection, version)
            if signature is not None and header.signature != signature:
                stored = header.signature
                raise ModelMismatch(
                    f"{path} was written by model {stored.name} ({stored.fingerprint}), "
                    f"not {signature.name} ({signature.fingerprint}).",
                    hint="Name the model that wrote it with --model, or run `mbc bank reencode` to move it to this one.",
                )
            _rebuild(_Old(connection, version, header, str(path)), new)

        def require_old() -> None:
            if _version(path) != version:
                raise BankError(f"Another process has already upgraded {path}.", hint="You can use it now.")

        replace_content(path, new, check=require_old)
    return True


def _version(path: Path) -> int:
    with opened(path, read_only=True) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


@contextmanager
def _folder_beside(path: Path) -> Iterator[Path]:
    """A folder of one's own on the bank's disk, which goes in the end with all that is in it."""
    try:
        folder = TemporaryDirectory(prefix=f"{path.name}.", dir=path.parent)
    except OSError as error:
        raise BankError(f"{path.parent} cannot be written.", hint="Check the permissions of the folder.") from error
    with folder as name:
        yield Path(name)


def _header(connection: sqlite3.Connection, version: int) -> BankHeader:
    more = "keeps_origins, created, crc" if version > 1 else "1, created, NULL"
    *values, crc = connection.execute(
        f"SELECT model, amortizer, codebook, tokens, levels, num_codes, per_position, dim, {more} FROM bank"  # noqa: S608 - ours
    ).fetchone()
    if version > 1 and crc != header_checksum(values):
        raise ValueError("the header's checksum does not match")
    model, amortizer, codebook, tokens, levels, num_codes, per_position, dim, keeps_origins, created = values
    shape = CodeShape(tokens, levels, num_codes, bool(per_position))
    return BankHeader(ModelSignature(model, amortizer, codebook), shape, dim, bool(keeps_origins), False, created)


@dataclass(frozen=True)
class _Old:
    """A bank of an earlier version, and the name it has in messages."""

    connection: sqlite3.Connection
    version: int
    header: BankHeader
    name: str


def _rebuild(old: _Old, path: Path) -> None:
    """Make the bank anew at `path`."""
    header = old.header
    with (
        MemoryBank.create(path, header.signature, header.shape, header.dim, keeps_origins=header.keeps_origins) as bank,
        decoded(old.name),
    ):
        items = _documents_of_version_1(old) if old.version == 1 else _documents(old)
        with bank.changing():
            while batch := list(islice(items, _BATCH)):
                copy(batch, bank)
        (counts,) = old.connection.execute("SELECT counts FROM bank").fetchone()
        # Version 1 counted a content once for each place it was read from.
        if old.version > 1 and counts != bank.counts().astype("<i8").tobytes():
            raise damaged(old.name)


def _documents(old: _Old) -> Iterator[StoredItem]:
    rows = old.connection.execute(
        """SELECT documents, origins, chunks, blocks.crc, keys, digests, lengths, described, codes.crc, data
        FROM blocks JOIN codes USING (id) ORDER BY blocks.id"""
    )
    for *columns, crc, data in rows:
        row = Row._make([*columns, b""])
        if row.checksum() != row.crc or checksum(data) != crc:
            raise ValueError("a block's checksum does not match")
        block = read_block(row, data, old.header)
        yield from ((document, codes, None) for document, codes in block.items(range(len(block))))


def _documents_of_version_1(old: _Old) -> Iterator[StoredItem]:
    rows = old.connection.execute(
        "SELECT source, digest, size, date, chunks, codes FROM documents WHERE chunks > 0 ORDER BY id"
    )
    for source, digest, size, date, chunks, codes in rows:
        document = StoredDocument(digest, chunks, size, (Origin(source, "", date),))
        yield document, unpack(codes, old.header.shape, chunks), None
