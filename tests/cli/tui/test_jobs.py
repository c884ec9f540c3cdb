"""Jobs: what is reported about the model and its bank, and what is found, removed and restored."""

import queue
import threading

import pytest

from mbc_cli.tui.jobs import (
    AnswerWorker,
    explain_codes,
    read_document,
    remove_documents,
    restore_documents,
    search_documents,
)
from mbc_engine.answer import AskOptions
from mbc_engine.text import read_file
from tests.cli.stub_memory import answer
from tests.needs import PATIENCE


@pytest.fixture
def states():
    """The states of the model, as they are reported."""
    return queue.Queue()


@pytest.fixture
def worker(options, states, memory):
    def call(function, *arguments):
        return function(*arguments)

    worker = AnswerWorker(options, call, lambda state, *_: states.put(state), print, print)
    yield worker
    worker.close()


def test_a_cancelled_question_is_not_followed_up_on(worker, memory):
    def reply(question):
        if question == "Where did Bea move?":
            worker.cancel(2)
        return answer("Aalen", question=question)

    memory.reply = reply
    for number, question in enumerate(("Where did Ada move?", "Where did Bea move?", "When did she leave?"), 1):
        worker.ask(number, question, AskOptions())
    worker._model_thread.submit(lambda: None).result()
    assert [asked for (asked,), _ in memory.batches][2:] == ["When did Ada leave?"]


def test_an_unloaded_model_is_loaded_again(worker, states, memory, monkeypatch):
    monkeypatch.setattr("mbc_cli.model_thread.IDLE_SECONDS", 0.01)
    unloaded = threading.Barrier(2)
    monkeypatch.setattr(memory, "unload", lambda: unloaded.wait(PATIENCE))
    for _ in range(2):
        worker.load()
        unloaded.wait(PATIENCE)
        assert [states.get_nowait() for _ in range(2)] == ["loading", "ready"]


def found(bank, text="", **options):
    """All that a search finds, the number of matches, and whether that is all."""
    *_, result = search_documents(bank, text, 2, **options)
    return result


def test_exact_name_among_longer_ones(make_bank, record):
    bank = make_bank("memory.mbc", *(record(name, name) for name in ("/a.txt", "/a.txt.1", "/b/a.txt", "a.txt")))
    documents, matches, is_all = found(bank, "a.txt", is_exact=True)
    assert ([document.name for document in documents], matches, is_all) == (["a.txt"], 1, True)


def test_a_copy_is_read_where_it_still_is(make_bank, home, monkeypatch):
    copies = [home / name for name in ("a.txt", "b.txt")]
    for path in copies:
        path.write_text("Ada moved to Aalen.")
    bank = make_bank("memory.mbc", *(document for path in copies for document in read_file(path)))
    copies[0].unlink()
    for row in found(bank)[0]:
        _, _, passage = read_document(bank, row)
        assert (passage.path, passage.state, passage.text_from) == (str(copies[1]), "unchanged", "file")
        assert passage.passage == copies[1].read_text()

    def texts(bank, codes, top, file_text):
        return list(map(file_text, bank.documents()))

    monkeypatch.setattr("mbc_cli.tui.jobs.code_uses", texts)
    assert explain_codes(bank, [(0, 0, 1)]) == [copies[1].read_text()]


def test_remove_by_digest_without_origins(make_bank, record):
    bank = make_bank("memory.mbc", record("/a", "x"), record("/b", "xy"), keeps_origins=False)
    first, second = found(bank)[0]
    assert remove_documents(bank, [first]) == 1
    assert found(bank) == ((second,), 1, True)
    assert restore_documents(bank) == (1, 1)
    assert {document.name for document in found(bank)[0]} == {first.name, second.name}
