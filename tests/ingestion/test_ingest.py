"""Ingesting files with tiny models: what is memorised, left alone, replaced, removed and skipped."""

import gzip
import io
import json
import math
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import threading
from contextlib import closing, nullcontext
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from mbc_engine import ingest, open_bank
from mbc_engine.bank.exchange import undo_removal
from mbc_engine.errors import BankError, DataError, ModelError, ModelMismatch
from mbc_engine.events import ContentLost, DocumentsIngested, FilesLeftOut, IngestStarted
from mbc_engine.ingestion.ingest import ingest_stream
from mbc_engine.ingestion.workers import ChunkedDocument, FileRead, Workers, read_all
from mbc_engine.mini.model import save
from mbc_engine.paper.model import MBC
from mbc_engine.sources import Files
from mbc_engine.text import Skipped, find_files
from mbc_engine.text.document import Content
from tests.ingestion.conftest import last_of, lines, skipped, sources


@pytest.fixture(autouse=True)
def untimed(monkeypatch):
    """Commits and reports depend on what is done, however long it takes."""
    monkeypatch.setattr("mbc_engine.ingestion.ingest._COMMIT_SECONDS", math.inf)
    monkeypatch.setattr("mbc_engine.ingestion.ingest._REPORT_SECONDS", math.inf)


def write_rows(path, *names):
    path.write_text("\n".join(json.dumps({"id": name, "text": f"{name} moved to Bergen."}) for name in names))


def test_events_and_counts(model, bank, folder):
    started, *events = ingest(model, bank, [folder], batch_chunks=2)
    size = sum(path.stat().st_size for path in folder.glob("*.txt"))
    assert started == IngestStarted(4, size)
    assert [name for name, _ in skipped(events)] == ["picture.png"]
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


