"""Opens banks, upgrading those of earlier formats in place; docs/bank-format.md says what changed since format 3."""

import logging
import os
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np

from mbc_engine.atomic_write import PRIVATE_FILE
from mbc_engine.bank import database
from mbc_engine.bank.block import checksum, read_counts, read_first_texts, read_lengths
from mbc_engine.bank.block_table import BlockTable
from mbc_engine.bank.database import FORMAT_VERSION, TABLES, transaction
from mbc_engine.bank.records import BankHeader, EncodedText, TextState
from mbc_engine.bank.text_codec import LM, ZSTD, decode_texts, decompress, text_rows
from mbc_engine.bank.words import WORDS, Words, words_of, write_words
from mbc_engine.errors import BankError

FIRST_UPGRADABLE: Final = 3
_FORMAT_3: Final = {
    "bank": TABLES["bank"].replace(
        """text_bytes INTEGER NOT NULL, lm TEXT NOT NULL,
        lm_texts INTEGER NOT NULL, lm_bytes INTEGER NOT NULL, lm_offered INTEGER NOT NULL,
        state_crc""",
        "text_bytes INTEGER NOT NULL, state_crc",
    ),
    "blocks": TABLES["blocks"],
    "codes": TABLES["codes"],
    "texts": "CREATE TABLE texts (id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, data BLOB NOT NULL)",
}
_TABLES: Final = {3: _FORMAT_3, 4: TABLES}
_WORDS_OF_FORMAT_4: Final = 2048

_log = logging.getLogger(__name__)


