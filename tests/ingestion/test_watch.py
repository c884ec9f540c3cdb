"""Watching a folder while it changes."""

import shutil
import threading

import pytest

from mbc_engine.events import IngestFinished
from mbc_engine.ingestion.ingest import watch
from tests.ingestion.conftest import sources


def followed(steps, *given, **options):
    """Take a step after each ingest that changes something; returns documents, unchanged and removed ones of these."""
    stop, seen = threading.Event(), []
    remaining = iter([*steps, stop.set])
    for event in watch(*given, stop=stop, **options):
        if isinstance(event, IngestFinished) and event.documents + event.removed:
            seen.append((event.documents, event.unchanged, event.removed))
            next(remaining)()
    return seen


def test_changes_and_deletions(bank, model, folder):
    def new_files():
        (folder / "sub").mkdir()
        (folder / "sub" / "new.txt").write_text("A new story.")
        (folder / "ignored.txt").write_text("Not to be read.")

    steps = [
        new_files,
        lambda: (folder / "0.txt").write_text("Changed."),
        (folder / "1.txt").unlink,
        lambda: shutil.move(folder / "sub", folder / "moved"),
    ]
    seen = followed(steps, model, bank, [folder], ignore=["ignored.txt"], prune=True)
    assert sources(bank) == ["0.txt", "2.txt", "3.txt", "new.txt"]
    assert seen[:4] == [(4, 0, 0), (1, 0, 0), (1, 0, 0), (0, 0, 1)]


def test_replaced_file_is_followed(bank, model, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("First.")
    (tmp_path / "other.txt").write_text("Not named, not to be read.")

    def save(text):
        (tmp_path / "a.new").write_text(text)
        (tmp_path / "a.new").replace(path)

    followed([lambda: save("Second."), lambda: save("Third.")], model, bank, [path])
    assert [document.size for document in bank.documents()] == [len("Third.")]


@pytest.mark.timeout(60)
def test_folder_that_is_removed_or_replaced_is_followed(bank, model, folder):
    def make(text):
        folder.mkdir()
        (folder / "new.txt").write_text(text)

    def replace():
        folder.rename(folder.with_name("old"))
        make("Another.")

    def remake():  # in one go, so that it may get the number that the system gave to the old one
        shutil.rmtree(folder)
        make("The last.")

    def more():
        (folder / "more.txt").write_text(f"{len(sources(bank))} more.")

    steps = [lambda: shutil.rmtree(folder), lambda: make("New."), more, replace, more, remake, more]
    seen = followed(steps, model, bank, [folder], prune=True)
    changes = [(documents, removed) for documents, _, removed in seen]
    assert changes == [(4, 0), (0, 4), (1, 0), (1, 0), (1, 1), (1, 0), (1, 1), (1, 0)]
    assert sources(bank) == ["more.txt", "new.txt"]


def test_ignore_file_changes(bank, model, folder):
    (folder / ".mbcignore").write_text("0.txt\n1.txt\n")
    steps = [lambda: (folder / ".mbcignore").write_text("2.txt\n")]
    assert followed(steps, model, bank, [folder], prune=True) == [(2, 0, 0), (2, 1, 1)]


def test_table_keeps_its_text_column(bank, model, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("review,price\nIt leaks.,5\n,6\n")
    steps = [lambda: path.write_text("review,price\nIt leaks.,5\nIt burns.,9\n")]
    assert followed(steps, model, bank, [path], text_column="review") == [(1, 0, 0), (1, 1, 0)]
