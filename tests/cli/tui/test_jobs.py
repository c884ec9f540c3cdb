"""Jobs: what is reported about the model and its bank, and a dashboard that ends with its terminal."""

import os
import pty
import queue
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mbc_cli.engine import load_model
from mbc_cli.tui.jobs import AnswerWorker, search_documents
from mbc_cli.tui.state import DashboardOptions
from mbc_engine.answer import AskOptions
from mbc_engine.errors import ModelError
from tests.needs import PATIENCE


def test_a_bank_that_comes_later_is_reported_without_loading_the_model_again(
    options: DashboardOptions, bank: Path, home: Path, make_bank: Any, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[str] = []

    def load(name: str, device: str | None) -> Any:
        loads.append(name)
        return load_model(name, device)

    monkeypatch.setattr("mbc_cli.engine.load_model", load)
    states: queue.Queue[str] = queue.Queue()
    away = bank.rename(home / "away.mbc")
    make_bank(bank.name, record("/a.txt", "a"))  # of another model
    worker = AnswerWorker(options, lambda state, *_: states.put(state), print, print)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        worker.questions.put((0, "", AskOptions()))
        assert [states.get(timeout=PATIENCE) for _ in range(2)] == ["loading", "missing"]
        away.replace(bank)
        worker.questions.put((0, "", AskOptions()))
        assert [states.get(timeout=PATIENCE) for _ in range(2)] == ["loading", "ready"]
    finally:
        worker.questions.put(None)
        thread.join()
    assert states.empty()
    assert loads == [options.model]


def test_a_model_that_is_not_asked_for_long_is_given_back_and_loaded_again(
    options: DashboardOptions, bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: queue.Queue[str] = queue.Queue()
    worker = AnswerWorker(options, lambda state, *_: states.put(state), print, print)
    memory, unloaded = worker._memory, threading.Event()
    unload = memory.unload
    monkeypatch.setattr(memory, "unload", lambda: (unload(), unloaded.set()))
    monkeypatch.setattr("mbc_cli.tui.jobs.IDLE_SECONDS", 0.01)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        for _ in range(2):
            unloaded.clear()
            worker.questions.put((0, "", AskOptions()))
            assert [states.get(timeout=PATIENCE) for _ in range(2)] == ["loading", "ready"]
            assert unloaded.wait(timeout=PATIENCE)
            assert memory._model == options.model
    finally:
        worker.questions.put(None)
        thread.join()


def test_a_search_without_a_model_reports_that_it_is_missing(
    options: DashboardOptions, home: Path, make_bank: Any
) -> None:
    make_bank("memory.mbc")
    states: queue.Queue[str] = queue.Queue()
    worker = AnswerWorker(replace(options, model=str(home / "none")), lambda state, *_: states.put(state), print, print)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        with pytest.raises(ModelError):
            worker.search("who")
        assert [states.get(timeout=PATIENCE) for _ in range(2)] == ["loading", "missing"]
    finally:
        worker.questions.put(None)
        thread.join()


def test_a_document_is_found_by_its_whole_name_however_many_others_contain_it(make_bank: Any, record: Any) -> None:
    bank = make_bank("memory.mbc", *(record(name, name) for name in ("/a.txt", "/a.txt.1", "/b/a.txt", "a.txt")))
    *_, (documents, matches, is_all) = search_documents(bank, "a.txt", 2, is_exact=True)
    assert ([own.origin.name for own in documents], matches, is_all) == (["a.txt"], 1, True)


@pytest.mark.slow
def test_a_dashboard_ends_with_its_terminal_when_no_signal_tells_of_it(home: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mbc_cli", "tui", "--bank", str(home / "none.mbc")]
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ) as process:
        os.close(theirs)
        drawn = b""
        while b"Overview" not in drawn:
            drawn += os.read(ours, 65536)
        os.close(ours)
        assert process.wait(PATIENCE) == 129
