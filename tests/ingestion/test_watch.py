"""Watching a folder while it changes."""

import shutil
import threading

from mbc_engine.events import IngestFinished
from mbc_engine.ingestion.run import watch
from tests.ingestion.conftest import sources


def test_changes_and_deletions(bank, model, folder):
    stop = threading.Event()
    seen: list[tuple[int, int, int]] = []

    def new_files():
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
    for event in watch(model, bank, [folder], ignore=["ignored.txt"], prune=True, stop=stop):
        if isinstance(event, IngestFinished) and event.documents + event.removed:
            seen.append((event.documents, event.unchanged, event.removed))
            steps.pop(0)()
    assert sources(bank) == ["0.txt", "2.txt", "3.txt", "new.txt"]
    assert seen[0] == (4, 0, 0)
    assert seen[1] == (1, 0, 0)
    assert seen[2] == (1, 0, 0)
    assert seen[3] == (0, 0, 1)


def test_replaced_file_is_followed(bank, model, tmp_path):
    stop, path = threading.Event(), tmp_path / "a.txt"
    path.write_text("First.")
    (tmp_path / "other.txt").write_text("Not named, not to be read.")
    texts = iter(["Second.", "Third."])

    def save():
        text = next(texts, None)
        if text is None:
            stop.set()
            return
        (tmp_path / "a.new").write_text(text)
        (tmp_path / "a.new").replace(path)

    for event in watch(model, bank, [path], stop=stop):
        if isinstance(event, IngestFinished) and event.documents:
            save()
    assert [document.size for document in bank.documents()] == [len("Third.")]


def test_ignore_file_changes(bank, model, folder):
    stop = threading.Event()
    (folder / ".mbcignore").write_text("0.txt\n1.txt\n")
    steps = [lambda: (folder / ".mbcignore").write_text("2.txt\n"), stop.set]
    seen = []
    for event in watch(model, bank, [folder], prune=True, stop=stop):
        if isinstance(event, IngestFinished) and event.documents:
            seen.append((event.documents, event.removed))
            steps.pop(0)()
    assert seen == [(2, 0), (2, 1)]


def test_table_keeps_its_text_column(bank, model, tmp_path):
    stop, path = threading.Event(), tmp_path / "a.csv"
    path.write_text("review,price\nIt leaks.,5\n,6\n")
    steps = [lambda: path.write_text("review,price\nIt leaks.,5\nIt burns.,9\n"), stop.set]
    seen: list[tuple[int, int]] = []
    for event in watch(model, bank, [path], text_column="review", stop=stop):
        if isinstance(event, IngestFinished):
            seen.append((event.documents, event.unchanged))
            steps.pop(0)()
    assert seen == [(1, 0), (1, 1)]
