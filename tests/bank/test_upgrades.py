"""Banks of earlier formats, written by earlier versions of mbc (`formats/README.md`), open with all they hold."""

import gzip
import os
import sqlite3
import struct
import subprocess
import sys
import textwrap
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from mbc_engine.bank import MemoryBank, upgrades
from mbc_engine.bank.database import FORMAT_VERSION
from mbc_engine.bank.exchange import export
from mbc_engine.bank.word_index import read_earlier_words
from mbc_engine.bank.words import word_numbers
from mbc_engine.errors import BankError
from tests.text_models import StandIn

FORMATS = Path(__file__).with_name("formats")
OLD = [f"format{version}-{kind}" for version in (3, 4, 5, 6) for kind in ("full", "bare", "lm")]
OLD.remove("format3-lm")  # no such texts yet
TEXT_MODEL = StandIn(
    "Ada Lovelace wrote the first program. She corresponded. The old bridge was repaired. The tea house opens."
)


def unpacked(name, path):
    path.write_bytes(gzip.decompress(FORMATS.joinpath(f"{name}.mbc.gz").read_bytes()))
    return path


def exported(bank):
    return b"".join(export(bank, TEXT_MODEL.open))


def export_by_old_version(name):
    return gzip.decompress(FORMATS.joinpath(f"{name.rpartition('-')[2].replace('lm', 'full')}.jsonl.gz").read_bytes())


def version_of(path):
    with closing(sqlite3.connect(path)) as connection:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("name", OLD)
def test_old_bank_opens_with_the_same_content(made, name, tmp_path, *, read_only):
    path = unpacked(name, tmp_path / "bank.mbc")
    old = path.read_bytes()
    with MemoryBank.open(path, read_only=read_only) as bank:
        assert exported(bank) == export_by_old_version(name)
        signature = bank.header.signature
    assert made.damages(path, TEXT_MODEL.open) == []
    assert version_of(path) == FORMAT_VERSION
    copy = tmp_path / f"bank.mbc.{name[:7]}"
    assert sorted(tmp_path.iterdir()) == [path, copy]
    assert (version_of(copy), len(copy.read_bytes())) == (int(name[6]), len(old))
    with MemoryBank.open(copy) as again:  # a copy is a bank like any other
        assert exported(again) == export_by_old_version(name)
        assert again.header.signature == signature


# Which earlier versions left out.
COMMON = set(word_numbers("1 2 3 4 5 one two three four first second north south american british european french"))


@pytest.mark.parametrize("name", [name for name in OLD if "bare" not in name])
def test_words_are_indexed_anew(name, tmp_path):
    """Their numbers had fewer bits, so where only a language model has the words, others may be found with them."""
    with MemoryBank.open(unpacked(name, tmp_path / "bank.mbc")) as bank:
        texts = [chunk.text for chunk in bank.texts_at(range(bank.totals().chunks), TEXT_MODEL.open) if chunk]
        numbers = word_numbers(" ".join(text for text in texts if "lm" not in name or text.isascii()))
        for number, chunks in zip(numbers, bank.chunks_with(numbers), strict=True):
            expected = [at for at, text in enumerate(texts) if number in word_numbers(text)]
            if "lm" not in name:
                assert chunks.tolist() == expected
            elif number not in COMMON:
                assert set(chunks.tolist()) >= {at for at in expected if texts[at].isascii()}


@pytest.mark.parametrize("counts", [True, False])
def test_too_many_words_are_refused(*, counts):
    ones = b"\xff" * 300_000
    data = zlib.compress(np.full(2048, 1200, "<u4").tobytes()) if counts else struct.pack("<II", 0, len(ones))
    with pytest.raises(ValueError, match=r"too many words|do not add up"):
        read_earlier_words(data + ones, 1200, compressed_counts=counts)


def test_texts_that_expand_without_end_are_not_indexed(made, tmp_path, monkeypatch):
    monkeypatch.setattr(upgrades, "_INDEXED_BYTES", 100)
    monkeypatch.setattr(upgrades, "_INDEXED_PER_STORED", 0)
    path = unpacked("format6-full", tmp_path / "bank.mbc")
    with MemoryBank.open(path) as bank:
        assert 0 < sum(map(len, bank.chunks_with(word_numbers(TEXT_MODEL.known)))) < 10
        assert exported(bank) == export_by_old_version("format6-full")
    assert made.damages(path) == []


