"""Texts recoded after an ingest: the bank is whole at once, a stop or a kill leaves each text in one form or the other."""

import os
import random
import signal
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from mbc_engine import MemoryBank, ingest, open_bank
from mbc_engine.bank import memory_bank
from mbc_engine.bank.exchange import export
from mbc_engine.bank.verification import verify
from mbc_engine.errors import ModelError
from mbc_engine.events import BankVerified, TextsRecoded
from mbc_engine.ingestion.ingest import watch
from tests.ingestion.conftest import last_of
from tests.text_models import StandIn

STORY = "The river rose in the night. The bridge held. Ada moved to Bergen, and nobody asked why. "
MODEL = StandIn(STORY * 4)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "news"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number}.txt").write_text(f"Story {number}. {STORY * (1 + number % 3)}")
    return folder


@pytest.fixture
def model(tiny):
    return tiny.retriever_reader()


def lines(bank):
    return b"".join(export(bank, MODEL.open))


def test_texts_are_recoded_after_the_ingest(bank, model, folder, tmp_path):
    with open_bank(model, tmp_path / "zstd.mbc") as plain:
        list(ingest(model, plain, [folder]))
        before = plain.sizes().texts
        events = []
        for event in ingest(model, bank, [folder], open_model=MODEL.open):
            events.append(event)
            if isinstance(event, TextsRecoded) and not event.done:
                assert lines(bank) == lines(plain)
        recoded = [event for event in events if isinstance(event, TextsRecoded)]
        assert [event.done for event in recoded[:3]] == [0, memory_bank.LM_BATCH, 2 * memory_bank.LM_BATCH]
        assert recoded[-1].done == recoded[-1].chunks == bank.totals().chunks == bank.text_state().lm_texts
        assert recoded[-1].after_bytes == bank.text_state().lm_bytes < recoded[-1].before_bytes
        assert last_of(events).is_complete
        assert last_of(events).text_bytes == bank.sizes().texts < before
        assert lines(bank) == lines(plain)
        again = list(ingest(model, bank, [folder], open_model=StandIn("").open))  # which need not be opened
        assert not any(isinstance(event, TextsRecoded) for event in again)


def test_missing_language_model(bank, model, folder):
    missing = Mock(side_effect=ModelError("It is not installed.", hint="Install it."))
    events = list(ingest(model, bank, [folder], open_model=missing))
    problems = [event.problem for event in events if isinstance(event, TextsRecoded)]
    assert problems == ["", "It is not installed. Install it."]
    assert last_of(events).is_complete
    assert bank.text_state().lm_texts == 0


def test_too_many_texts_are_left_and_said_once(bank, model, folder):
    def problems(most):
        events = list(ingest(model, bank, [folder], open_model=MODEL.open, most_recoded=most))
        assert last_of(events).is_complete
        return [event.problem for event in events if isinstance(event, TextsRecoded) and event.problem]

    (problem,) = problems(1)
    chunks = bank.totals().chunks
    assert problem.startswith(f"recoding all {chunks} with the language model")
    assert problems(1) == []
    assert bank.text_state().lm_texts == 0
    assert problems(chunks) == []
    assert bank.text_state().lm_texts == chunks


def test_recoding_continues_after_a_stop(bank, model, folder):
    stop = threading.Event()
    events = []
    for event in ingest(model, bank, [folder], open_model=MODEL.open, stop=stop):
        events.append(event)
        if isinstance(event, TextsRecoded) and event.done:
            stop.set()
    assert not last_of(events).is_complete
    assert bank.text_state().lm_texts == memory_bank.LM_BATCH
    events = list(ingest(model, bank, [folder], open_model=MODEL.open))
    left = next(event for event in events if isinstance(event, TextsRecoded))
    assert left.chunks == bank.totals().chunks - memory_bank.LM_BATCH
    assert bank.text_state().lm_texts == bank.totals().chunks


def test_another_language_model_is_refused(bank, model, folder, tmp_path):
    other = StandIn(STORY * 3, fingerprint="0the" * 4)
    with open_bank(model, tmp_path / "other.mbc") as target:
        list(ingest(model, bank, [folder], open_model=MODEL.open))
        (folder / "new.txt").write_text(STORY * 2)
        events = list(ingest(model, bank, [folder], open_model=lambda _: other))
        problem = next(event.problem for event in events if isinstance(event, TextsRecoded) and event.problem)
        assert "another language model (5eed5eed5eed5eed, not 0the" in problem
        assert "mbc bank compact --codec zstd" in problem
        before = lines(bank)
        list(bank.recode_texts(MODEL.open, to_lm=False))
        assert bank.text_state()[1:4] == (MODEL.fingerprint, 0, 0)
        list(bank.recode_texts(lambda _: other, to_lm=True))
        assert bank.text_state().lm == other.fingerprint
        assert b"".join(export(bank, lambda _: other)) == before
        target.put(list(bank.documents(whole=True)))  # bytes are copied
        assert target.text_state().lm_texts == bank.text_state().lm_texts > 0