def open_current(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open a bank, upgrading it if necessary.

    Raises BankError if there is none, or it is not a bank, damaged, of a newer or too old format, or cannot be upgraded.
    """
    connection = database.open_file(path, read_only=read_only)
    with database.closed_on_error(connection), database.wrap_sqlite_errors(str(path)):
        if FIRST_UPGRADABLE <= database.format_version(connection, str(path)) < FORMAT_VERSION:
            connection.close()
            upgrade(path)
            connection = database.open_file(path, read_only=read_only)
    with database.closed_on_error(connection), database.wrap_sqlite_errors(str(path)):
        database.require_format(connection, str(path))
        if not read_only:
            database.use_log(connection)  # persistent; repeated in case the bank's creation was interrupted
    return connection


def upgrade(path: Path) -> None:
    """Bring a bank to the current format in one transaction, after copying the file to `NAME.formatN` beside it.

    Codes, origins and texts stay as they are, and the index of words is rebuilt from the texts. Raises BankError if the
    bank is damaged or cannot be written; it is then unchanged.
    """
    name = str(path)
    with closing(database.connect(path)) as connection, database.wrap_sqlite_errors(name):
        version = database.format_version(connection, name)
        if not (os.access(path, os.W_OK) and os.access(database.wal_of(path).parent, os.W_OK)):
            raise BankError(
                f"{name} was written by an older mbc (bank format {version}; this one reads {FORMAT_VERSION}), "
                "and it or its folder cannot be written, so it cannot be upgraded.",
                hint="Copy it to a folder that you can write to, and open the copy.",
            )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        with transaction(connection, "IMMEDIATE"):
            version = database.format_version(connection, name)
            if version == FORMAT_VERSION:  # another process was first
                return
            database.require_tables(connection, _TABLES[version], name)
            copy = _keep_copy(path, version)
            header = database.read_header(connection, name)
            try:
                if version == FIRST_UPGRADABLE:
                    _put_texts_into_rows(connection, header)
                lm_texts = _index_words(connection, header, name)
            except database.INVALID_DATA_ERRORS as error:
                raise BankError(
                    f"{name} cannot be upgraded from bank format {version}, because it is damaged: {error}.",
                    hint="Restore it from a backup, or ingest the documents again into another bank.",
                ) from error
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
    # repr: a file's name may hold control characters
    _log.warning("%r was upgraded to bank format %d; the old file is kept as %r.", name, FORMAT_VERSION, copy.name)
    if lm_texts:
        _log.warning(
            "%d of its texts are compressed with a language model. Before that model is gone, "
            "`mbc bank compact --codec zstd` makes them independent of it.",
            lm_texts,
        )


def _keep_copy(path: Path, version: int) -> Path:
    """Copy a bank that this process has locked for writing; the copy appears complete or not at all."""
    real = Path(os.path.realpath(path))
    copy, partial = (real.with_name(f"{real.name}.format{version}{end}") for end in ("", ".partial"))
    try:
        partial.unlink(missing_ok=True)
        partial.touch(PRIVATE_FILE, exist_ok=False)
        # Another connection: SQLite copies no database with the one that is writing to it.
        with closing(database.connect(real, read_only=True)) as old, closing(sqlite3.connect(partial)) as new:
            old.backup(new)
        shutil.copymode(real, partial)
        partial.replace(copy)
    except OSError as error:
        raise BankError(
            f"{path} has to be upgraded, but no copy of it can be made: {error.strerror or error}.",
            hint="Check the permissions of its folder and the free disk space.",
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return copy


def _put_texts_into_rows(connection: sqlite3.Connection, header: BankHeader) -> None:
    """Format 3 had a row for each text, and recorded only the bytes of all texts."""
    row: Any = connection.execute("SELECT * FROM bank").fetchone()
    *values, counts, text_bytes, crc = row
    if checksum(counts, text_bytes.to_bytes(8, "little", signed=True)) != crc:
        raise ValueError("the checksum of the counts does not match")
    read_counts(counts, header.shape)
    connection.execute("ALTER TABLE texts RENAME TO old_texts")
    connection.execute("DROP TABLE bank")
    for table in ("bank", "texts", "words"):
        connection.execute(TABLES[table])
    size = 0
    for number, row_crc, columns, data in text_rows(_texts_of_format_3(connection)):
        connection.execute("INSERT INTO texts VALUES (?, ?, ?, ?)", (number, row_crc, columns, data))
        size += len(columns) + len(data)
    connection.execute("DROP TABLE old_texts")
    state = TextState(size)
    row = (*values, counts, *state, database.state_checksum(counts, state))
    connection.execute(f"INSERT INTO bank VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 - only question marks


def _texts_of_format_3(connection: sqlite3.Connection) -> Iterator[tuple[int, EncodedText]]:
    for number, crc, data in connection.execute("SELECT id, crc, data FROM old_texts ORDER BY id"):
        if crc != checksum(number.to_bytes(8, "little", signed=True), data):
            raise ValueError(f"the checksum of text {number} does not match")
        # The start as LEB128, the codec, CRC-32 of both with the payload and the text, and the payload.
        size = next(at for at, byte in enumerate(data) if byte < 0x80) + 1
        start = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(data[:size]))
        codec, text_crc, payload = data[size], int.from_bytes(data[size + 1 : size + 5], "little"), data[size + 5 :]
        plain = decompress(payload) if codec == ZSTD else payload
        if codec > ZSTD or start >= 1 << 32 or text_crc != checksum(data[: size + 1], payload, plain):
            raise ValueError(f"text {number} cannot be decoded")
        yield number, EncodedText(start, codec, zlib.crc32(plain) & 0xFFFFFF, payload)


def _index_words(connection: sqlite3.Connection, header: BankHeader, name: str) -> int:
    """Index all words anew; returns the number of texts that only a language model can decode."""
    table = BlockTable(connection, header, name)
    for block in table.numbers() if header.keeps_text else ():
        row = table.row(block)
        lengths = read_lengths(row.lengths, row.documents, row.chunks)
        firsts = read_first_texts(row, header, lengths)
        texts = [text for at in zip(firsts, lengths.tolist(), strict=True) for text in table.texts.read(*at)]
        if any(text.codec == LM for text in texts):
            words = _words_of_format_4(table.packed(block, "words"), row.chunks)
        else:
            words = words_of(decode_texts(texts))
        index = write_words(words, row.chunks)
        connection.execute("REPLACE INTO words VALUES (?, ?, ?)", (block, checksum(index), index))
    return table.texts.state.lm_texts


def _words_of_format_4(data: bytes, chunks: int) -> Words:
    """The words of a block of format 4, which had half as many numbers: both that each may have now."""
    stream = zlib.decompressobj()
    counts = np.frombuffer(stream.decompress(data, 4 * _WORDS_OF_FORMAT_4), "<u4").tolist()
    shifts = [max(0, (9 * chunks // (13 * max(1, count))).bit_length() - 1) for count in counts]
    rest = stream.unused_data
    low_bytes = -(-sum(count * shift for count, shift in zip(counts, shifts, strict=True)) // 8)
    low, high = (
        iter(np.unpackbits(np.frombuffer(part, np.uint8)).tolist()) for part in (rest[:low_bytes], rest[low_bytes:])
    )
    words = []
    for number, (count, shift) in enumerate(zip(counts, shifts, strict=True)):
        chunk = -1
        for _ in range(count):
            gap = sum(1 for _ in iter(high.__next__, 1))
            for _ in range(shift):
                gap = gap << 1 | next(low)
            chunk += 1 + gap
            words += [WORDS * chunk + number, WORDS * chunk + number + _WORDS_OF_FORMAT_4]
    return np.sort(np.array(words, np.int64))
