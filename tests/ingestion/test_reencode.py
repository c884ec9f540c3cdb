"""Re-encoding a bank for another model: all or nothing, from the files as they are."""

import io
import threading

import pytest

from mbc_engine import MemoryBank, ingest, open_bank
from mbc_engine.bank.exchange import export
from mbc_engine.bank.text_codec import decode_chunk
from mbc_engine.errors import BankError
from mbc_engine.events import DocumentsIngested
from mbc_engine.ingestion.ingest import ingest_stream
from mbc_engine.ingestion.reencode import reencode
from mbc_engine.model import signature
from mbc_engine.paper.model import MBC
from tests.ingestion.conftest import last_of, skipped


@pytest.fixture
def other(tiny):
    """A model with other codes, and more of them."""
    model: MBC = tiny.model("gpt2", "bert", "model.codebook.codes=16")
    return model


@pytest.fixture
def path(model, folder, tmp_path):
    """A bank of the folder."""
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
    return tmp_path / "b.mbc"


def lines(path):
    with MemoryBank.open(path, read_only=True) as bank:
        return b"".join(export(bank))


def test_result_equals_a_new_ingest(other, path, folder, tmp_path, fresh_lines):
    (folder / "0.txt").write_text("Changed since.")
    (folder / "new.txt").write_text("Not in the bank, and not to be.")
    last = last_of(reencode(other, path))
    assert (last.documents, last.bank_documents) == (4, 4)
    assert lines(path) == fresh_lines(*(folder / f"{number}.txt" for number in range(4)), model=other)
    assert not list(tmp_path.glob("*.reencoding*"))


@pytest.mark.parametrize("is_begun", [False, True])
def test_bank_without_text(other, path, folder, monkeypatch, is_begun):
    monkeypatch.setattr(type(other), "keeps_text", True)
    if is_begun:  # as to a bank of the same name that kept text
        open_bank(other, path.with_name(f"{path.name}.reencoding"), keeps_text=True).close()
    last_of(reencode(other, path))
    with MemoryBank.open(path, read_only=True) as bank:
        assert not bank.header.keeps_text


def test_missing_file_keeps_the_old_bank(other, path, folder):
    before = lines(path)
    text = (folder / "1.txt").read_text()
    (folder / "1.txt").unlink()
    events = []
    with pytest.raises(BankError, match="1 of 4 documents can no longer be read") as caught:
        for event in reencode(other, path):
            events.append(event)  # noqa: PERF402
    assert caught.value.hint and "--drop-missing" in caught.value.hint
    assert skipped(events) == [("1.txt", "is gone")]
    assert lines(path) == before
    (folder / "1.txt").write_text(text)
    last = last_of(reencode(other, path))
    assert (last.documents, last.unchanged) == (1, 3)
    with MemoryBank.open(path) as bank:
        assert bank.header.signature == signature(other)


def test_unfinished_work_of_a_third_model_is_dropped(tiny, other, path, folder):
    (folder / "1.txt").unlink()
    third = tiny.model("gpt2", "bert", "model.codebook.codes=4")
    with pytest.raises(BankError):
        list(reencode(third, path))
    last = last_of(reencode(other, path, drop_missing=True))
    assert (last.documents, last.unchanged) == (3, 0)


@pytest.mark.parametrize("change", ["add", "remove"])
def test_documents_changed_meanwhile(model, other, path, folder, change):
    (folder / "late.txt").write_text("It came while the others were read.")
    with pytest.raises(BankError, match="was changed meanwhile"):
        for event in reencode(other, path):
            if isinstance(event, DocumentsIngested):
                with open_bank(model, path) as bank:
                    if change == "add":
                        list(ingest(model, bank, [folder]))
                    else:
                        bank.remove([(str(folder / "0.txt"), "")])
    assert last_of(reencode(other, path)).bank_documents == (5 if change == "add" else 3)
    with MemoryBank.open(path) as bank:
        assert bool(bank.parts_of(str(folder / "0.txt"))) == (change == "add")