def test_upgraded_bank_answers(tmp_path):
    """The codes of `mini` mean today what they meant then."""
    from mbc_engine import Memory, load_model

    with MemoryBank.open(unpacked("format3-full", tmp_path / "bank.mbc")) as bank:
        bank.remove([("/notes/rows.jsonl", "7")])  # its lone surrogate is no text that a reader takes
    with Memory(tmp_path / "bank.mbc", load_model("mini", reader="small")) as memory:
        (answer,) = memory.ask(["Who repaired the old bridge?"])
    assert answer.text == "Marta Keller"
    assert answer.sources[0].path == "/notes/bridge.md"


def test_upgraded_bank_is_written_as_any_other(tmp_path):
    with MemoryBank.open(unpacked("format3-full", tmp_path / "bank.mbc")) as bank:
        (document,) = bank.lookup([("/notes/tea.txt", "")], with_texts=True)
        assert bank.remove([("/notes/tea.txt", "")]) == 1
        bank.put([document])
        bank.compact()
        assert exported(bank) == export_by_old_version("format3-full")
        for to_lm in (True, False):
            list(bank.recode_texts(TEXT_MODEL.open, to_lm=to_lm))
            assert bool(bank.text_state().lm_texts) == to_lm
        assert exported(bank) == export_by_old_version("format3-full")


def test_upgrade_says_where_the_old_file_is(tmp_path, caplog):
    MemoryBank.open(unpacked("format4-lm", tmp_path / "b\x1b.mbc")).close()
    first, second = (record.getMessage() for record in caplog.records)
    assert first.endswith(
        rf"b\x1b.mbc' was upgraded to bank format {FORMAT_VERSION}; the old file is kept as 'b\x1b.mbc.format4'."
    )
    assert "3 of its texts are compressed with a language model" in second


KILLED = """
    import os, sys
    from pathlib import Path
    from mbc_engine.bank import MemoryBank, upgrades
    def die(*_): os.kill(os.getpid(), 9)
    {patch}
    MemoryBank.open(Path(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "patch",
    ["Path.replace = die", "upgrades.write_words = die", "upgrades.text_rows = die", "upgrades._log.warning = die"],
)
def test_killed_upgrade_loses_nothing(patch, tmp_path):
    path = unpacked("format3-full", tmp_path / "bank.mbc")
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED.format(patch=patch)), path], check=False)
    assert done.returncode == -9
    assert version_of(path) == (FORMAT_VERSION if "_log" in patch else 3)
    with MemoryBank.open(path, read_only=True) as bank:
        assert exported(bank) == export_by_old_version("format3-full")
    assert version_of(tmp_path / "bank.mbc.format3") == 3
    assert not list(tmp_path.glob("*.partial"))


def test_many_may_open_an_old_bank_at_once(tmp_path):
    path = unpacked("format3-full", tmp_path / "bank.mbc")
    start = threading.Barrier(4)

    def read(_):
        start.wait()
        with MemoryBank.open(path, read_only=True) as bank:
            return exported(bank)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, range(4))) == [export_by_old_version("format3-full")] * 4


def test_refused_banks_say_what_to_do(made, tmp_path, monkeypatch):
    path = unpacked("format3-full", tmp_path / "bank.mbc")
    before = path.read_bytes()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(BankError, match=rf"older mbc \(bank format 3; this one reads {FORMAT_VERSION}\)") as caught:
        MemoryBank.open(path, read_only=True)
    assert caught.value.hint == "Copy it to a folder that you can write to, and open the copy."
    assert path.read_bytes() == before
    for version in (1, 2):
        made.execute(path, f"PRAGMA user_version = {version}")
        with pytest.raises(BankError, match="older mbc") as caught:
            MemoryBank.open(path)
        assert caught.value.hint == "Ingest its files again, into a new bank."


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("UPDATE texts SET data = substr(data, 2)", "damaged: the checksum of text 1"),
        ("UPDATE bank SET text_bytes = text_bytes + 1", "damaged: the checksum of the counts"),
        ("UPDATE blocks SET chunks = chunks + 1", "damaged: the checksum of its documents"),
        ("UPDATE bank SET dim = dim + 1", "is damaged"),
        ("CREATE VIEW more AS SELECT 1", "is damaged"),
    ],
)
def test_damaged_bank_is_not_upgraded(made, damage, words, tmp_path):
    path = unpacked("format3-full", tmp_path / "bank.mbc")
    made.execute(path, damage)
    with pytest.raises(BankError, match=words):
        MemoryBank.open(path)
    assert version_of(path) == 3
