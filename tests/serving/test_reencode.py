"""A bank brought to another model: all or nothing, from the files as they are."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mbc_engine import MemoryBank, ingest, open_bank
from mbc_engine.bank import export
from mbc_engine.errors import BankError
from mbc_engine.events import DocumentsIngested, Event, FileSkipped, IngestFinished
from mbc_engine.model.bank_binding import signature
from mbc_engine.model.mbc import MBC
from mbc_engine.serving.reencode import reencode


@pytest.fixture
def other(tiny: Any) -> MBC:
    """A model with other codes, and more of them."""
    model: MBC = tiny.model("gpt2", "bert", "model.codebook.codes=16")
    return model


@pytest.fixture
def path(tiny: Any, folder: Path, tmp_path: Path) -> Path:
    """A bank of the folder."""
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
    return tmp_path / "b.mbc"


def finished(events: Iterator[Event]) -> IngestFinished:
    *_, last = events
    assert isinstance(last, IngestFinished)
    return last


def lines(path: Path) -> bytes:
    with MemoryBank.open(path, read_only=True) as bank:
        return b"".join(export(bank))


def test_a_reencoded_bank_is_one_ingested_by_the_new_model(
    other: MBC, path: Path, folder: Path, tmp_path: Path
) -> None:
    (folder / "0.txt").write_text("Changed since.")
    (folder / "new.txt").write_text("Not in the bank, and not to be.")
    last = finished(reencode(other, path))
    assert (last.documents, last.bank_documents) == (4, 4)
    with open_bank(other, tmp_path / "fresh.mbc") as fresh:
        list(ingest(other, fresh, [folder / f"{number}.txt" for number in range(4)]))
    assert lines(path) == lines(tmp_path / "fresh.mbc")
    assert not list(tmp_path.glob("*.reencoding*"))


def test_what_is_gone_is_listed_and_keeps_the_old_bank(other: MBC, path: Path, folder: Path) -> None:
    before = lines(path)
    text = (folder / "1.txt").read_text()
    (folder / "1.txt").unlink()
    events = []
    with pytest.raises(BankError, match="1 of 4 documents cannot be read any more") as caught:
        for event in reencode(other, path):
            events.append(event)  # noqa: PERF402
    assert caught.value.hint and "--drop-missing" in caught.value.hint
    assert [event for event in events if isinstance(event, FileSkipped)] == [
        FileSkipped(str(folder / "1.txt"), "is gone")
    ]
    assert lines(path) == before
    (folder / "1.txt").write_text(text)
    last = finished(reencode(other, path))
    assert (last.documents, last.unchanged) == (1, 3)
    with MemoryBank.open(path) as bank:
        assert bank.header.signature == signature(other)


def test_what_is_gone_may_be_let_go(other: MBC, path: Path, folder: Path) -> None:
    (folder / "1.txt").unlink()
    last = finished(reencode(other, path, drop_missing=True))
    assert last.bank_documents == 3


def test_a_stopped_reencoding_leaves_the_old_bank_and_goes_on(
    other: MBC, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mbc_engine.serving.reencode.BATCH_CHUNKS", 1)
    before, stop = lines(path), threading.Event()
    for event in reencode(other, path, stop=stop):
        if isinstance(event, DocumentsIngested):
            stop.set()
    assert lines(path) == before
    last = finished(reencode(other, path))
    assert (last.documents, last.unchanged) == (3, 1)


def test_work_begun_with_yet_another_model_is_begun_again(tiny: Any, other: MBC, path: Path, folder: Path) -> None:
    (folder / "1.txt").unlink()
    third = tiny.model("gpt2", "bert", "model.codebook.codes=4")
    with pytest.raises(BankError):
        list(reencode(third, path))
    last = finished(reencode(other, path, drop_missing=True))
    assert (last.documents, last.unchanged) == (3, 0)


def test_documents_added_meanwhile_are_not_lost(tiny: Any, other: MBC, path: Path, folder: Path) -> None:
    model = tiny.model()
    (folder / "late.txt").write_text("It came while the others were read.")
    with pytest.raises(BankError, match="was changed meanwhile"):
        for event in reencode(other, path):
            if isinstance(event, DocumentsIngested):
                with open_bank(model, path) as bank:
                    list(ingest(model, bank, [folder]))
    assert finished(reencode(other, path)).bank_documents == 5


def test_documents_removed_meanwhile_do_not_come_back(other: MBC, path: Path, folder: Path) -> None:
    with pytest.raises(BankError, match="was changed meanwhile"):
        for event in reencode(other, path):
            if isinstance(event, DocumentsIngested):
                with MemoryBank.open(path) as bank:
                    bank.remove([(str(folder / "0.txt"), "")])
    assert finished(reencode(other, path)).bank_documents == 3
    with MemoryBank.open(path) as bank:
        assert not bank.parts_of(str(folder / "0.txt"))


def test_a_file_that_comes_in_parts_by_now_is_not_missing(
    other: MBC, path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mbc_engine.documents.pieces.PIECE_BYTES", 64)
    (folder / "0.txt").write_text("It has grown, line by line.\n" * 5)
    assert finished(reencode(other, path)).is_complete
    with MemoryBank.open(path) as bank:
        assert bank.parts_of(str(folder / "0.txt")) == {"1", "2", "3"}


def test_a_bank_without_origins_says_that_it_cannot(tiny: Any, other: MBC, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "c.mbc", keeps_origins=False) as bank:
        list(ingest(model, bank, [folder]))
    with pytest.raises(BankError, match="does not know where"):
        list(reencode(other, tmp_path / "c.mbc"))
