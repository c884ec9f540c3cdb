"""Banks of earlier formats brought to the present one.

Version 1 had a row a document and no codebook. Its content hashes were of the bare bytes, so that the next ingest takes
every document for changed, once.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.database import decoded, transaction
from mbc_engine.bank.format import Codes, CodeShape, unpack
from mbc_engine.bank.records import ModelSignature, Record
from mbc_engine.bank.replace import replace_content
from mbc_engine.bank.schema import opened
from mbc_engine.bank.store import MemoryBank
from mbc_engine.errors import BankError, ModelMismatch


def upgrade(path: Path, signature: ModelSignature, books: NDArray[np.floating[Any]]) -> bool:
    """Bring a bank to the present format in its place; False if it has that already.

    Args:
        path: the bank.
        signature: its model.
        books: the model's codebook, [levels, positions, num_codes, dim].

    Raises:
        BankError: there is no bank, it is damaged, or it cannot be written. The old one stays as it was.
        ModelMismatch: another model wrote it.
    """
    if _version(path) != 1:
        return False
    with _folder_beside(path) as folder, opened(path, read_only=True) as connection:
        new = folder / "new.mbc"
        with transaction(connection, "DEFERRED"), decoded(str(path)):
            stored, shape = _header(connection)
            if stored != signature:
                raise ModelMismatch(
                    f"{path} was written by model {stored.name} ({stored.fingerprint}), "
                    f"not {signature.name} ({signature.fingerprint}).",
                    hint="Name its model with --model.",
                )
            with MemoryBank.create(new, stored, shape, books) as bank, bank.changing():
                for batch in _documents(connection, shape):
                    bank.add(batch)

        def require_old() -> None:
            if _version(path) != 1:
                raise BankError(f"{path} was brought up to date by another process meanwhile.", hint="Go on with it.")

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


def _header(connection: sqlite3.Connection) -> tuple[ModelSignature, CodeShape]:
    row = connection.execute(
        "SELECT model, amortizer, codebook, tokens, levels, num_codes, per_position FROM bank"
    ).fetchone()
    model, amortizer, codebook, tokens, levels, num_codes, per_position = row
    return ModelSignature(model, amortizer, codebook), CodeShape(tokens, levels, num_codes, bool(per_position))


def _documents(connection: sqlite3.Connection, shape: CodeShape) -> Iterator[list[tuple[Record, Codes]]]:
    rows = connection.execute(
        "SELECT source, digest, size, date, chunks, codes FROM documents WHERE chunks > 0 ORDER BY id"
    )
    while several := rows.fetchmany(10_000):
        yield [
            (Record(source, "", digest, size, date), unpack(codes, shape, chunks))
            for source, digest, size, date, chunks, codes in several
        ]
