"""Verifies a bank: cross-checks every meaningful byte, without the model."""

import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from mbc_engine.bank import database
from mbc_engine.bank.block import Block, keys_of, read_block, read_keys
from mbc_engine.bank.block_table import BlockTable
from mbc_engine.bank.records import BankHeader, BlockTotals, Counts, EncodedText, Indices, TextState, count, unpack
from mbc_engine.bank.text_codec import LM, LM_BATCH, OpenTextModel, decode_texts, read_row
from mbc_engine.bank.upgrades import open_current
from mbc_engine.bank.word_index import read_words
from mbc_engine.errors import BankDamaged, BankError
from mbc_engine.events import BankVerified, DamageFound, Event, Progressed

_MOST_OF_STRUCTURE: Final = 20


def verify(path: Path, open_model: OpenTextModel | None = None) -> Iterator[Event]:
    """Check the file's structure, all checksums, and that blocks, texts and counts are consistent.

    With `open_model`, texts coded with a language model are decoded too, which is slow. Yields damage, progress, and
    last `BankVerified`. Raises BankError if the bank cannot be opened for another reason than damage.
    """
    damages = 0
    try:
        with (
            closing(open_current(path, read_only=True)) as connection,
            database.wrap_sqlite_errors(str(path)),
            database.transaction(connection, "DEFERRED"),
        ):
            header = database.read_header(connection, str(path))
            for event in _events(connection, header, str(path), open_model):
                damages += isinstance(event, DamageFound)
                yield replace(event, damages=damages) if isinstance(event, BankVerified) else event
    except BankDamaged as error:
        yield DamageFound("file", f"it cannot be opened: {error.__cause__ or error.message}")
        yield BankVerified(0, 0, damages + 1)


def _events(
    connection: sqlite3.Connection, header: BankHeader, name: str, open_model: OpenTextModel | None
) -> Iterator[Event]:
    """Damage and progress; last `BankVerified`, in which damages are not counted."""
    table, shape = BlockTable(connection, header, name), header.shape
    try:
        lines = connection.execute(f"PRAGMA integrity_check({_MOST_OF_STRUCTURE})").fetchall()
        yield from (DamageFound("file", line) for (line,) in lines if line != "ok")
        numbers = [number for (number,) in connection.execute("SELECT id FROM blocks ORDER BY id")]
    except sqlite3.Error as error:
        yield DamageFound("file", str(error))
        yield BankVerified(0, 0, 0)
        return
    totals: BlockTotals = 0, 0, 0, 0  # of intact blocks
    counts = np.zeros((shape.levels, shape.positions, shape.num_codes), np.int64)
    none: Indices = np.empty(0, np.int64)
    digests, origins = [none], [none]  # compared by 64 bits of each
    texts = [np.empty((0, 2), np.int64)]  # of each document, the number of the first, and of the one after the last
    for done, number in enumerate(numbers, 1):
        try:
            block = _block(table, number, header)
        except (*database.INVALID_DATA_ERRORS, sqlite3.Error) as error:
            yield DamageFound(f"block {number}", str(error))
        else:
            counts += count(block.known_codes, shape)
            digests.append(
                np.array([int.from_bytes(digest[:8], "big", signed=True) for digest in block.digests], np.int64)
            )
            origins.append(np.array([hash(origin[:2]) for several in block.origins for origin in several], np.int64))
            firsts = np.array(block.first_texts)
            texts.append(np.stack([firsts, firsts + block.lengths], 1))
            held = 1, len(block), sum(map(len, block.origins)), sum(block.lengths)
            totals = tuple(map(sum, zip(totals, held, strict=True)))
        yield Progressed("verify blocks", done, len(numbers))
    try:
        state = yield from _state(connection, header, name, counts, totals)
        yield from _all_texts(connection, np.concatenate(texts), state, open_model)
        for part, owners in (("codes", "blocks"), ("words", "blocks, bank WHERE keeps_text")):
            query = f"SELECT count(*) FROM {part} WHERE id NOT IN (SELECT id FROM {owners})"  # noqa: S608 - constant names
            if strays := connection.execute(query).fetchone()[0]:
                yield DamageFound(part, f"{strays} blocks of {part} belong to no documents")
    except sqlite3.Error as error:
        yield DamageFound("file", str(error))
    for what, values in (("documents", np.concatenate(digests)), ("origins", np.concatenate(origins))):
        if twice := len(values) - len(np.unique(values)):
            yield DamageFound(what, f"{twice} are stored more than once")
    _, documents, _, chunks = totals
    yield BankVerified(documents, chunks, 0)


