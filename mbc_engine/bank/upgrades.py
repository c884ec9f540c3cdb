"""Opens banks, upgrading those of earlier formats in place; docs/bank-format.md says what changed since format 3."""

import logging
import os
import shutil
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from mbc_engine.atomic_write import PRIVATE_FILE
from mbc_engine.bank import database
from mbc_engine.bank.block import Row, checksum, read_counts, row_checksum
from mbc_engine.bank.block_table import BlockTable
from mbc_engine.bank.database import FORMAT_VERSION, TABLES, transaction
from mbc_engine.bank.records import EncodedText, TextState
from mbc_engine.bank.text_codec import LM, ZSTD, decode_texts, decompress, text_rows
from mbc_engine.bank.word_index import read_earlier_words, words_of, write_words
from mbc_engine.errors import BankError

FIRST_UPGRADABLE: Final = 3
_FORMAT_5: Final = TABLES | {
    "bank": """CREATE TABLE bank (
        model TEXT NOT NULL, amortizer TEXT NOT NULL, codebook TEXT NOT NULL,
        tokens INTEGER NOT NULL, levels INTEGER NOT NULL, num_codes INTEGER NOT NULL, per_position INTEGER NOT NULL,
        dim INTEGER NOT NULL, keeps_origins INTEGER NOT NULL, keeps_text INTEGER NOT NULL, created TEXT NOT NULL,
        crc INTEGER NOT NULL, counts BLOB NOT NULL, text_bytes INTEGER NOT NULL, lm TEXT NOT NULL,
        lm_texts INTEGER NOT NULL, lm_bytes INTEGER NOT NULL, lm_offered INTEGER NOT NULL,
        state_crc INTEGER NOT NULL)""",
    "blocks": TABLES["blocks"].replace(", outlines BLOB NOT NULL", ""),
}
_FORMAT_3: Final = {
    "bank": _FORMAT_5["bank"].replace(
        """text_bytes INTEGER NOT NULL, lm TEXT NOT NULL,
        lm_texts INTEGER NOT NULL, lm_bytes INTEGER NOT NULL, lm_offered INTEGER NOT NULL,
        state_crc""",
        "text_bytes INTEGER NOT NULL, state_crc",
    ),
    "blocks": _FORMAT_5["blocks"],
    "codes": TABLES["codes"],
    "texts": "CREATE TABLE texts (id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, data BLOB NOT NULL)",
}
_TABLES: Final = {3: _FORMAT_3, 4: _FORMAT_5, 5: _FORMAT_5, 6: TABLES}
# The last formats with a row for each text, with compressed counts of words, and without contexts.
_WITH_A_ROW_PER_TEXT, _WITH_COMPRESSED_COUNTS, _WITHOUT_CONTEXTS = 3, 4, 5
# Bytes of texts and contexts: these, and so many times those stored. Real ones compress three or four times, and words take
# a second for each MB.
_INDEXED_BYTES, _INDEXED_PER_STORED = 4 << 20, 5

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
            return open_current(path, read_only=read_only)
        database.require_format(connection, str(path))
        if not read_only:
            database.use_log(connection)  # persistent; repeated in case the bank's creation was interrupted
    return connection


