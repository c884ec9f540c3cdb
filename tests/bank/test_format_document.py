"""docs/bank-format.md against the code: its SQL, its numbers, its examples, and the reader it ends with."""

import base64
import json
import re
import sqlite3
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbc_engine.bank import BankHeader, CodeShape, MemoryBank, StoredDocument, decode_chunk, export, pack, text_codec
from mbc_engine.bank.block import _MOST_BYTES
from mbc_engine.bank.database import APPLICATION_ID, FORMAT_VERSION, TABLES
from mbc_engine.bank.text_codec import MAX_DECOMPRESSED
from mbc_engine.bank.words import WORDS, word_numbers, write_words
from mbc_engine.text import Chunk, Document

DICTIONARY = Path(text_codec.__file__).with_name("text.dict")
TEXT = (Path(__file__).parents[2] / "docs" / "bank-format.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def test_documented_statements() -> None:
    (statements,) = blocks("sql")
    assert statements.strip().rstrip(";").split(";\n") == list(TABLES.values())


def test_documented_numbers(made: Any, tmp_path: Path) -> None:
    assert f"`PRAGMA application_id` | {APPLICATION_ID}," in TEXT
    assert f"`PRAGMA user_version` | {FORMAT_VERSION} |" in TEXT
    full = [BankHeader(made.signature, made.shape, 4, keeps, False, "").block_chunks for keeps in (True, False)]
    assert f"A block with {full[0]} chunks ({full[1]:,} without origins) is full" in TEXT
    assert _MOST_BYTES == 2**28
    assert "at most 2²⁸ bytes" in TEXT
    assert f"reach {text_codec.FULL_ROW_BYTES:,} bytes" in TEXT
    assert MAX_DECOMPRESSED == 16 << 20
    assert "at most 16 MiB" in TEXT
    dictionary = DICTIONARY.read_bytes()
    assert f"{len(dictionary):,} bytes, CRC-32 {zlib.crc32(dictionary)}." in TEXT
    with made.bank(tmp_path / "bank.mbc"):
        connection = sqlite3.connect(tmp_path / "bank.mbc")
        for setting, value in {"journal_mode": "wal", "auto_vacuum": 1, "encoding": "UTF-8"}.items():
            assert connection.execute(f"PRAGMA {setting}").fetchone() == (value,)
        connection.close()
    assert int.from_bytes((tmp_path / "bank.mbc").read_bytes()[68:72], "big") == APPLICATION_ID


def test_documented_header_checksum(made: Any, tmp_path: Path) -> None:
    (example,) = re.findall(r"`(\[\"mini\".*?\])`", TEXT)
    path = tmp_path / "bank.mbc"
    made.bank(path).close()
    connection = sqlite3.connect(path)
    *values, crc, counts, size, lm, lm_texts, lm_bytes, lm_offered, state_crc = connection.execute(
        "SELECT * FROM bank"
    ).fetchone()
    connection.close()
    assert len(values) == len(json.loads(example)) == 11
    assert [type(value) for value in values] == [type(value) for value in json.loads(example)]
    assert json.dumps(json.loads(example), separators=(",", ":")) == example
    assert zlib.crc32(json.dumps(values, separators=(",", ":")).encode()) == crc
    assert zlib.decompress(counts) == bytes(8 * 2 * 3 * 5)
    state = json.dumps([size, lm, lm_texts, lm_bytes, lm_offered], separators=(",", ":"))
    assert state_crc == zlib.crc32(counts + state.encode())


def test_documented_bits() -> None:
    example = blocks("text")[-1]
    codes, data = (line.split()[1:] for line in example.strip().split("\n"))
    shape = CodeShape(1, 1, 512, False)
    values = np.array([int(code, 2) for code in codes]).reshape(-1, 1, 1)
    assert values.ravel().tolist() == [257, 0, 511]
    assert pack(values, shape) == bytes(int(byte, 2) for byte in data)


def test_documented_export(made: Any) -> None:
    lines = blocks("json")[0].strip().split("\n")
    shape = CodeShape(1, 1, 512, False)
    signature = type(made.signature)("mini", "aaaa", "bbbb")
    with MemoryBank.create(None, signature, shape, 1, keeps_text=True) as bank:
        codes = np.array([257, 0, 511]).reshape(-1, 1, 1)
        chunks = [Chunk("One.", 0), Chunk("Two.", 5), Chunk("Three.", 10)]
        bank.put([StoredDocument.of(Document("/notes/a.txt", "", "", made.digest(1), 1), codes, chunks)])
        written = b"".join(export(bank)).decode().splitlines()
    assert [re.sub(r'"(counts)":"[^"]*"', r'"\1":"..."', line) for line in written] == lines
    assert np.frombuffer(base64.b64decode(json.loads(lines[1])["codes"]), "<u2").tolist() == [257, 0, 511]


def test_documented_words() -> None:
    data = write_words(np.array([3, 4 * WORDS + 3, 6 * WORDS + 5, 9 * WORDS + 3]), 10)
    assert WORDS == 4096
    total, size = struct.unpack_from("<II", data)
    high, low = ("".join(format(byte, "08b") for byte in part) for part in (data[8 : 8 + size], data[8 + size :]))
    expected_high, expected_low = (own.replace(" ", "") for own in re.findall(r"[01][01 …]*[01]", blocks("text")[0]))
    begin, end = expected_high.split("1…1")
    assert total == 4
    assert high.rstrip("0") == begin + "1" * (WORDS - 6) + end
    assert low == expected_low + "000"


@pytest.mark.parametrize("keeps_text", [True, False])
@pytest.mark.parametrize("keeps_origins", [True, False])
def test_documented_reader(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps_origins: bool, keeps_text: bool
) -> None:
    monkeypatch.setattr(BankHeader, "block_chunks", property(lambda header: 9))
    monkeypatch.setattr(text_codec, "FULL_ROW_BYTES", 90)
    path = tmp_path / "bank.mbc"
    with made.bank(path, keeps_origins=keeps_origins, keeps_text=keeps_text) as bank:
        bank.put([made.item(f"/ä/{number % 12}", number, str(number % 3), "2024") for number in range(20)])
        bank.put([made.item(f"/{number}", number) for number in range(0, 20, 3)])
        bank.remove([("/3", ""), ("/ä/3", "0")])
        bank.compact()
        model = made.text_model()
        assert not keeps_text or len(list(bank.recode_texts(model.open, to_lm=True))) > 2
        assert not keeps_text or 0 < bank.text_state().lm_texts < bank.totals().chunks
        bank.put([made.item("/last", 21)])
        expected = [
            (
                document.digest,
                list(map(tuple, document.origins)),
                document.codes.reshape(document.chunks, -1).tolist(),
                [(own.start, decode_chunk(own, model.open).text) for own in document.texts or []],
            )
            for document in bank.documents(whole=True)
        ]
    reader: dict[str, Any] = {}
    exec(blocks("python")[0], reader)
    found = reader["read"](path, DICTIONARY.read_bytes(), lambda payload: model.decode([payload])[0])
    assert list(found) == expected
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT data, chunks FROM words JOIN blocks USING (id) ORDER BY id").fetchall()
    connection.close()
    found = [numbers for row in rows for numbers in reader["words"](*row)]
    assert found == [word_numbers(text) for *_, texts in expected for _, text in texts]
