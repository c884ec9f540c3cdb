"""Titles and headings are kept with their documents, wherever these go."""

import json
import zlib

import numpy as np
import pytest

from mbc_engine.bank import MemoryBank, StoredDocument
from mbc_engine.bank.block import read_outlines
from mbc_engine.bank.exchange import import_lines, merge, remove_with_proof
from mbc_engine.bank.records import Outline
from mbc_engine.bank.words import number_of
from mbc_engine.errors import BankError, DataError
from mbc_engine.text import Chunk, Document

CHUNKS = [Chunk("It is 410,000.", 0, "Orion > Budget"), Chunk("More of it.", 20, "Orion > Budget"), Chunk("Kai.", 40)]


def documents(made):
    titled = Document("/work/orion/2024-03-12.md", "", "", made.digest(1), 9, title="Final\nreport")
    plain = Document("/work/vega.md", "", "", made.digest(2), 9)
    codes = [np.ones((len(texts), 3, 2), int) for texts in (CHUNKS, CHUNKS[2:])]
    return [StoredDocument.of(titled, codes[0], CHUNKS), StoredDocument.of(plain, codes[1], CHUNKS[2:])]


def bank_of(made, path, *, context_tokens=32, **keeps):
    keeps = {"keeps_text": True} | keeps
    return MemoryBank.create(path, made.signature, made.shape, made.dim, context_tokens=context_tokens, **keeps)


def outlines(bank):
    return [document.outline for document in bank.documents()]


EXPECTED = [Outline("Final report", ("Orion > Budget", "Orion > Budget", "")), Outline()]


def test_titles_and_headings_are_found_and_kept(made, tmp_path):
    with bank_of(made, tmp_path / "a.mbc") as bank:
        bank.put(documents(made))
        assert outlines(bank) == EXPECTED
        expected = {word: [0, 1, 2] for word in ("final", "orion", "march")}
        expected |= {"budget": [0, 1], "vega": [3], "kai": [2, 3]}
        words = list(map(number_of, expected))
        assert [found.tolist() for found in bank.chunks_with(words)] == list(expected.values())
        lines = made.lines(bank)
    assert made.damages(tmp_path / "a.mbc") == []
    with MemoryBank.open(tmp_path / "a.mbc", read_only=True) as bank:
        headings = [chunk.document.outline.of_chunk(chunk.ordinal) for chunk in bank.chunks_at([1, 2])]
        assert headings == ["Orion > Budget", ""]
        list(import_lines(lines.splitlines(), tmp_path / "b.mbc"))
        with MemoryBank.open(tmp_path / "b.mbc") as imported, bank_of(made, tmp_path / "c.mbc") as merged:
            list(merge(merged, bank))
            for other in (imported, merged):
                assert made.lines(other) == lines
                assert [found.tolist() for found in other.chunks_with(words[:1])] == [[0, 1, 2]]
                assert remove_with_proof(other, [("/work/vega.md", "")], []).holds
                assert outlines(other) == EXPECTED[:1]


@pytest.mark.parametrize("name", [b"Final report", b"Orion > Budget"])
def test_titles_and_headings_that_are_too_long_are_refused(made, tmp_path, name):
    """Each chunk is found by all their words, so a small file would become a large index."""
    with bank_of(made, None) as bank:
        bank.put(documents(made))
        lines = made.lines(bank).replace(name, b"a" * 201).splitlines()
    with pytest.raises(DataError, match="too long"):
        list(import_lines(lines, tmp_path / "b.mbc"))
    with pytest.raises(ValueError, match="do not add up"):
        read_outlines(zlib.compress(b'{"titles":["%s"],"headings":["a"]}' % (b"a" * 201)), [1])


def test_a_bank_without_origins_keeps_no_name_in_words(made):
    with bank_of(made, None, keeps_origins=False) as bank:
        bank.put(documents(made))
        assert outlines(bank) == EXPECTED
        words = [number_of(word) for word in ("orion", "march", "vega")]
        assert [found.tolist() for found in bank.chunks_with(words)] == [[0, 1], [], []]


def test_a_bank_without_contexts_stays_without(made):
    with bank_of(made, None, context_tokens=0) as bank:
        bank.put(documents(made))
        assert outlines(bank) == [Outline(), Outline()]
        assert [found.tolist() for found in bank.chunks_with([number_of("final")])] == [[]]
        assert json.loads(made.lines(bank).splitlines()[0])["format"] == "mbc-bank-export-2"


def test_without_text_chunks_of_other_sizes_are_refused(made):
    bank, other = bank_of(made, None, keeps_text=False), bank_of(made, None, context_tokens=0)
    with bank, other, pytest.raises(BankError, match="not cut into the same chunks"):
        list(merge(bank, other))
