"""Small banks with known codes: a document is a number that determines its digest, size and codes."""

import hashlib
import sqlite3
import zlib
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pytest

from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature, StoredDocument, count, database
from mbc_engine.bank.block import row_checksum
from mbc_engine.bank.exchange import export
from mbc_engine.bank.verification import verify
from mbc_engine.events import BankVerified, DamageFound
from mbc_engine.text import Chunk, Document
from tests.text_models import StandIn


@dataclass(frozen=True)
class Made:
    """What small banks are made of."""

    signature: ModelSignature
    shape: CodeShape
    dim: int

    def codes(self, content):
        """One to three chunks."""
        random = np.random.default_rng(content)
        return random.integers(0, 5, (1 + content % 3, 3, 2)).astype(np.uint16)

    def chunks(self, content):
        """The texts of the chunks: long and short, of any script, with half a surrogate in one and none in another."""
        words = ["The quick brown fox. ", "Ä", "", "\ud83d\ude00 \ud800", "日本語" * 50, "x\0y" * 9, "a" * 300]
        return [
            Chunk(words[(content + number) % 7] + (f"{content}" if number else ""), 200 * number * content)
            for number in range(1 + content % 3)
        ]

    def digest(self, content):
        return hashlib.sha256(b"%d" % content).hexdigest()

    def record(self, source, content, part="", date=None):
        """A document that was read."""
        return Document(source, part, "", self.digest(content), 100 + content, date)

    def item(self, source, content, part="", date=None, *, codes=None, texts=None):
        """The same, ready to store; its codes and texts are derived from the content unless given."""
        if codes is None:
            codes, texts = self.codes(content), self.chunks(content) if texts is None else texts
        return StoredDocument.of(self.record(source, content, part, date), codes, texts)

    def bank(self, path=None, *, keeps_origins=True, keeps_text=False):
        """An empty bank, in memory if no path is given."""
        return MemoryBank.create(
            path, self.signature, self.shape, self.dim, keeps_origins=keeps_origins, keeps_text=keeps_text
        )

    def counts(self, contents):
        """The code counts of a bank with these contents."""
        return sum((count(self.codes(content), self.shape) for content in contents), np.zeros((2, 3, 5), np.int64))

    def lines(self, bank):
        return b"".join(export(bank, self.text_model().open))

    def text_model(self):
        chunks = (chunk.text for content in range(24) for chunk in self.chunks(content))
        return StandIn("".join(chunks).encode(errors="ignore").decode())

    def tampered(self, path, *statements, **values):
        """Change a bank as deliberate tampering would: every checksum is right again. `deflate` is there to be used."""
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.create_function("deflate", 1, zlib.compress)
            connection.create_function("checksum", -1, row_checksum)
            for statement in statements:
                connection.execute(statement, values)
            for row in connection.execute("SELECT * FROM blocks").fetchall():
                crc = row_checksum("blocks", row[0], np.array(row[1:4], "<i8").tobytes(), *row[5:])
                connection.execute("UPDATE blocks SET crc = ? WHERE id = ?", (crc, row[0]))
            for table in ("codes", "words"):
                connection.execute(f"UPDATE {table} SET crc = checksum('{table}', id, data)")
            for number, *data in connection.execute("SELECT id, columns, data FROM texts").fetchall():
                crc = row_checksum("", number, *data)
                connection.execute("UPDATE texts SET crc = ? WHERE id = ?", (crc, number))
            header = connection.execute("SELECT * FROM bank").fetchone()
            sums = database.header_checksum(header[:12]), database.state_checksum(header[13], header[14:-1])
            connection.execute("UPDATE bank SET crc = ?, state_crc = ?", sums)

    def execute(self, path, script):
        """Change a closed bank with SQL, behind the back of its checksums."""
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.executescript(script)

    def damages(self, path, *text_model):
        """All damage that `verify` finds, after checking its last event."""
        *events, last = verify(path, *text_model)
        found = [event for event in events if isinstance(event, DamageFound)]
        assert isinstance(last, BankVerified)
        assert last.damages == len(found)
        return found


@pytest.fixture(scope="session")
def made():
    return Made(ModelSignature("mini", "aa" * 8, "bb" * 8), CodeShape(3, 2, 5, per_position=True), 4)


@pytest.fixture
def path(tmp_path):
    """A path that needs a new folder and quoting."""
    return tmp_path / "new folder" / "100% mine?#.mbc"


@pytest.fixture
def bank(made, path):
    with made.bank(path) as bank:
        yield bank