def test_truncated_file_loses_nothing(model, bank, tmp_path):
    path, noise = tmp_path / "rows.jsonl.gz", random.Random(0)
    rows = [json.dumps({"id": str(number), "text": f"{number}: {noise.randbytes(3000).hex()}"}) for number in range(60)]
    whole = gzip.compress("\n".join(rows).encode())
    path.write_bytes(whole)
    list(ingest(model, bank, [path]))
    before = lines(bank)
    path.write_bytes(whole[: len(whole) // 2])
    events = list(ingest(model, bank, [path], prune=True))
    assert skipped(events)[-1][0] == path.name
    assert (last_of(events).removed, lines(bank)) == (0, before)


def test_gone_files_are_told_and_pruned(model, bank, folder):
    list(ingest(model, bank, [folder]))
    for number in (1, 3):
        (folder / f"{number}.txt").unlink()
    last = last_of(ingest(model, bank, [folder], ignore=["0.txt"]))
    gone = tuple(str(folder / name) for name in ("1.txt", "3.txt"))
    assert (last.gone, last.gone_sources, last.removed) == (2, gone, 0)
    assert last_of(ingest(model, bank, [folder / "1.txt"], prune=True)).removed == 1
    with pytest.raises(DataError, match="does not exist"):  # the bank has nothing from it
        list(ingest(model, bank, [folder / "1.txt"], prune=True))
    shutil.rmtree(folder)
    with pytest.raises(DataError, match="does not exist"):
        list(ingest(model, bank, [folder]))
    last = last_of(ingest(model, bank, [folder], prune=True))
    assert (last.removed, last.pruned, last.bank_documents, last.gone) == (3, 3, 0, 0)
    assert undo_removal(bank) == (3, 3)
    assert sources(bank) == ["0.txt", "2.txt", "3.txt"]


def test_what_cannot_be_kept_for_an_undo_is_pruned_all_the_same(model, bank, folder, monkeypatch):
    list(ingest(model, bank, [folder]))
    (folder / "1.txt").unlink()
    refuse = Mock(side_effect=BankError("The disk is full."))
    monkeypatch.setattr("mbc_engine.ingestion.ingest.remove_undoably", refuse)
    last = last_of(ingest(model, bank, [folder], prune=True))
    assert (last.removed, last.pruned, sources(bank)) == (1, 0, ["0.txt", "2.txt", "3.txt"])


def test_losses_are_told_once(model, bank, folder, monkeypatch, tmp_path):
    monkeypatch.setattr("mbc_engine.text.decoding.PIECE_BYTES", 64)
    text = "Ada moved to Bergen.\n" * 10
    content = Content(text, text.encode(), losses=("3 pictures", "1 macro"))
    monkeypatch.setattr("mbc_engine.text.file_reader.read_rows", lambda *_: iter([content]))
    lost = [event for event in ingest(model, bank, [folder / "0.txt"]) if isinstance(event, ContentLost)]
    assert lost == [ContentLost(str(folder / "0.txt"), ("3 pictures", "1 macro"))]
    assert not any(isinstance(event, ContentLost) for event in ingest(model, bank, [folder / "0.txt"]))


def test_left_out_files_are_told(model, bank, folder):
    (folder / "venv").mkdir()
    (folder / ".gitignore").write_text("[01].txt")
    told = [event for event in ingest(model, bank, [folder]) if isinstance(event, FilesLeftOut)]
    assert told == [
        FilesLeftOut(".gitignore", 2, (str(folder / "0.txt"), str(folder / "1.txt"))),
        FilesLeftOut("installed software", 1, (str(folder / "venv") + os.sep,)),
    ]
    assert last_of(ingest(model, bank, [folder], is_choosy=False)).documents == 2


def test_prune(model, bank, folder, tmp_path):
    elsewhere = tmp_path / "newspaper.txt"
    elsewhere.write_text("Outside of the folder, though its name begins alike.")
    list(ingest(model, bank, [folder, elsewhere]))
    (folder / "1.txt").unlink()
    elsewhere.unlink()
    assert last_of(ingest(model, bank, [folder], prune=True)).removed == 1
    assert sources(bank) == ["0.txt", "2.txt", "3.txt", "newspaper.txt"]
    assert last_of(ingest(model, bank, [folder], ignore=["3.txt"], prune=True)).removed == 1
    assert sources(bank) == ["0.txt", "2.txt", "newspaper.txt"]
    (folder / "2.txt").unlink()
    (folder / "2.txt").symlink_to(folder / "2.txt")  # a loop: it cannot be looked at
    assert last_of(ingest(model, bank, [folder], prune=True)).removed == 0


def test_a_link_that_takes_a_files_place_is_not_followed(model, bank, folder, tmp_path):
    walked = find_files([folder], follow_links=False)
    (folder / "0.txt").rename(tmp_path / "outside.txt")
    (folder / "0.txt").symlink_to(tmp_path / "outside.txt")
    events = list(ingest(model, bank, walked, workers=2, follow_links=False))
    assert skipped(events)[1:] == [("0.txt", "is reached by a link")]
    assert sources(bank) == ["1.txt", "2.txt", "3.txt"]


def test_documents_in_other_languages_are_told(model, bank, folder):
    (folder / "german.txt").write_text("Die Brücke wurde nach dem Sturm von Ada repariert und ist wieder offen.")
    last = last_of(ingest(model, bank, [folder]))
    assert (last.not_english, last.not_english_sources) == (1, (str(folder / "german.txt"),))


def test_emptied_file_is_forgotten(model, bank, folder):
    write_rows(folder / "rows.jsonl", "ada", "bruno")
    list(ingest(model, bank, [folder]))
    (folder / "0.txt").write_text("  \n")
    (folder / "rows.jsonl").write_text("")
    last = last_of(ingest(model, bank, [folder]))
    assert (last.removed, last.unchanged) == (3, 3)
    assert sources(bank) == ["1.txt", "2.txt", "3.txt"]


def test_name_that_is_not_unicode_is_skipped(model, bank, folder):
    (folder / os.fsdecode(b"\xff.txt")).write_text("Nobody can say where this stands.")
    events = list(ingest(model, bank, [folder]))
    assert last_of(events).documents == 4
    assert [reason for _, reason in skipped(events)][1:] == ["has a name that is not UTF-8"]


def test_known_content_is_not_encoded_again(model, bank, folder, fresh_lines):
    (folder / "copy.txt").write_bytes((folder / "0.txt").read_bytes())
    last = last_of(ingest(model, bank, [folder]))
    assert (last.documents, last.bank_documents, bank.totals().origins) == (5, 4, 5)
    texts = [(folder / f"{number}.txt").read_text() for number in range(4)]
    (folder / "0.txt").write_text(texts[1])  # two change places, one moves
    (folder / "1.txt").write_text(texts[0])
    (folder / "2.txt").rename(folder / "moved.txt")
    last = last_of(ingest(model, bank, [folder], prune=True))
    assert (last.documents, last.chunks, last.removed, last.unchanged) == (3, 0, 1, 2)
    assert lines(bank) == fresh_lines(folder)


def test_bank_in_the_folder_is_not_reported(model, folder):
    with open_bank(model, folder / "b.mbc") as bank:
        assert [name for name, _ in skipped(ingest(model, bank, [folder]))] == ["picture.png"]


def test_bank_without_origins_knows_contents(model, folder, tmp_path):
    with open_bank(model, tmp_path / "b.mbc", keeps_origins=False) as bank:
        assert last_of(ingest(model, bank, [folder])).bank_documents == 4
        (folder / "0.txt").rename(folder / "renamed.txt")
        assert last_of(ingest(model, bank, [folder])).unchanged == 4


def test_workers_give_the_same_bank(model, bank, folder, fresh_lines):
    (folder / "rows.csv").write_text("title,text\nOne,The river rose.\nTwo,The bridge held.\nThree,\n")
    last = last_of(ingest(model, bank, [folder], workers=2, batch_chunks=3))
    assert lines(bank) == fresh_lines(folder)
    assert (last.documents, last.skipped) == (7, 1)
    (folder / "0.txt").write_text("Changed.")
    again = last_of(ingest(model, bank, [folder], workers=1))
    assert (again.documents, again.unchanged) == (1, 6)


def replace_steps(monkeypatch, steps):
    """Replace the steps in which models memorise."""
    original = MBC.memorise_stepwise
    monkeypatch.setattr(MBC, "memorise_stepwise", lambda model, *given: steps(original(model, *given)))


@pytest.fixture
def texts(model, tmp_path):
    """A file of a chunk, one of five and one of a chunk."""
    folder, text = tmp_path / "texts", ""
    folder.mkdir()
    while len(model.chunker.chunks(text)) < 5:
        text += "Ada moved to Bergen in the spring of that year. "
    for name, content in (("a", "Ada moved to Aalen."), ("b", text), ("c", "Clara stayed in Cadiz.")):
        (folder / f"{name}.txt").write_text(content)
    return folder


@pytest.mark.parametrize(("stop_at", "complete"), [(1, 1), (3, 1), (6, 2), (7, 3)])
def test_stop_during_encoding_keeps_complete_documents(model, bank, texts, fresh_lines, monkeypatch, stop_at, complete):
    stop, taken = threading.Event(), []

    def stopping(steps):
        with closing(steps):
            for step in steps:
                taken.append(step)
                if len(taken) == stop_at:
                    stop.set()
                yield step

    replace_steps(monkeypatch, stopping)
    last = last_of(ingest(model, bank, [texts], stop=stop))
    assert len(taken) == stop_at
    assert (last.documents, last.is_complete) == (complete, complete == 3)
    assert last.chunks == last.bank_chunks == (1, 6, 7)[complete - 1]
    assert sources(bank) == ["a.txt", "b.txt", "c.txt"][:complete]
    again = last_of(ingest(model, bank, [texts]))
    assert (again.documents, again.unchanged, again.is_complete) == (3 - complete, complete, True)
    assert lines(bank) == fresh_lines(texts)


def test_stop_before_the_start(model, bank, folder):
    stop = threading.Event()
    stop.set()
    started, last = ingest(model, bank, [folder], workers=1, stop=stop)
    assert started == IngestStarted(0, 0)
    assert not last_of([last]).is_complete
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("end", ["stop", "error"])
def test_removed_rows_stay_until_new_ones_are_stored(model, bank, tmp_path, monkeypatch, end):
    """What is encoded before a stop or an error is saved."""
    stop, path = threading.Event(), tmp_path / "rows.jsonl"

    def ending(steps):
        if end == "stop":
            stop.set()
        yield next(steps)
        raise ModelError("The codes are no numbers.")

    write_rows(path, "ada", "bruno")
    list(ingest(model, bank, [path]))
    write_rows(path, "clara", "dora")
    events = []
    with monkeypatch.context() as patch, nullcontext() if end == "stop" else pytest.raises(ModelError):
        replace_steps(patch, ending)
        events += ingest(model, bank, [path], stop=stop)
    assert end == "error" or last_of(events).removed == 0
    assert sources(bank) == ["rows.jsonl#ada", "rows.jsonl#bruno", "rows.jsonl#clara"]
    last = last_of(ingest(model, bank, [path]))
    assert (last.documents, last.unchanged, last.removed) == (1, 1, 2)
    assert sources(bank) == ["rows.jsonl#clara", "rows.jsonl#dora"]


@pytest.mark.parametrize("seed", range(3))
def test_order_of_encoding_does_not_matter(model, bank, texts, fresh_lines, monkeypatch, seed):
    """A GPU takes chunks of all documents together, sorted by length."""
    rng = random.Random(seed)
    for number in range(5):
        (texts / f"{number}.txt").write_text(f"Story {number} was told in the north. " * rng.randint(1, 30))
    expected = fresh_lines(texts)

    def mixed(steps):
        places, codes = zip(*steps, strict=True)
        order = list(range(len(places)))
        rng.shuffle(order)
        while order:
            chosen = [order.pop() for _ in range(min(len(order), rng.randint(1, 7)))]
            yield [places[index][0] for index in chosen], np.concatenate([codes[index] for index in chosen])

    replace_steps(monkeypatch, mixed)
    monkeypatch.setattr("mbc_engine.ingestion.ingest._COMMIT_SECONDS", rng.choice([0.0, math.inf]))
    last = last_of(ingest(model, bank, [texts], batch_chunks=rng.choice([1, 8, 128])))
    assert last.chunks == last.bank_chunks
    assert lines(bank) == expected


def test_progress_counts_chunks_and_bytes(model, bank, texts, monkeypatch):
    monkeypatch.setattr("mbc_engine.ingestion.ingest._REPORT_SECONDS", 0.0)
    events = ingest(model, bank, [texts])
    reports = [event for event in events if isinstance(event, DocumentsIngested) and event.chunks]
    assert [event.chunks for event in reports] == [1, 2, 3, 4, 5, 6, 7, 7]
    assert [event.documents for event in reports] == [0] * 7 + [3]
    one, five, other = ((texts / f"{name}.txt").stat().st_size for name in "abc")
    steps = [round(one + five * number / 5) for number in range(6)]
    assert [event.size for event in reports] == [*steps, one + five + other, one + five + other]
    assert "".join(Path(event.current).stem for event in reports) == "abbbbbcc"
    assert [event.files for event in reports] == [3] * 8


def test_overdue_documents_are_committed(model, bank, texts, monkeypatch):
    monkeypatch.setattr("mbc_engine.ingestion.ingest._COMMIT_SECONDS", 0.0)
    for event in ingest(model, bank, [texts]):
        if isinstance(event, DocumentsIngested):
            assert bank.totals().documents == event.documents
    reports = [event for event in ingest(model, bank, [texts]) if isinstance(event, DocumentsIngested)]
    assert [event.documents for event in reports] == [0]


@pytest.mark.parametrize("earlier", [128, 16])
def test_pieces_of_another_size_are_replaced(model, bank, tmp_path, fresh_lines, monkeypatch, earlier):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"Line {number} was told.\n" for number in range(20)))
    for size in (earlier, 64):
        monkeypatch.setattr("mbc_engine.text.decoding.PIECE_BYTES", size)
        assert last_of(ingest(model, bank, [path])).is_complete
    assert lines(bank) == fresh_lines(path)


