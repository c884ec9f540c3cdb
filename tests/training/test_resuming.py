"""A training that was killed or stopped resumes bit-identically, from its snapshot; a damaged one is refused."""

import multiprocessing
import os
import signal
import threading
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from mbc_engine.errors import ConfigError, DataError, ModelError
from mbc_engine.evaluation.cells import variant
from mbc_engine.events import (
    CheckpointSaved,
    Progressed,
    QuantisationStarted,
    TrainFinished,
    TrainStarted,
    TrainStateChanged,
    TrainStep,
)
from mbc_engine.runs.event_log import read_events
from mbc_engine.runs.training_runs import is_running, is_stop_requested, request_stop
from mbc_engine.training import trainer
from mbc_engine.training.run_files import TrainingState, load_snapshot, save_snapshot
from tests.training.conftest import FROZEN, ROUTED, of, tensors

# Two epochs of five steps with everything that changes on the way: quantisation begins, codes die, parts accumulate.
EVERYTHING = [
    *ROUTED,
    "model.centring=true",
    "model.lora.dropout=0.2",
    "model.codebook.dead_threshold=0.3",
    "training.quantise_from=0.3",
    "training.accumulate=2",
    "training.backprop_dropout=0.5",
    "training.bank_documents=2",
]


def is_step(event, step):
    return isinstance(event, TrainStep) and event.step == step


def steady(events):
    """What must be the same in every run: without paths, clocks, starts and snapshots."""
    passing = (TrainStarted, CheckpointSaved, Progressed, TrainStateChanged)
    kept = [event for event in events if not isinstance(event, passing)]
    return [
        replace(event, examples_per_second=0.0)
        if isinstance(event, TrainStep)
        else replace(event, seconds=0.0, model="")
        if isinstance(event, TrainFinished)
        else event
        for event in kept
    ]


def same_outcome(one, other):
    files = [sorted(path.relative_to(run) for path in run.rglob("*.safetensors")) for run in (one, other)]
    assert files[0] == files[1]
    for file in files[0]:
        expected, found = tensors(one / file), tensors(other / file)
        assert expected.keys() == found.keys()
        different = [name for name, value in expected.items() if not torch.equal(value, found[name])]
        assert not different, file
    logs = [steady(list(read_events(run / "events.jsonl"))) for run in (one, other)]
    assert logs[0] == logs[1]


def train_until_killed(config, examples, folder):
    trainer.time = SimpleNamespace(monotonic=partial(next, count(step=1000)))  # every step is due for a snapshot
    for event in trainer.train(config, examples, examples[:3], folder / "killed", cache=folder / "cache"):
        if is_step(event, 8):
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_killed_run_resumes_bit_identically(tiny, tmp_path, start, examples):
    config = tiny.config("gpt2", "bert", *EVERYTHING)
    whole = start(config, "whole")
    given = (config, examples(20), tmp_path)
    killed = multiprocessing.get_context("spawn").Process(target=train_until_killed, args=given)
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    before = list(read_events(tmp_path / "killed" / "events.jsonl"))
    # The snapshot is of step 7, in the middle of an epoch; a step more was done and is lost.
    assert (of(TrainStep, before)[-1].step, of(CheckpointSaved, before)[-1].step) == (8, 7)

    resumed = start(config, "killed", resume=True)
    assert of(TrainStarted, resumed)[0].step == 7
    assert steady(whole)[-len(steady(resumed)) :] == steady(resumed)
    same_outcome(tmp_path / "whole", tmp_path / "killed")
    assert any(step.reset_codes for step in of(TrainStep, whole))
    assert [event.step for event in of(QuantisationStarted, whole)] == [3]


@pytest.mark.parametrize(
    ("step", "encoder", "is_mac", "validate"),
    [
        (5, "bert", False, 3),
        *(
            pytest.param(*given, marks=pytest.mark.slow)
            for given in ((1, "t5", False, 3), (7, "bert", False, 3), (10, "bert", False, 3), (5, "bert", True, 0))
        ),
    ],
)
def test_stopped_run_resumes_bit_identically(tiny, tmp_path, start, step, encoder, is_mac, validate):
    config = tiny.config("llama" if encoder == "t5" else "gpt2", encoder, *EVERYTHING, *(FROZEN if step == 7 else []))
    config = variant(config, "mac") if is_mac else config
    stop = threading.Event()
    first = start(
        config, "stopped", stop=stop, until=lambda event: is_step(event, step) and stop.set(), validate=validate
    )
    if step < 10:
        assert first[-1] == TrainStateChanged("stopped", step, 10)
        assert isinstance(first[-2], CheckpointSaved)
    start(config, "stopped", validate=validate, resume=True)
    start(config, "whole", validate=validate)
    same_outcome(tmp_path / "whole", tmp_path / "stopped")