def test_bank_without_origins_is_refused(model, other, folder, tmp_path):
    with open_bank(model, tmp_path / "c.mbc", keeps_origins=False) as bank:
        list(ingest(model, bank, [folder]))
    with pytest.raises(BankError, match="does not know where"):
        list(reencode(other, tmp_path / "c.mbc"))


@pytest.fixture
def with_texts(model, folder, tmp_path):
    """A bank of the folder, and of a text from standard input, that keeps its texts."""
    with open_bank(model, tmp_path / "t.mbc", keeps_text=True) as bank:
        list(ingest(model, bank, [folder]))
        list(ingest_stream(model, bank, io.BytesIO(b"Ada moved to Bergen.")))
    return tmp_path / "t.mbc"


def texts(path):
    with MemoryBank.open(path, read_only=True) as bank:
        return {
            origin.source: list(map(decode_chunk, own.texts))
            for own in bank.documents(whole=True)
            for origin in own.origins
        }


def test_missing_files_are_encoded_from_kept_texts(other, with_texts, folder, tmp_path):
    before = texts(with_texts)
    with open_bank(other, tmp_path / "fresh.mbc", keeps_text=True) as fresh:
        list(ingest(other, fresh, [folder]))
        list(ingest_stream(other, fresh, io.BytesIO(b"Ada moved to Bergen.")))
    (folder / "1.txt").unlink()
    (folder / "2.txt").unlink()
    events = list(reencode(other, with_texts))
    assert skipped(events) == []
    assert last_of(events).documents == 5
    assert texts(with_texts) == before
    assert lines(with_texts) == lines(tmp_path / "fresh.mbc")


def test_stop_among_kept_texts(other, with_texts, folder, monkeypatch):
    (folder / "1.txt").unlink()
    (folder / "2.txt").unlink()
    stop, before = threading.Event(), lines(with_texts)

    def stopping(model, texts, *contexts, whole=MBC.memorise_stepwise):
        for step in whole(model, texts, *contexts):
            if any("number 1" in text for text in texts):
                stop.set()
            yield step

    with monkeypatch.context() as patch:
        patch.setattr(MBC, "memorise_stepwise", stopping)
        last = last_of(reencode(other, with_texts, stop=stop))
    assert (last.documents, last.is_complete, lines(with_texts)) == (3, False, before)
    last = last_of(reencode(other, with_texts))
    assert (last.documents, last.unchanged, last.bank_documents) == (2, 2, 5)


def test_kept_texts_are_cut_to_a_shorter_window(tiny, with_texts, folder):
    narrow = tiny.model("gpt2", "bert", "model.codebook.codes=16", "model.documents.window=8")
    path = folder / "1.txt"
    text = path.read_text()
    assert len(texts(with_texts)[str(path)]) == 1
    path.unlink()
    assert last_of(reencode(narrow, with_texts)).is_complete
    kept = texts(with_texts)[str(path)]
    assert len(kept) > 1
    assert all(text[own.start :].startswith(own.text) for own in kept)
    assert "".join("".join(own.text for own in kept).split()) == "".join(text.split())


def test_pieces_of_another_size(model, other, folder, tmp_path, monkeypatch):
    """Earlier versions cut longer pieces."""
    long = folder / "long.txt"
    long.write_text("".join(f"Line {number} was told.\n" for number in range(20)))
    (folder / "rows.jsonl").write_text('{"id": "17", "text": "One."}\n{"id": "18", "text": "Two."}')
    monkeypatch.setattr("mbc_engine.text.decoding.PIECE_BYTES", 256)
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        bank.remove([(str(folder / "rows.jsonl"), "18")])
    monkeypatch.setattr("mbc_engine.text.decoding.PIECE_BYTES", 64)
    assert last_of(reencode(other, tmp_path / "b.mbc")).is_complete
    with MemoryBank.open(tmp_path / "b.mbc") as bank:
        assert bank.parts_of(str(long)) == {str(number) for number in range(1, 8)}
        assert bank.parts_of(str(folder / "rows.jsonl")) == {"17"}