def test_bank_of_another_model_is_refused(tiny, bank, folder, tmp_path):
    other = tiny.model()
    with torch.no_grad():
        other.codebook.books += 1
    for refused in (ingest(other, bank, [folder]), ingest_stream(other, bank, io.BytesIO(b"text"))):
        with pytest.raises(ModelMismatch, match="was written by model"):
            list(refused)
    with pytest.raises(ModelMismatch):
        open_bank(other, tmp_path / "b.mbc")


def test_text_column(model, bank, tmp_path):
    table = tmp_path / "reviews.csv"
    table.write_text("id,text,review\n1,Tent,It leaks in the rain.\n2,Stove,\n")

    def read(column=None):
        return last_of(ingest(model, bank, [table], text_column=column))

    def states():
        """The text of every row and the state of its file."""
        files = Files()
        looks = [files.look(origin, document.digest) for document in bank.documents() for origin in document.origins]
        return sorted((document.text if document else "", state) for state, document in looks)

    assert read().documents == 2
    tent = "id: 1; review: It leaks in the rain.\n\nTent"
    assert states() == [("Stove", "unchanged"), (tent, "unchanged")]
    assert read("review").bank_documents == 1
    assert states() == [(tent, "unchanged")]
    events = list(ingest(model, bank, [table], text_column="nothing"))
    assert skipped(events) == [("reviews.csv", "has no column named 'nothing'; its columns are id, text, review")]
    assert last_of(events).bank_documents == 1, "what was read before stays"
    table.write_text("id,text,review\n1,Tent,It leaks no more.\n")
    assert [state for _, state in states()] == ["changed"]


