"""Files into a bank and answers out of it, with tiny models."""

import threading
from pathlib import Path
from typing import Any

import pytest

from mbc_engine import Recall, ingest, open_bank
from mbc_engine.errors import BankError, ModelMismatch
from mbc_engine.events import FilesIngested, FileSkipped, IngestFinished


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "news"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text(f"Story number {number}. It rained in the north. Nobody won.")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder


def test_an_ingest_is_counted_and_repeated_without_work(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        first = list(ingest(model, bank, [folder], batch_chunks=2))
        assert [event.source for event in first if isinstance(event, FileSkipped)] == [str(folder / "picture.png")]
        assert isinstance(first[-1], IngestFinished)
        assert (first[-1].files, first[-1].unchanged, first[-1].skipped) == (4, 0, 1)
        counts = bank.counts()
        again = list(ingest(model, bank, [folder]))[-1]
        assert isinstance(again, IngestFinished)
        assert (again.files, again.unchanged) == (0, 4)
        assert (bank.counts() == counts).all()


def test_a_changed_file_replaces_its_codes(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        (folder / "0.txt").write_text("Another text altogether.")
        last = list(ingest(model, bank, [folder]))[-1]
        assert isinstance(last, IngestFinished)
        assert (last.files, last.unchanged, last.bank_documents) == (1, 3, 4)


def test_a_stop_commits_what_was_read_and_ends(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model, stop = tiny.model(), threading.Event()
    stop.set()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        events = list(ingest(model, bank, [folder], stop=stop))
        assert [event.files for event in events if isinstance(event, FilesIngested)] == [1]
        assert bank.num_documents == 1


def test_another_models_bank_is_neither_filled_nor_asked(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model, other = tiny.model(), tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        other.codebook.books.data.add_(1)
        with pytest.raises(ModelMismatch):
            list(ingest(other, bank, [folder]))
        with pytest.raises(ModelMismatch):
            Recall(other, bank)


def test_an_answer_names_sources_and_what_became_of_them(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        (folder / "1.txt").unlink()
        (folder / "2.txt").write_text("Changed since.")
        reply = Recall(model, bank).ask(["Who won?"], sources=4)[0]
    states = {Path(source.path).stem: source.state for source in reply.sources}
    assert states == {"0": "unchanged", "1": "gone", "2": "changed", "3": "unchanged"}
    assert all((source.sentence is None) == (source.state != "unchanged") for source in reply.sources)
    assert sum(source.share for source in reply.sources) == pytest.approx(1, abs=1e-4)


def test_sides_with_encoders_of_different_width_find_sentences(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model("gpt2", "t5", f"model.questions.name={tiny.encoders['bert']}")
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        reply = Recall(model, bank).ask(["Who won?"])[0]
    assert reply.sources[0].sentence in Path(reply.sources[0].path).read_text()


def test_an_empty_bank_says_so(tiny: Any, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank, pytest.raises(BankError, match="is empty"):
        Recall(model, bank).ask(["Who?"])