def _block(table: BlockTable, number: int, header: BankHeader) -> Block:
    row = table.row(number)
    block = read_block(row, header, unpack(table.packed(number), header.shape, row.chunks))
    if not np.array_equal(read_keys(row.keys), np.unique(keys_of(block.origins))):
        raise ValueError("its index does not match its origins")
    if header.keeps_text:
        read_words(table.packed(number, "words"), row.chunks)
    return block


def _state(
    connection: sqlite3.Connection, header: BankHeader, name: str, counted: Counts, held: BlockTotals
) -> Generator[DamageFound, None, TextState | None]:
    try:
        counts, texts = database.read_state(connection, header, name)
    except BankError:
        yield DamageFound("counts", "their checksum does not match")
        return None
    if not np.array_equal(counts, counted):
        yield DamageFound("counts", "they are not those of the codes")
    if (totals := database.read_totals(connection, name)) != held:
        expected = "{} blocks with {} documents, {} origins, {} chunks".format(*totals)
        yield DamageFound("blocks", f"there should be {expected}, and there are not")
    return texts


def _all_texts(
    connection: sqlite3.Connection, owned: Indices, state: TextState | None, open_model: OpenTextModel | None
) -> Iterator[Event]:
    stored = [np.empty(0, np.int64)]
    size = lm_bytes = lm_texts = 0
    for row in connection.execute("SELECT id, crc, columns, data FROM texts ORDER BY id"):
        try:
            texts = read_row(state.lm if state else "", *row)
            decode_texts([text for text in texts.values() if text.codec != LM])
        except database.INVALID_DATA_ERRORS as error:
            yield DamageFound(f"texts {row[0]}", str(error))
            continue
        stored.append(np.array(list(texts), np.int64))
        size += len(row[2]) + len(row[3])
        under = [(number, text) for number, text in texts.items() if text.codec == LM]
        lm_texts, lm_bytes = lm_texts + len(under), lm_bytes + sum(len(text.payload) for _, text in under)
        for start in range(0, len(under) if open_model and state else 0, LM_BATCH):
            batch = under[start : start + LM_BATCH]
            yield from _undecodable(batch, open_model)
            yield Progressed(
                "decode texts", lm_texts - len(under) + start + len(batch), state.lm_texts if state else None
            )
    if state and (size, lm_texts, lm_bytes) != (state.bytes, state.lm_texts, state.lm_bytes):
        yield DamageFound("texts", f"they are {size} bytes, not {state.bytes}, or not in these codecs")
    owned = owned[owned[:, 0] > 0]  # 0 in a bank without texts
    starts, ends = owned[np.argsort(owned[:, 0])].T
    so_far = np.maximum.accumulate(np.append(0, ends))
    wanted = int(np.maximum(ends - np.maximum(starts, so_far[:-1]), 0).sum())
    numbers = np.unique(np.concatenate(stored))
    belonging = int((numbers < so_far[np.searchsorted(starts, numbers, side="right")]).sum())
    for problem, number in (
        ("belong to several chunks", int((ends - starts).sum()) - wanted),
        ("are missing", wanted - belonging),
        ("belong to no chunk", len(numbers) - belonging),
    ):
        if number:
            yield DamageFound("texts", f"{number} {problem}")


def _undecodable(batch: Sequence[tuple[int, EncodedText]], open_model: OpenTextModel | None) -> Iterator[DamageFound]:
    try:
        decode_texts([text for _, text in batch], open_model)
    except ValueError as error:
        if len(batch) == 1:
            yield DamageFound(f"text {batch[0][0]}", str(error))
            return
        for one in batch:
            yield from _undecodable([one], open_model)