@pytest.mark.slow
def test_script_without_main_guard(tiny, folder, tmp_path):
    save(tiny.retriever_reader(), tmp_path / "model")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom mbc_engine import ingest, load_model, open_bank\n"
        "model = load_model(sys.argv[1])\n"
        "with open_bank(model, Path(sys.argv[2])) as bank:\n"
        "    print(list(ingest(model, bank, [Path(sys.argv[3])], workers=1)))\n"
    )
    command = [sys.executable, script, tmp_path / "model", tmp_path / "b.mbc", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "MBCError: The processes that read files cannot start." in done.stderr


@pytest.mark.slow
def test_file_that_crashes_its_worker_is_skipped(model, bank, folder):
    large = folder / "0.jsonl"  # more rows than are read ahead, so that it is in work when its process dies
    write_rows(large, *map(str, range(5000)))
    items = read_all([large, *sorted(folder.glob("*.txt"))], bank, model.chunker, workers=1)
    assert any(isinstance(item, ChunkedDocument) for item in items)
    (process,) = multiprocessing.active_children()
    process.kill()
    rest = list(items)
    crashed = Skipped(str(large), "crashed the process that read it")
    assert [item for item in rest if isinstance(item, Skipped)] == [crashed]
    names = [Path(item.document.source).name for item in rest if isinstance(item, ChunkedDocument)]
    assert names[-4:] == ["0.txt", "1.txt", "2.txt", "3.txt"]
    assert [item.lost for item in rest if isinstance(item, FileRead)] == [frozenset()] * 5


def test_file_that_takes_too_long_is_skipped(model, bank, folder, monkeypatch):
    (folder / "0.md").write_text("**a** [b](c)\n" * 40_000)
    monkeypatch.setattr("mbc_engine.ingestion.workers._MOST_SECONDS", 1e-6)
    items = list(read_all([folder / "0.md"], bank, model.chunker, workers=1))
    assert [item for item in items if item][1:] == [
        Skipped(str(folder / "0.md"), "takes too long to read"),
        FileRead(folder / "0.md", (folder / "0.md").stat().st_size),
    ]


def test_workers_end_with_their_ingest(model, bank, folder, monkeypatch):
    events = ingest(model, bank, [folder], workers=2, batch_chunks=1)
    assert any(isinstance(event, DocumentsIngested) for event in events)
    events.close()
    assert multiprocessing.active_children() == []
    with Workers(sorted(folder.glob("*.txt")), bank.path, model.chunker, 2):
        pass  # still starting
    assert multiprocessing.active_children() == []
    monkeypatch.setattr("mbc_engine.ingestion.workers._PATIENCE", 0.0)
    with closing(read_all([folder / "0.txt"], bank, model.chunker, workers=1)) as items:
        assert next(items) is None  # nobody waits for a process to start
