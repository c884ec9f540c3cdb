"""The training loop: it learns, does things in their order, keeps the best model, and reports to trackers."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tensorboardX.proto.event_pb2 import Event as Record

from mbc_engine.config import read_paper_config
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.events import (
    CheckpointSaved,
    Progressed,
    QuantisationStarted,
    TrainFinished,
    TrainStarted,
    TrainStep,
    Validated,
)
from mbc_engine.model import load_model
from mbc_engine.paper.checkpoint import trained_state
from mbc_engine.runs.event_log import read_events
from mbc_engine.training import run_files as keeping
from mbc_engine.training import trainer
from mbc_engine.training.trainer import train
from tests.training.conftest import FROZEN, of, tensors


def test_order_of_events(tiny, tmp_path, start):
    events = start(tiny.config("gpt2", "bert", *FROZEN, "training.pca_start=true"), "run")
    events = [event for event in events if not isinstance(event, Progressed)]
    logged = read_events(tmp_path / "run" / "events.jsonl")
    assert [event for event in logged if not isinstance(event, Progressed)] == events
    names = [type(event).__name__ for event in events]
    epoch = ["TrainStep"] * 5 + ["Validated", "CheckpointSaved"]
    assert names == ["TrainStarted", *epoch, *epoch, "TrainFinished"]
    started = of(TrainStarted, events)[0]
    assert (started.total_steps, started.examples, started.documents) == (10, 20, 20)
    assert [event.epoch for event in of(TrainStep, events)] == [0] * 5 + [1] * 5
    assert of(Validated, events)[0].documents == 3


@pytest.mark.parametrize(("is_fast", "precision"), [(True, "bf16"), (False, "float32")])
def test_runs_record_the_precision_that_is_fast_here(tiny, tmp_path, start, monkeypatch, is_fast, precision):
    monkeypatch.setattr(trainer, "is_fast_in_bf16", lambda device: is_fast)
    start(tiny.config("gpt2", "bert", *FROZEN, "training.precision=auto", "training.epochs=1"), "run")
    assert read_paper_config(tmp_path / "run" / "config.toml").training.precision == precision


def test_best_model_is_kept(tiny, tmp_path, start, monkeypatch):
    """Losses of 5, 2, 2 and 9: the second epoch's model is kept."""
    real, losses = trainer.validate, iter((5.0, 2.0, 2.0, 9.0))
    monkeypatch.setattr(trainer, "validate", lambda *given: replace(real(*given), loss=next(losses)))
    kept = []
    monkeypatch.setattr(
        keeping,
        "save_model",
        lambda *given, save=keeping.save_model, **how: (kept.append(given[2].name), save(*given, **how)),
    )
    states = []

    def note(event):
        if isinstance(event, CheckpointSaved):
            states.append(tensors(Path(event.path)))

    events = start(tiny.config("gpt2", "bert", "training.epochs=4"), "run", until=note)
    assert [event.is_best for event in of(Validated, events)] == [True, True, False, False]
    assert len(kept) == 2
    best = tensors(tmp_path / "run" / "model" / "model.safetensors")
    assert all(torch.equal(value, states[1][f"model.{name}"]) for name, value in best.items())
    assert not all(torch.equal(value, states[3][f"model.{name}"]) for name, value in best.items())
    files = " ".join(sorted(path.name for path in (tmp_path / "run").iterdir()))
    assert files == "config.toml events.jsonl lock model snapshot.safetensors usage.safetensors"


@pytest.mark.slow
def test_patience(tiny, start, monkeypatch):
    """Losses of 5, 2, 2 and 9, killed after the third epoch's snapshot: two epochs without a lower one are enough."""
    real, losses = trainer.validate, iter((5.0, 2.0, 2.0, 9.0))
    monkeypatch.setattr(trainer, "validate", lambda *given: replace(real(*given), loss=next(losses)))
    config = tiny.config("gpt2", "bert", "training.epochs=9", "training.patience=2")
    start(config, "run", until=lambda event: isinstance(event, CheckpointSaved) and event.step == 15)
    rest = start(config, "run", resume=True)
    assert [event.epoch for event in of(Validated, rest)] == [3]
    assert isinstance(rest[-1], TrainFinished)
    again = start(config, "run", resume=True)
    assert not of(TrainStep, again)


def test_last_model_is_kept_without_validation(tiny, tmp_path, start):
    events = start(tiny.config(), "run", validate=0)
    assert not of(Validated, events)
    state = tensors(tmp_path / "run" / "snapshot.safetensors")
    for name, value in tensors(tmp_path / "run" / "model" / "model.safetensors").items():
        assert torch.equal(value, state[f"model.{name}"])


def test_quantise_from(tiny, start):
    """A model that does not quantise yet is never the best."""
    events = start(tiny.config("gpt2", "bert", "training.quantise_from=0.7", "training.reset_codes=false"), "run")
    steps = of(TrainStep, events)
    assert [event.vq_loss > 0 for event in steps] == [False] * 7 + [True] * 3
    assert [event.perplexity > 1 for event in steps] == [False] * 7 + [True] * 3
    assert [event.dead_codes for event in steps[5:8]] == [8, 8, 0]
    (began,) = of(QuantisationStarted, events)
    assert (began.step, began.vectors) == (7, 20)
    assert events.index(began) == events.index(steps[7]) - 1
    assert [event.is_best for event in of(Validated, events)] == [False, True]


def test_start_from_a_model(tiny, tmp_path, start):
    start(tiny.config("gpt2", "bert", "training.quantise_from=0.2"), "first")
    config = tiny.config("gpt2", "bert", "training.quantise_from=0.2", "training.learning_rate=1e-30")
    events = start(config, "second", start=tmp_path / "first" / "model")
    assert not of(QuantisationStarted, events)
    first, second = (trained_state(load_model(tmp_path / run / "model")) for run in ("first", "second"))
    assert all(torch.equal(value, second[name]) for name, value in first.items() if "codebook" not in name)


def test_nothing_to_train_on(tiny, tmp_path):
    with pytest.raises(DataError, match="nothing to train on"):
        next(train(tiny.config(), [], [], tmp_path / "run", cache=tmp_path))


def scalars(folder):
    """What TensorBoard's files hold, by name and step: records of a length, its checksum, data, its checksum."""
    found = {}
    for path in folder.rglob("events.out.tfevents.*"):
        rest = path.read_bytes()
        while rest:
            (length,) = struct.unpack("<Q", rest[:8])
            record = Record.FromString(rest[12 : 12 + length])
            found |= {(value.tag, record.step): value.simple_value for value in record.summary.value}
            rest = rest[16 + length :]
    return found


def test_tensorboard(tiny, tmp_path, start):
    events = start(tiny.config("gpt2", "bert", "training.epochs=1"), "run", trackers=["tensorboard"])
    found = scalars(tmp_path / "run" / "tracked")
    steps = of(TrainStep, events)
    assert len(steps) == 5
    for event in steps:
        assert found["train/question_loss", event.step] == pytest.approx(event.question_loss, rel=1e-5)
        assert found["train/learning_rate", event.step] == pytest.approx(event.learning_rate, rel=1e-5)
    (validated,) = of(Validated, events)
    assert found["validation/f1", validated.step] == pytest.approx(validated.f1)
    assert not any(name.endswith(("/step", "/epoch")) for name, _ in found)


def test_missing_tracker(tiny, tmp_path, start):
    with pytest.raises(ConfigError, match="'crayon'") as error:
        start(tiny.config(), "run", trackers=["crayon"])
    assert "tensorboard" in (error.value.hint or "")
    assert not (tmp_path / "run").exists()
