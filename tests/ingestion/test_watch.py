"""Watching a folder while it changes."""

import shutil
import threading
from pathlib import Path
from typing import Any

from mbc_engine import open_bank
from mbc_engine.events import IngestFinished
from mbc_engine.ingestion.run import watch


def test_what_changes_is_ingested_and_what_goes_is_pruned(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model, stop = tiny.model(), threading.Event()
    seen: list[tuple[int, int, int]] = []

    def new_files() -> None:
        (folder / "sub").mkdir()
        (folder / "sub" / "new.txt").write_text("A new story.")
        (folder / "ignored.txt").write_text("Not to be read.")

    steps = [
        new_files,
        lambda: (folder / "0.txt").write_text("Changed."),
        (folder / "1.txt").unlink,
        lambda: shutil.move(folder / "sub", folder / "moved"),
        stop.set,
    ]
    with open_bank(model, tmp_path / "b.mbc") as bank:
        for event in watch(model, bank, [folder], ignore=["ignored.txt"], prune=True, stop=stop):
            if isinstance(event, IngestFinished) and event.documents + event.removed:
                seen.append((event.documents, event.unchanged, event.removed))
                steps.pop(0)()
        names = sorted(Path(origin.source).name for document in bank.documents() for origin in document.origins)
    assert names == ["0.txt", "2.txt", "3.txt", "new.txt"]
    assert seen[0] == (4, 0, 0)
    assert seen[1] == (1, 0, 0)
    assert seen[2] == (1, 0, 0)
    assert seen[3] == (0, 0, 1)


def test_a_named_file_that_is_put_in_place_anew_is_followed(tiny: Any, tmp_path: Path) -> None:
    model, stop, path = tiny.model(), threading.Event(), tmp_path / "a.txt"
    path.write_text("First.")
    (tmp_path / "other.txt").write_text("Not named, not to be read.")
    texts = iter(["Second.", "Third."])

    def save() -> None:
        text = next(texts, None)
        if text is None:
            stop.set()
            return
        (tmp_path / "a.new").write_text(text)
        (tmp_path / "a.new").replace(path)

    with open_bank(model, tmp_path / "b.mbc") as bank:
        for event in watch(model, bank, [path], stop=stop):
            if isinstance(event, IngestFinished) and event.documents:
                save()
        assert [document.size for document in bank.documents()] == [len("Third.")]


def test_what_an_ignore_file_no_longer_names_is_read(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model, stop = tiny.model(), threading.Event()
    (folder / ".mbcignore").write_text("0.txt\n1.txt\n")
    steps = [lambda: (folder / ".mbcignore").write_text("2.txt\n"), stop.set]
    seen = []
    with open_bank(model, tmp_path / "b.mbc") as bank:
        for event in watch(model, bank, [folder], prune=True, stop=stop):
            if isinstance(event, IngestFinished) and event.documents:
                seen.append((event.documents, event.removed))
                steps.pop(0)()
    assert seen == [(2, 0), (2, 1)]


def test_a_watch_that_is_stopped_at_once_ends(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model, stop = tiny.model(), threading.Event()
    stop.set()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        last = list(watch(model, bank, [folder], stop=stop))[-1]
    assert isinstance(last, IngestFinished)
    assert not last.is_complete


def test_a_table_that_changes_is_read_with_the_same_column(tiny: Any, tmp_path: Path) -> None:
    model, stop, path = tiny.model(), threading.Event(), tmp_path / "a.csv"
    path.write_text("review,price\nIt leaks.,5\n")
    steps = [lambda: path.write_text("review,price\nIt leaks.,7\nIt burns.,9\n"), stop.set]
    seen: list[tuple[int, int]] = []
    with open_bank(model, tmp_path / "b.mbc") as bank:
        for event in watch(model, bank, [path], text_column="review", stop=stop):
            if isinstance(event, IngestFinished):
                seen.append((event.documents, event.unchanged))
                steps.pop(0)()
    assert seen == [(1, 0), (1, 1)]