def upgrade(path: Path) -> None:
    """Bring a bank to the current format in one transaction, after copying the file to `NAME.formatN` beside it.

    Codes, origins and texts stay as they are; words are indexed anew from the texts. Raises BankError if the bank is
    damaged or cannot be written; it is then unchanged.
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
            try:
                if version <= _WITHOUT_CONTEXTS:
                    _upgrade_state(connection, version)
                    _upgrade_blocks(connection)
                if version == _WITH_A_ROW_PER_TEXT:
                    _put_texts_into_rows(connection)
                lm_texts = _index_words(connection, version, name)
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


def _upgrade_state(connection: sqlite3.Connection, version: int) -> None:
    """The row of `bank`: before format 6, it had no contexts and no totals of its blocks."""
    row: Any = connection.execute("SELECT * FROM bank").fetchone()
    *values, crc = row[:12]
    if crc != database.header_checksum(values):
        raise ValueError("the checksum of the header does not match")
    counts, *texts, state_crc = row[12:]
    if version == _WITH_A_ROW_PER_TEXT:
        expected = checksum(counts, texts[0].to_bytes(8, "little", signed=True))
    else:
        expected = database.state_checksum(counts, texts)
    if state_crc != expected:
        raise ValueError("the checksum of the counts does not match")
    *settings, created = values
    header = database.parse_header([*settings, 0, created])
    read_counts(counts, header.shape)
    sizes = "SELECT count(*), sum(documents), sum(origins), sum(chunks) FROM blocks"
    totals = tuple(value or 0 for value in connection.execute(sizes).fetchone())
    connection.execute("DROP TABLE bank")
    connection.execute(TABLES["bank"])
    database.insert_bank(connection, header, counts, totals, TextState(*texts))


def _upgrade_blocks(connection: sqlite3.Connection) -> None:
    """Before format 6, blocks had no outlines, and checksums of blocks, codes and words left out the row's id."""
    connection.execute("ALTER TABLE blocks RENAME TO old_blocks")
    connection.execute(TABLES["blocks"])
    for number, *columns in connection.execute("SELECT * FROM old_blocks ORDER BY id"):
        row = Row._make((*columns, b""))
        sizes = np.array([row.documents, row.origins, row.chunks], "<i8").tobytes()
        if row.crc != checksum(sizes, row.keys, row.digests, row.lengths, row.described, row.texts):
            raise ValueError("the checksum of its documents does not match")
        row = row._replace(crc=row.checksum(number))
        connection.execute("INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (number, *row))
    connection.execute("DROP TABLE old_blocks")
    has_words = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'words'").fetchone()[0]
    for table in ("codes", "words") if has_words else ("codes",):
        for (number,) in connection.execute(f"SELECT id FROM {table}").fetchall():  # noqa: S608 - constant names
            crc, data = connection.execute(f"SELECT crc, data FROM {table} WHERE id = ?", (number,)).fetchone()  # noqa: S608
            if crc != checksum(data):
                raise ValueError(f"the checksum of its {table} does not match")
            changed = row_checksum(table, number, data), number
            connection.execute(f"UPDATE {table} SET crc = ? WHERE id = ?", changed)  # noqa: S608


def _put_texts_into_rows(connection: sqlite3.Connection) -> None:
    """Format 3 had a row for each text, recorded only the bytes of all texts, and had no words."""
    connection.execute("ALTER TABLE texts RENAME TO old_texts")
    for table in ("texts", "words"):
        connection.execute(TABLES[table])
    size = 0
    for number, row_crc, columns, data in text_rows(_texts_of_format_3(connection)):
        connection.execute("INSERT INTO texts VALUES (?, ?, ?, ?)", (number, row_crc, columns, data))
        size += len(columns) + len(data)
    connection.execute("DROP TABLE old_texts")
    counts, *state = connection.execute(
        "SELECT counts, blocks, documents, origins, chunks, text_bytes, lm, lm_texts, lm_bytes, lm_offered FROM bank"
    ).fetchone()
    state[4] = size
    connection.execute("UPDATE bank SET text_bytes = ?, state_crc = ?", (size, database.state_checksum(counts, state)))


def _texts_of_format_3(connection: sqlite3.Connection) -> Iterator[tuple[int, EncodedText]]:
    for number, crc, data in connection.execute("SELECT id, crc, data FROM old_texts ORDER BY id"):
        if crc != row_checksum("", number, data):
            raise ValueError(f"the checksum of text {number} does not match")
        # The start as LEB128, the codec, CRC-32 of both with the payload and the text, and the payload.
        size = next(at for at, byte in enumerate(data) if byte < 0x80) + 1
        start = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(data[:size]))
        codec, text_crc, payload = data[size], int.from_bytes(data[size + 1 : size + 5], "little"), data[size + 5 :]
        plain = decompress(payload) if codec == ZSTD else payload
        if codec > ZSTD or start >= 1 << 32 or text_crc != checksum(data[: size + 1], payload, plain):
            raise ValueError(f"text {number} cannot be decoded")
        yield number, EncodedText(start, codec, zlib.crc32(plain) & 0xFFFFFF, payload)


def _index_words(connection: sqlite3.Connection, version: int, name: str) -> int:
    """Index all words anew; returns the number of texts that only a language model can decode."""
    header = database.read_header(connection, name)
    table = BlockTable(connection, header, name)
    room = _INDEXED_BYTES
    seen: set[str] = set()

    def within(
        texts: Sequence[EncodedText], contexts: Iterable[tuple[str, ...]]
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Texts and contexts, but nothing in place of those that the texts before leave no room for."""
        nonlocal room
        for text, context in zip(texts, contexts, strict=True):
            room += _INDEXED_PER_STORED * len(text.payload)
            if room < 0:
                yield "", ()
                continue
            plain = decode_texts([text])[0]
            room -= len(plain.encode(errors="surrogatepass")) + sum(len(part) for part in {*context} - seen)
            seen.update(context)
            yield plain, context

    for block in table.numbers() if header.keeps_text else ():
        content = table.get(block)
        chunks = sum(content.lengths)
        texts = [
            text for at in zip(content.first_texts, content.lengths, strict=True) for text in table.texts.read(*at)
        ]
        if any(text.codec == LM for text in texts):
            compressed = version == _WITH_COMPRESSED_COUNTS
            words = read_earlier_words(table.packed(block, "words"), chunks, compressed_counts=compressed)
        else:
            contexts = (content.document(row).contexts(header) for row in range(len(content)))
            pairs = list(within(texts, chain.from_iterable(contexts)))
            words = words_of((text for text, _ in pairs), (context for _, context in pairs))
        index = write_words(words, chunks)
        connection.execute("REPLACE INTO words VALUES (?, ?, ?)", (block, row_checksum("words", block, index), index))
    return table.texts.state.lm_texts
