"""Ingesting files with tiny models: what is memorised, left alone, replaced, removed and skipped."""

import gzip
import io
import json
import math
import multiprocessing
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mbc_engine import MemoryBank, ingest, open_bank
from mbc_engine.bank import export
from mbc_engine.errors import DataError, ModelMismatch
from mbc_engine.events import DocumentsIngested, FileSkipped, IngestFinished, IngestStarted
from mbc_engine.ingestion.reading import Item, chunked
from mbc_engine.ingestion.run import Run, ingest_stream
from mbc_engine.paper.checkpoint import save_model
from mbc_engine.paper.mbc import MBC
from mbc_engine.sources import Files
from mbc_engine.text import Document


@pytest.fixture(autouse=True)
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits and reports depend on what is done, however long it takes."""
    monkeypatch.setattr("mbc_engine.ingestion.run._COMMIT_SECONDS", math.inf)
    monkeypatch.setattr("mbc_engine.ingestion.run._REPORT_SECONDS", math.inf)


def last_of(events: Any) -> IngestFinished:
    *_, last = events
    assert isinstance(last, IngestFinished)
    return last


def sources(bank: MemoryBank) -> list[str]:
    """Names of the bank's sources, without folders."""
    return sorted(Path(origin.name).name for document in bank.documents() for origin in document.origins)


def lines(bank: MemoryBank) -> bytes:
    return b"".join(export(bank))


