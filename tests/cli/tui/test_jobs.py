"""Jobs: what is reported about the model and its bank, and a dashboard that ends with its terminal."""

import queue
import threading
from contextlib import ExitStack
from dataclasses import replace

import pytest

from mbc_cli.tui.jobs import AnswerWorker, search_documents
from mbc_engine.errors import BankError, ModelError
from tests.needs import PATIENCE


@pytest.fixture
def states():
    """The states of the model, as they are reported."""
    return queue.Queue()


@pytest.fixture
def start(options, states):
    """Starts a worker with the dashboard's options, some of them changed, which ends with the test."""
    with ExitStack() as workers:

        def make(**changes):
            def call(function, *arguments):
                return function(*arguments)

            worker = AnswerWorker(replace(options, **changes), call, lambda state, *_: states.put(state), print, print)
            workers.callback(worker.close)
            return worker

        yield make


def test_bank_that_appears_later(start, states, memory):
    worker = start()
    memory.problem = BankError("Of another model.")
    worker.load()
    assert [states.get(timeout=PATIENCE) for _ in range(2)] == ["loading", "missing"]
    memory.problem = None
    worker.load()
    assert [states.get(timeout=PATIENCE) for _ in range(2)] == ["loading", "ready"]
    worker.load()
    worker.close()
    assert states.empty()


def test_an_unloaded_model_is_loaded_again(start, states, memory, monkeypatch):
    unload, unloaded = memory.unload, threading.Event()
    monkeypatch.setattr(memory, "unload", lambda: (unload(), unloaded.set()))
    monkeypatch.setattr("mbc_cli.service.IDLE_SECONDS", 0.01)
    worker = start()
    for _ in range(2):
        worker.load()
        assert [states.get(timeout=PATIENCE) for _ in range(2)] == ["loading", "ready"]
        assert unloaded.wait(timeout=PATIENCE)
        unloaded.clear()


def test_search_with_a_missing_model(start, states, home, make_bank):
    make_bank("memory.mbc")
    worker = start(model=str(home / "none"))
    with pytest.raises(ModelError):
        worker.search("who")
    assert [states.get(timeout=PATIENCE) for _ in range(2)] == ["loading", "missing"]


def test_exact_name_among_longer_ones(make_bank, record):
    bank = make_bank("memory.mbc", *(record(name, name) for name in ("/a.txt", "/a.txt.1", "/b/a.txt", "a.txt")))
    *_, (documents, matches, is_all) = search_documents(bank, "a.txt", 2, is_exact=True)
    assert ([document.name for document in documents], matches, is_all) == (["a.txt"], 1, True)
