"""docs/bank-format.md against the code: its SQL, its numbers, and its examples; and examples/read_bank.py, a reader by it."""

import base64
import json
import re
import runpy
import sqlite3
import struct
from pathlib import Path

import numpy as np
import pytest

from mbc_engine.bank import BankHeader, CodeShape, MemoryBank, StoredDocument, text_codec
from mbc_engine.bank.exchange import export
from mbc_engine.bank.text_codec import decode_chunk
from mbc_engine.bank.word_index import words_of, write_words
from mbc_engine.bank.words import WORDS
from mbc_engine.text import Chunk, Document

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "bank-format.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def test_documented_export(made):
    lines = blocks("json")[0].strip().split("\n")
    shape = CodeShape(1, 1, 512, False)
    signature = type(made.signature)("mini", "aaaa", "bbbb")
    with MemoryBank.create(None, signature, shape, 1, keeps_text=True, context_tokens=32) as bank:
        codes = np.array([257, 0, 511]).reshape(-1, 1, 1)
        chunks = [Chunk("One.", 0, "Numbers"), Chunk("Two.", 5, "Numbers"), Chunk("Three.", 10, "Numbers > Odd")]
        document = Document("/notes/a.txt", "", "", made.digest(1), 1, title="Numbers")
        bank.put([StoredDocument.of(document, codes, chunks)])
        written = b"".join(export(bank)).decode().splitlines()
    assert [re.sub(r'"(counts)":"[^"]*"', r'"\1":"..."', line) for line in written] == lines
    assert np.frombuffer(base64.b64decode(json.loads(lines[1])["codes"]), "<u2").tolist() == [257, 0, 511]


def test_documented_words():
    data = write_words(np.array([3, 4 * WORDS + 3, 6 * WORDS + 5, 9 * WORDS + 3]), 10)
    assert WORDS == (1 << 20) + 4096
    bits = blocks("text")[0].replace(" ", "").strip()
    assert struct.unpack_from("<III", data) == (4, 2, -(-len(bits) // 8))
    assert "".join(format(byte, "08b") for byte in data[12:]).rstrip("0") == bits.rstrip("0")


@pytest.mark.parametrize("keeps_text", [True, False])
@pytest.mark.parametrize("keeps_origins", [True, False])
def test_documented_reader(made, tmp_path, monkeypatch, keeps_origins, keeps_text):
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
                [(text.start, decode_chunk(text, model.open).text) for text in document.texts or []],
            )
            for document in bank.documents(whole=True)
        ]
    reader = runpy.run_path(str(ROOT / "examples" / "read_bank.py"))
    connection = sqlite3.connect(path)
    found = reader["documents"](connection, lambda payload: model.decode([payload])[0])
    assert list(found) == expected
    rows = connection.execute("SELECT data, chunks FROM words JOIN blocks USING (id) ORDER BY id").fetchall()
    connection.close()
    found = [numbers for row in rows for numbers in reader["words"](*row)]
    assert [own for words in found for own in words] == [
        own % WORDS for own in words_of(text for *_, texts in expected for _, text in texts)
    ]