def test_interrupted_replacement_of_the_model(tiny, tmp_path, start):
    """When the process was killed, the old model was already renamed, and the new one not yet."""
    config, model = tiny.config("gpt2", "bert", "training.epochs=1"), tmp_path / "run" / "model"
    start(config, "run")
    before = tensors(model / "model.safetensors")
    model.rename(model.with_name("model-old"))
    start(config, "run", resume=True)
    torch.testing.assert_close(tensors(model / "model.safetensors"), before, rtol=0, atol=0)


def test_other_questions_are_refused(tiny, tmp_path, start):
    config = tiny.config("gpt2", "bert", "training.epochs=1")
    start(config, "run", until=lambda event: isinstance(event, CheckpointSaved))
    before = (tmp_path / "run" / "snapshot.safetensors").read_bytes()
    with pytest.raises(DataError, match="have changed since its training began"):
        start(config, "run", validate=2, resume=True)
    assert (tmp_path / "run" / "snapshot.safetensors").read_bytes() == before


def test_stop_on_request(tiny, tmp_path, start):
    events = start(tiny.config(), "run", until=lambda event: is_step(event, 2) and request_stop(tmp_path / "run"))
    assert isinstance(events[-2], CheckpointSaved)
    assert events[-1] == TrainStateChanged("stopped", 2, 10)
    assert not is_stop_requested(tmp_path / "run")
    assert not is_running(tmp_path / "run")


def test_stop_while_reading_texts(tiny, tmp_path, start):
    config = tiny.config("gpt2", "bert", *FROZEN)
    events = start(config, "run", until=lambda event: of(Progressed, [event]) and request_stop(tmp_path / "run"))
    assert events == [Progressed("read texts", 20, 20), TrainStateChanged("stopped", 0, 10)]


def test_a_run_that_ends_while_another_of_its_name_is_loaded_stays(tiny, tmp_path, start, monkeypatch):
    start(tiny.config("gpt2", "bert"), "run")
    before = (tmp_path / "run" / "config.toml").read_text()
    require_no_run, begun = trainer.run_files.require_no_run, list[Path]()

    def require(run):
        begun.append(run)
        return None if len(begun) == 1 else require_no_run(run)  # when the second began, there was none yet

    monkeypatch.setattr(trainer.run_files, "require_no_run", require)
    with pytest.raises(ConfigError, match="already holds a run"):
        start(tiny.config("gpt2", "bert", "training.seed=7"), "run")
    assert (tmp_path / "run" / "config.toml").read_text() == before


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), pytest.param(SafetensorError("Too large"), marks=pytest.mark.slow)],
)
def test_full_disk(tiny, tmp_path, start, monkeypatch, error):
    def full(tensors, path, notes):
        path.write_bytes(b"half")
        raise error

    config = tiny.config("gpt2", "bert")
    start(config, "run", until=lambda event: isinstance(event, CheckpointSaved))
    before = (tmp_path / "run" / "snapshot.safetensors").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("mbc_engine.lm.pretrained.save_file", full)
        with pytest.raises(ConfigError, match="cannot read or write its files") as caught:
            start(config, "run", resume=True)
    assert str(error) in caught.value.message
    assert (tmp_path / "run" / "snapshot.safetensors").read_bytes() == before
    assert not (tmp_path / "run" / "snapshot.partial").exists()
    assert not is_running(tmp_path / "run")
    assert isinstance(start(config, "run", resume=True)[-1], TrainFinished)


@pytest.mark.parametrize("change", [{"step": "(" * 100_000}, {"step": "'x'"}, {"step": "print()"}, None])
def test_damaged_snapshots(tiny, tmp_path, change):
    model, path = tiny.model(), tmp_path / "s.safetensors"
    optimizer = torch.optim.Adam([value for value in model.parameters() if value.requires_grad])
    state = TrainingState(step=7, best_loss=2.5, best_epoch=1, is_quantising=True, events=1234, seconds=5.75)
    save_snapshot(path, model, optimizer, state)
    assert load_snapshot(path, model, optimizer) == state
    with safe_open(path, "pt") as file:
        notes = file.metadata()
    if change is None:
        path.write_bytes(path.read_bytes()[:-1])
    else:
        save_file(load_file(path), path, notes | change)
    with pytest.raises(ModelError, match="is damaged"):
        load_snapshot(path, model, optimizer)
