"""Passages that queries lead to, with tiny models: the read's own chunks, and the texts they remember."""

from pathlib import Path
from typing import Any

import pytest

from mbc_engine import Memory, ingest, open_bank
from mbc_engine.bank import Selection
from mbc_engine.errors import BankError
from mbc_engine.paper.mbc import MBC
from mbc_engine.paper.memories import BankMemory

QUERIES = ["Who won?", "Where did it rain?"]


@pytest.fixture(scope="module")
def model(tiny: Any) -> MBC:
    return tiny.model("gpt2", "bert", "model.routing=true")


@pytest.mark.parametrize("read_mode", ["flat", "hierarchical:2", "routed:1"])
def test_passages_are_the_chunks_that_the_read_finds(model: MBC, folder: Path, tmp_path: Path, read_mode: str) -> None:
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        found = Memory(bank, model).search(QUERIES, top=3, read_mode=read_mode)
        reading = model.read(QUERIES, BankMemory(bank, model.require_codebook()), read_mode=read_mode, top=3)
        expected = [
            [(bank.chunks_at([own.chunk])[0].document.origins[0].source, own.share) for own in ranked]
            for ranked in reading.chunks
        ]
    assert [[(source.path, source.share) for source in own] for own in found] == expected
    assert {len(own) for own in found} == {3}
    for source in (source for own in found for source in own):
        assert (source.passage, source.sentence) == (Path(source.path).read_text(), None)


def test_one_document_may_give_several_passages(model: MBC, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text(
        " ".join(f"Story number {number} was told in the north." for number in range(30))
    )
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [tmp_path / "long.txt"]))
        chunks = bank.totals().chunks
        (found,) = Memory(bank, model).search(QUERIES[:1], top=100)
    assert len(found) == chunks > 2
    assert len({source.passage for source in found}) == chunks
    assert {source.path for source in found} == {str(tmp_path / "long.txt")}
    assert [source.share for source in found] == sorted((source.share for source in found), reverse=True)


def test_a_file_that_is_gone_leaves_no_passage(model: MBC, folder: Path, tmp_path: Path) -> None:
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        (folder / "1.txt").unlink()
        (found,) = Memory(bank, model).search(QUERIES[:1], top=4)
    assert {Path(source.path).stem: source.passage is None for source in found} == {
        "0": False,
        "1": True,
        "2": False,
        "3": False,
    }


def test_a_selection_leaves_documents_out(model: MBC, folder: Path, tmp_path: Path) -> None:
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        (found,) = Memory(bank, model).search(QUERIES[:1], top=4, selection=Selection(exclude=("2.txt",)))
    assert {Path(source.path).stem for source in found} == {"0", "1", "3"}


def test_an_empty_bank_is_refused(model: MBC, tmp_path: Path) -> None:
    with open_bank(model, tmp_path / "b.mbc") as bank, pytest.raises(BankError, match="is empty"):
        Memory(bank, model).search(QUERIES)
