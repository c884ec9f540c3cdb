"""Figures of a training in a tracker's own files."""

import struct
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event as Record

from mbc_engine.errors import ConfigError
from mbc_engine.events import TrainStep, Validated
from mbc_engine.training.trainer import train


def scalars(folder: Path) -> dict[tuple[str, int], float]:
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


def test_tensorboard(tiny: Any, tmp_path: Path, examples: Any) -> None:
    run, config = tmp_path / "run", tiny.config("gpt2", "bert", "training.epochs=1")
    events = list(train(config, examples(12), examples(3), run, cache=tmp_path / "cache", trackers=["tensorboard"]))
    found = scalars(run / "tracked")
    steps = [event for event in events if isinstance(event, TrainStep)]
    assert len(steps) == 3
    for event in steps:
        assert found["train/question_loss", event.step] == pytest.approx(event.question_loss, rel=1e-5)
        assert found["train/learning_rate", event.step] == pytest.approx(event.learning_rate, rel=1e-5)
    (validated,) = (event for event in events if isinstance(event, Validated))
    assert found["validation/f1", validated.step] == pytest.approx(validated.f1)
    assert not any(name.endswith(("/step", "/epoch")) for name, _ in found)


def test_missing_tracker(tiny: Any, tmp_path: Path, examples: Any) -> None:
    running = train(tiny.config(), examples(4), [], tmp_path / "run", cache=tmp_path, trackers=["crayon"])
    with pytest.raises(ConfigError, match="'crayon'") as error:
        next(running)
    assert "tensorboard" in (error.value.hint or "")
    assert not (tmp_path / "run").exists()