def test_documents_removed_meanwhile(bank, model, folder, tmp_path, fresh_lines):
    with MemoryBank.open(tmp_path / "b.mbc") as other:
        list(ingest(model, bank, [folder]))
        for number, _ in enumerate(bank.recode_texts(MODEL.open, to_lm=True)):
            other.remove([(str(folder / f"{number}.txt"), "")])
            if number == 1:
                (taken,) = other.lookup([(str(folder / "9.txt"), "")], with_texts=True)
                other.remove([(str(folder / "9.txt"), "")])
                other.put([taken])
        before = lines(bank)
        *_, last = verify(tmp_path / "b.mbc", MODEL.open)
        assert last.damages == 0
        for path in folder.iterdir():
            if (str(path), "") not in {origin[:2] for origin in bank.origins()}:
                path.unlink()
        assert fresh_lines(folder) == before


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_reused_text_numbers(bank, model, folder, tmp_path, monkeypatch, seconds):
    monkeypatch.setattr(memory_bank, "_COMMIT_SECONDS", seconds)
    with MemoryBank.open(tmp_path / "b.mbc") as other:
        list(ingest(model, bank, [folder]))
        is_first = True
        for event in bank.recode_texts(MODEL.open, to_lm=True):
            if event.done == event.chunks and is_first:
                removed = [origin[:2] for origin in bank.origins()][-3:]
                other.remove(removed)
                for source, _ in removed:
                    Path(source).write_text(f"Another {Path(source).stem}. {STORY * 2}")
                list(ingest(model, other, [Path(source) for source, _ in removed]))
                is_first = False
        list(bank.recode_texts(MODEL.open, to_lm=True))
        assert bank.text_state().lm_texts == bank.totals().chunks
        assert list(verify(tmp_path / "b.mbc", MODEL.open))[-1] == BankVerified(20, bank.totals().chunks, 0)


def test_watch_recodes_when_idle(bank, model, folder):
    stop = threading.Event()
    is_first = True
    for event in watch(model, bank, [folder], open_model=MODEL.open, stop=stop):
        if isinstance(event, TextsRecoded) and event.done == event.chunks:
            if not is_first:
                stop.set()
            else:
                (folder / "new.txt").write_text(STORY * 2)
            is_first = False
    assert bank.text_state().lm_texts == bank.totals().chunks
    assert bank.totals().documents == 21


def test_a_watch_says_once_that_there_are_too_many(bank, model, folder, monkeypatch):
    stop, recode_texts, problems = threading.Event(), bank.recode_texts, []

    def recoded(*arguments, **options):
        for event in recode_texts(*arguments, **options):
            if problems:  # the second time
                stop.set()
            yield event

    monkeypatch.setattr(bank, "recode_texts", recoded)
    for event in watch(model, bank, [folder], open_model=MODEL.open, most_recoded=1, stop=stop):
        if isinstance(event, TextsRecoded) and event.problem:
            problems.append(event.problem)
            (folder / f"new{len(problems)}.txt").write_text(STORY * 2)
    assert len(problems) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_kills_while_recoding(model, folder, tmp_path, rounds):
    path, moments = tmp_path / "b.mbc", random.Random(0)
    with open_bank(model, path) as bank:
        list(ingest(model, bank, [folder]))
        before = lines(bank)
    for number in range(rounds(full=100, reduced=10)):
        read_end, write_end = os.pipe()
        child = os.fork()
        if not child:
            memory_bank._COMMIT_SECONDS, memory_bank.LM_BATCH = 0.0, 1
            with MemoryBank.open(path) as bank:
                for _ in bank.recode_texts(MODEL.open, to_lm=number % 2 == 0):
                    os.write(write_end, b".")
            os._exit(0)
        os.close(write_end)
        for _ in range(moments.randrange(20)):
            os.read(read_end, 1)
        time.sleep(moments.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read_end)
        with MemoryBank.open(path) as bank:
            assert lines(bank) == before
        *_, last = verify(path, MODEL.open)
        assert last.damages == 0
    with MemoryBank.open(path) as bank:
        list(bank.recode_texts(MODEL.open, to_lm=True))
        assert bank.text_state().lm_texts == bank.totals().chunks
        assert lines(bank) == before