def test_an_ingest_is_counted_and_repeated_without_work(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        started, *events = ingest(model, bank, [folder], batch_chunks=2)
        size = sum(path.stat().st_size for path in folder.glob("*.txt"))
        assert started == IngestStarted(4, size)
        assert [event.source for event in events if isinstance(event, FileSkipped)] == [str(folder / "picture.png")]
        progress = [event for event in events if isinstance(event, DocumentsIngested)]
        assert [event.documents for event in progress] == [2, 4, 4]
        assert progress[-1].size == size
        last = last_of(events)
        assert (last.documents, last.unchanged, last.removed, last.skipped) == (4, 0, 0, 1)
        assert (last.bank_documents, last.chunks) == (4, last.bank_chunks)
        assert 0 < last.encoding <= last.seconds
        before = lines(bank)
        again = last_of(ingest(model, bank, [folder]))
        assert (again.documents, again.unchanged, again.encoding) == (0, 4, 0)
        assert lines(bank) == before


def test_reports_name_every_file_once(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()

    def named(bank: MemoryBank) -> list[str]:
        events = ingest(model, bank, [folder / f"{number}.txt" for number in (2, 0, 1)], batch_chunks=1)
        reports = [event for event in events if isinstance(event, DocumentsIngested)]
        return [Path(source).name for report in reports for source in report.sources]

    with open_bank(model, tmp_path / "b.mbc") as bank:
        assert named(bank) == ["2.txt", "0.txt", "1.txt"]
        assert named(bank) == ["2.txt", "0.txt", "1.txt"]
    with open_bank(model, tmp_path / "nameless.mbc", keeps_origins=False) as bank:
        assert named(bank) == []


def test_a_changed_file_replaces_its_codes(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank, open_bank(model, tmp_path / "fresh.mbc") as fresh:
        list(ingest(model, bank, [folder]))
        (folder / "0.txt").write_text("Another text altogether.")
        last = last_of(ingest(model, bank, [folder]))
        assert (last.documents, last.unchanged, last.bank_documents) == (1, 3, 4)
        list(ingest(model, fresh, [folder]))
        assert lines(bank) == lines(fresh)


def test_a_content_under_two_names_is_kept_once(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    (folder / "copy.txt").write_bytes((folder / "0.txt").read_bytes())
    with open_bank(model, tmp_path / "b.mbc") as bank:
        last = last_of(ingest(model, bank, [folder]))
        assert (last.documents, last.bank_documents) == (5, 4)
        assert bank.totals().origins == 5


def test_rows_that_a_file_has_lost_are_forgotten(tiny: Any, tmp_path: Path) -> None:
    model, path = tiny.model(), tmp_path / "rows.jsonl"
    rows = [json.dumps({"id": name, "text": f"{name} moved to Bergen."}) for name in ("ada", "bruno", "clara")]
    path.write_text("\n".join(rows))
    with open_bank(model, tmp_path / "b.mbc") as bank:
        assert last_of(ingest(model, bank, [path])).documents == 3
        path.write_text("\n".join([*rows[1:], json.dumps({"id": "dora", "text": "Dora stayed."})]))
        last = last_of(ingest(model, bank, [path]))
        assert (last.documents, last.unchanged, last.removed) == (1, 2, 1)
        assert sources(bank) == ["rows.jsonl#bruno", "rows.jsonl#clara", "rows.jsonl#dora"]


def test_a_file_that_cannot_be_read_to_its_end_loses_nothing(tiny: Any, tmp_path: Path) -> None:
    model, path = tiny.model(), tmp_path / "rows.jsonl.gz"
    noise = random.Random(0)
    rows = [
        json.dumps({"id": str(number), "text": f"Story {number}: {noise.randbytes(3000).hex()}"})
        for number in range(60)
    ]
    whole = gzip.compress("\n".join(rows).encode())
    path.write_bytes(whole)
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [path]))
        before = lines(bank)
        path.write_bytes(whole[: len(whole) // 2])
        *events, last = ingest(model, bank, [path], prune=True)
        assert [event.source for event in events if isinstance(event, FileSkipped)][-1] == str(path)
        assert isinstance(last, IngestFinished)
        assert (last.removed, lines(bank)) == (0, before)


def test_pruning_forgets_what_is_gone_and_nothing_else(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model, elsewhere = tiny.model(), tmp_path / "newspaper.txt"
    elsewhere.write_text("Outside of the folder, though its name begins alike.")
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder, elsewhere]))
        (folder / "1.txt").unlink()
        elsewhere.unlink()
        assert last_of(ingest(model, bank, [folder])).removed == 0
        assert last_of(ingest(model, bank, [folder], prune=True)).removed == 1
        assert sources(bank) == ["0.txt", "2.txt", "3.txt", "newspaper.txt"]
        assert last_of(ingest(model, bank, [folder], ignore=["3.txt"], prune=True)).removed == 1
        assert sources(bank) == ["0.txt", "2.txt", "newspaper.txt"]


def test_pruning_spares_what_cannot_be_looked_at(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        (folder / "2.txt").unlink()
        (folder / "2.txt").symlink_to(folder / "2.txt")  # a loop
        assert last_of(ingest(model, bank, [folder], prune=True)).removed == 0


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_file_that_was_emptied_is_forgotten(tiny: Any, folder: Path, tmp_path: Path, workers: int) -> None:
    model = tiny.model()
    (folder / "rows.jsonl").write_text('{"id": 1, "text": "One."}\n{"id": 2, "text": "Two."}\n')
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(ingest(model, bank, [folder]))
        (folder / "0.txt").write_text("  \n")
        (folder / "rows.jsonl").write_text("")
        last = last_of(ingest(model, bank, [folder], workers=workers))
        assert (last.removed, last.unchanged) == (3, 3)
        assert sources(bank) == ["1.txt", "2.txt", "3.txt"]


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_name_that_is_not_unicode_is_skipped(tiny: Any, folder: Path, tmp_path: Path, workers: int) -> None:
    model = tiny.model()
    (folder / os.fsdecode(b"\xff.txt")).write_text("Nobody can say where this stands.")
    with open_bank(model, tmp_path / "b.mbc") as bank:
        *events, last = ingest(model, bank, [folder], workers=workers)
        assert isinstance(last, IngestFinished)
        assert (last.documents, last.skipped) == (4, 2)
        assert [event.reason for event in events if isinstance(event, FileSkipped)][1:] == [
            "has a name that is not UTF-8"
        ]


def test_a_content_under_another_name_is_not_encoded_again(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank, open_bank(model, tmp_path / "fresh.mbc") as fresh:
        list(ingest(model, bank, [folder]))
        texts = [(folder / f"{number}.txt").read_text() for number in range(4)]
        (folder / "0.txt").write_text(texts[1])  # two change places, one moves
        (folder / "1.txt").write_text(texts[0])
        (folder / "2.txt").rename(folder / "moved.txt")
        last = last_of(ingest(model, bank, [folder], prune=True))
        assert (last.documents, last.chunks, last.removed, last.unchanged) == (3, 0, 1, 1)
        list(ingest(model, fresh, [folder]))
        assert lines(bank) == lines(fresh)


def test_the_bank_may_lie_in_the_folder(tiny: Any, folder: Path) -> None:
    model = tiny.model()
    with open_bank(model, folder / "b.mbc") as bank:
        *events, _ = ingest(model, bank, [folder])
        assert [Path(event.source).name for event in events if isinstance(event, FileSkipped)] == ["picture.png"]


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_told_what_it_lacks(tiny: Any, folder: Path, tmp_path: Path) -> None:
    save_model(tiny.model(), tiny.config(), tmp_path / "model")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom mbc_engine import ingest, load_model, open_bank\n"
        "model = load_model(sys.argv[1])\n"
        "with open_bank(model, Path(sys.argv[2])) as bank:\n"
        "    print(list(ingest(model, bank, [Path(sys.argv[3])], workers=1)))\n"
    )
    done = subprocess.run(
        [sys.executable, script, tmp_path / "model", tmp_path / "b.mbc", folder], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "MBCError: The processes that read files cannot start." in done.stderr


def test_ignored_files_are_neither_read_nor_reported(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        last = last_of(ingest(model, bank, [folder], ignore=["*.png", "[12].txt"]))
        assert (last.documents, last.skipped) == (2, 0)


def test_a_bank_without_origins_knows_contents(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc", keeps_origins=False) as bank:
        assert last_of(ingest(model, bank, [folder])).bank_documents == 4
        assert last_of(ingest(model, bank, [folder])).unchanged == 4
        (folder / "0.txt").rename(folder / "renamed.txt")
        assert last_of(ingest(model, bank, [folder])).unchanged == 4


@pytest.mark.parametrize("batch_chunks", [3, pytest.param(256, marks=pytest.mark.slow)])
def test_processes_that_read_ahead_give_the_same_bank(
    tiny: Any, folder: Path, tmp_path: Path, batch_chunks: int
) -> None:
    model = tiny.model()
    (folder / "rows.csv").write_text("title,text\nOne,The river rose.\nTwo,The bridge held.\nThree,\n")
    with open_bank(model, tmp_path / "a.mbc") as alone, open_bank(model, tmp_path / "b.mbc") as helped:
        one = last_of(ingest(model, alone, [folder]))
        two = last_of(ingest(model, helped, [folder], workers=2, batch_chunks=batch_chunks))
        assert lines(alone) == lines(helped)
        assert (one.documents, one.skipped) == (two.documents, two.skipped) == (6, 2)
        (folder / "0.txt").write_text("Changed.")
        again = last_of(ingest(model, helped, [folder], workers=2))
        assert (again.documents, again.unchanged) == (1, 5)


def test_a_stop_ends_before_the_next_batch_and_the_next_ingest_goes_on(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model, stop = tiny.model(), threading.Event()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        documents = []
        for event in ingest(model, bank, [folder], batch_chunks=1, prune=True, stop=stop):
            if isinstance(event, DocumentsIngested):
                documents.append(event.documents)
                stop.set()
        assert documents == [1]
        assert bank.totals().documents == 1
        last = last_of(ingest(model, bank, [folder]))
        assert (last.documents, last.unchanged) == (3, 1)


Step = tuple[Sequence[int], np.ndarray]
Steps = Generator[Step, None, None]


def stepping(monkeypatch: pytest.MonkeyPatch, steps: Callable[[Steps], Steps]) -> None:
    """Replace the steps in which models memorise."""
    whole = MBC.memorise_stepwise
    monkeypatch.setattr(MBC, "memorise_stepwise", lambda model, texts: steps(whole(model, texts)))


@pytest.fixture
def long_and_short(tiny: Any, tmp_path: Path) -> Path:
    """A file of a chunk, one of five and one of a chunk."""
    folder = tmp_path / "texts"
    folder.mkdir()
    chunker, sentence = tiny.model().documents.chunker, "Ada moved to Bergen in the spring of that year. "
    text = ""
    while len(chunker.chunks(text)) < 5:
        text += sentence
    for name, written in (("a", "Ada moved to Aalen."), ("b", text), ("c", "Clara stayed in Cadiz.")):
        (folder / f"{name}.txt").write_text(written)
        assert len(chunker.chunks(written)) == (5 if name == "b" else 1)
    return folder


@pytest.mark.parametrize(("stop_at", "whole"), [(1, 1), (3, 1), (6, 2)])
def test_a_stop_amid_encoding_keeps_the_documents_that_are_whole(
    tiny: Any, long_and_short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int, whole: int
) -> None:
    model, stop, taken = tiny.model(), threading.Event(), []

    def stopping(steps: Steps) -> Steps:
        with closing(steps):
            for step in steps:
                taken.append(step)
                if len(taken) == stop_at:
                    stop.set()
                yield step

    stepping(monkeypatch, stopping)
    with open_bank(model, tmp_path / "b.mbc") as bank, open_bank(model, tmp_path / "fresh.mbc") as fresh:
        last = last_of(ingest(model, bank, [long_and_short], stop=stop))
        assert len(taken) == stop_at
        assert (last.documents, last.is_complete) == (whole, False)
        assert last.chunks == last.bank_chunks == (1, 6)[whole - 1]
        assert sources(bank) == ["a.txt", "b.txt"][:whole]
        again = last_of(ingest(model, bank, [long_and_short]))
        assert (again.documents, again.unchanged, again.is_complete) == (3 - whole, whole, True)
        list(ingest(model, fresh, [long_and_short]))
        assert lines(bank) == lines(fresh)


def test_a_stop_with_the_last_chunk_comes_too_late(
    tiny: Any, long_and_short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, stop = tiny.model(), threading.Event()

    def stopping(steps: Steps) -> Steps:
        for places, codes in steps:
            if 6 in places:
                stop.set()
            yield places, codes

    stepping(monkeypatch, stopping)
    with open_bank(model, tmp_path / "b.mbc") as bank:
        last = last_of(ingest(model, bank, [long_and_short], stop=stop))
        assert (last.documents, last.is_complete) == (3, True)


def test_a_stop_before_anything_reads_nothing(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model, stop = tiny.model(), threading.Event()
    stop.set()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        started, last = ingest(model, bank, [folder], workers=1, stop=stop)
        assert started == IngestStarted(0, 0)
        assert isinstance(last, IngestFinished)
        assert not last.is_complete
        assert multiprocessing.active_children() == []


def test_what_a_file_has_lost_stays_until_what_it_has_got_is_there(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, stop, path = tiny.model(), threading.Event(), tmp_path / "rows.jsonl"

    def written(*names: str) -> None:
        path.write_text("\n".join(json.dumps({"id": name, "text": f"{name} moved."}) for name in names))

    def stopping(steps: Steps) -> Steps:
        stop.set()
        yield next(steps)

    with open_bank(model, tmp_path / "b.mbc") as bank:
        written("ada", "bruno")
        list(ingest(model, bank, [path]))
        written("clara", "dora")
        with monkeypatch.context() as patch:
            stepping(patch, stopping)
            last = last_of(ingest(model, bank, [path], stop=stop))
        assert (last.documents, last.removed) == (1, 0)
        assert sources(bank) == ["rows.jsonl#ada", "rows.jsonl#bruno", "rows.jsonl#clara"]
        last = last_of(ingest(model, bank, [path]))
        assert (last.documents, last.unchanged, last.removed) == (1, 1, 2)
        assert sources(bank) == ["rows.jsonl#clara", "rows.jsonl#dora"]


@pytest.mark.parametrize("seed", range(3))
def test_the_bank_is_the_same_whatever_the_model_takes_at_a_time(
    tiny: Any, long_and_short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A GPU takes chunks of all documents together, sorted by length."""
    model, rng = tiny.model(), random.Random(seed)
    for number in range(5):
        (long_and_short / f"{number}.txt").write_text(f"Story {number} was told in the north. " * rng.randint(1, 30))
    with open_bank(model, tmp_path / "serial.mbc") as serial:
        list(ingest(model, serial, [long_and_short]))
        before = lines(serial)

    def mixed(steps: Steps) -> Steps:
        places, codes = zip(*steps, strict=True)
        order = list(range(len(places)))
        rng.shuffle(order)
        while order:
            chosen = [order.pop() for _ in range(min(len(order), rng.randint(1, 7)))]
            yield [places[place][0] for place in chosen], np.concatenate([codes[place] for place in chosen])

    stepping(monkeypatch, mixed)
    monkeypatch.setattr("mbc_engine.ingestion.run._COMMIT_SECONDS", rng.choice([0.0, math.inf]))
    with open_bank(model, tmp_path / "b.mbc") as bank:
        last = last_of(ingest(model, bank, [long_and_short], batch_chunks=rng.choice([1, 8, 128])))
        assert last.chunks == last.bank_chunks
        assert lines(bank) == before


def test_every_step_is_reported_and_bytes_grow_with_it(
    tiny: Any, long_and_short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mbc_engine.ingestion.run._REPORT_SECONDS", 0.0)
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        started, *events = ingest(model, bank, [long_and_short])
        assert isinstance(started, IngestStarted)
        reports = [event for event in events if isinstance(event, DocumentsIngested) and event.chunks]
        assert [event.chunks for event in reports] == [1, 2, 3, 4, 5, 6, 7, 7]
        assert [event.documents for event in reports] == [0] * 7 + [3]
        sizes = [(long_and_short / f"{name}.txt").stat().st_size for name in "abc"]
        fifths = [sizes[1] * number / 5 for number in range(1, 6)]
        assert [event.size for event in reports] == [
            sizes[0], *(round(sizes[0] + fifth) for fifth in fifths), started.size, started.size
        ]  # fmt: skip


def test_a_document_is_committed_when_the_last_commit_is_long_ago(
    tiny: Any, long_and_short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mbc_engine.ingestion.run._COMMIT_SECONDS", 0.0)
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        for event in ingest(model, bank, [long_and_short]):
            if isinstance(event, DocumentsIngested):
                assert bank.totals().documents == event.documents
        documents = [
            event.documents for event in ingest(model, bank, [long_and_short]) if isinstance(event, DocumentsIngested)
        ]
        assert documents == [0]


def test_what_waits_is_encoded_while_nothing_more_comes(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, encoded = tiny.model(), []

    def noted(steps: Steps) -> Steps:
        for step in steps:
            encoded.append(step)
            yield step

    def items(bank: MemoryBank) -> Generator[Item | None, None, None]:
        chunker = model.documents.chunker
        yield chunked(Document("/a.txt", "", "One.", "aa" * 32, 4), bank, chunker, 4)
        assert not encoded
        yield None
        assert len(encoded) == 1

    stepping(monkeypatch, noted)
    with open_bank(model, tmp_path / "b.mbc") as bank:
        list(Run(model, bank, 128, None).memorise(items(bank)))
        assert bank.totals().documents == 1


@pytest.mark.parametrize("earlier", [128, 16])
def test_pieces_of_another_size_are_replaced(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: int
) -> None:
    model, path = tiny.model(), tmp_path / "a.txt"
    path.write_text("".join(f"Line {number} was told.\n" for number in range(20)))
    with open_bank(model, tmp_path / "b.mbc") as bank, open_bank(model, tmp_path / "fresh.mbc") as fresh:
        monkeypatch.setattr("mbc_engine.text.decoding.PIECE_BYTES", earlier)
        list(ingest(model, bank, [path]))
        monkeypatch.setattr("mbc_engine.text.decoding.PIECE_BYTES", 64)
        assert last_of(ingest(model, bank, [path])).is_complete
        list(ingest(model, fresh, [path]))
        assert lines(bank) == lines(fresh)


def test_an_abandoned_ingest_ends_its_processes(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        events = ingest(model, bank, [folder], workers=2, batch_chunks=1)
        assert any(isinstance(event, DocumentsIngested) for event in events)
        events.close()  # type: ignore[attr-defined]
        assert multiprocessing.active_children() == []


def test_a_stream_is_memorised_under_its_content(tiny: Any, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        assert last_of(ingest_stream(model, bank, io.BytesIO(b"Ada moved to Bergen."))).documents == 1
        assert last_of(ingest_stream(model, bank, io.BytesIO(b"Ada moved to Bergen."))).unchanged == 1
        assert last_of(ingest_stream(model, bank, io.BytesIO(b""))).skipped == 1
        (document,) = bank.documents()
        assert document.origins[0].source.startswith("stdin:")


def test_another_models_bank_is_not_filled(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model, other = tiny.model(), tiny.model()
    with torch.no_grad():
        other.codebook.books += 1
    with open_bank(model, tmp_path / "b.mbc") as bank:
        for refused in (ingest(other, bank, [folder]), ingest_stream(other, bank, io.BytesIO(b"text"))):
            with pytest.raises(ModelMismatch, match="was written by model"):
                list(refused)
        with pytest.raises(ModelMismatch):
            open_bank(other, tmp_path / "b.mbc")


def test_a_path_that_does_not_exist_is_reported_before_anything_is_done(tiny: Any, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank, pytest.raises(DataError, match="does not exist"):
        next(iter(ingest(model, bank, [tmp_path / "nowhere"])))


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_rows_are_read_with_the_column_that_is_named_and_found_again(tiny: Any, tmp_path: Path, workers: int) -> None:
    model, table = tiny.model(), tmp_path / "reviews.csv"
    table.write_text("id,text,review\n1,Tent,It leaks in the rain.\n2,Stove,It burns well.\n")
    source = str(table.resolve())

    def states(bank: MemoryBank) -> list[tuple[str, str]]:
        """The text of every row and the state of its file."""
        files = Files()
        looks = [files.look(origin, own.digest) for own in bank.documents() for origin in own.origins]
        return sorted((document.text, state) for state, document in looks if document)

    with open_bank(model, tmp_path / "b.mbc") as bank:
        assert last_of(ingest(model, bank, [table], workers=workers)).documents == 2
        assert states(bank) == [("Stove", "unchanged"), ("Tent", "unchanged")]
        again = last_of(ingest(model, bank, [table], workers=workers, text_column="review"))
        assert (again.documents, again.bank_documents) == (2, 2)
        assert states(bank) == [("It burns well.", "unchanged"), ("It leaks in the rain.", "unchanged")]
        assert last_of(ingest(model, bank, [table], workers=workers, text_column="review")).unchanged == 2
        *events, last = ingest(model, bank, [table], workers=workers, text_column="nothing")
        skipped = [event for event in events if isinstance(event, FileSkipped)]
        reason = "has no column named 'nothing'; its columns are id, text, review"
        assert skipped == [FileSkipped(source, reason)]
        assert last_of([last]).bank_documents == 2, "what was read before stays"
        table.write_text("id,text,review\n1,Tent,It leaks no more.\n")
        files = Files()
        found = {origin.part: files.look(origin, own.digest)[0] for own in bank.documents() for origin in own.origins}
        assert found == {"1": "changed", "2": "gone"}
