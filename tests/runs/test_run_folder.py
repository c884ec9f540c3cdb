"""How a training and its observers communicate through files."""

import os
from pathlib import Path

import numpy as np
import pytest

from mbc_engine.events import CheckpointSaved, TrainFinished, TrainStarted, TrainStateChanged
from mbc_engine.runs.event_log import EventLog, work_lock
from mbc_engine.runs.training_runs import (
    EVENTS,
    LOCK,
    FollowedRun,
    is_running,
    is_stop_requested,
    read_usage,
    request_stop,
    runs_in,
    withdraw_stop,
    write_usage,
)


def test_a_request_to_stop_holds_until_it_is_withdrawn(tmp_path: Path) -> None:
    assert not is_stop_requested(tmp_path)
    request_stop(tmp_path)
    request_stop(tmp_path)
    assert is_stop_requested(tmp_path)
    withdraw_stop(tmp_path)
    withdraw_stop(tmp_path)
    assert not is_stop_requested(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"pause", b"\xff"])
def test_an_unknown_request_is_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "request").write_bytes(content)
    assert not is_stop_requested(tmp_path)


def test_a_training_is_at_work_as_long_as_it_holds_the_lock(tmp_path: Path) -> None:
    assert not is_running(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with work_lock(tmp_path / LOCK):
        assert is_running(tmp_path)
        assert is_running(tmp_path)
    assert not is_running(tmp_path)


@pytest.mark.parametrize("name", ["x" * 300, "file/lock"], ids=["too long", "in a file"])
def test_nobody_is_at_work_where_nobody_can_be(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    assert not is_running(tmp_path / name)


@pytest.mark.parametrize(
    "usage",
    [np.zeros(4, np.float32), np.ones((1, 1, 2), np.int64), np.full((1, 1, 2), np.inf, np.float32)],
    ids=["shape", "type", "infinite"],
)
def test_usage_that_cannot_be_one_is_none(tmp_path: Path, usage: np.ndarray) -> None:
    write_usage(tmp_path, usage, 0)
    assert read_usage(tmp_path) is None


def test_usage_comes_back_as_it_was(tmp_path: Path) -> None:
    assert read_usage(tmp_path) is None
    usage = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    write_usage(tmp_path, usage, 7)
    read = read_usage(tmp_path)
    assert read is not None
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, usage)


@pytest.mark.parametrize("content", [b"", b"\x02\0\0\0\0\0\0\0{}", b"nonsense"])
def test_damaged_usage_is_none(tmp_path: Path, content: bytes) -> None:
    write_usage(tmp_path, np.zeros((1, 1, 2), np.float32), 0)
    (path,) = tmp_path.iterdir()
    path.write_bytes(content)
    assert read_usage(tmp_path) is None


def test_training_goes_on_where_usage_cannot_be_written(tmp_path: Path) -> None:
    write_usage(tmp_path / "nowhere", np.zeros((1, 1, 2), np.float32), 0)


def test_runs_are_folders_with_a_log_the_last_changed_first(tmp_path: Path) -> None:
    for name, changed in (("b", 200), ("a", 200), ("old", 100), ("new", 300)):
        (tmp_path / name).mkdir()
        (tmp_path / name / EVENTS).touch()
        os.utime(tmp_path / name / EVENTS, (changed, changed))
    (tmp_path / "model").mkdir()
    (tmp_path / "file").touch()
    assert [run.name for run in runs_in(tmp_path)] == ["new", "a", "b", "old"]
    assert runs_in(tmp_path / "nowhere") == []


def test_a_run_whose_training_has_gone_without_an_end_is_interrupted(tmp_path: Path) -> None:
    run = FollowedRun(tmp_path)
    assert run.state == "interrupted"
    log = EventLog(tmp_path / EVENTS)
    with work_lock(tmp_path / LOCK):
        assert run.state == "preparing"
        log.append(TrainStarted(0, 2, 1, 1, 1))
        assert len(run.update().events) == 1
        assert run.state == "training"
    assert run.state == "interrupted"
    for end, state in (
        (TrainStateChanged("stopped", 1, 2), "stopped"),
        (TrainFinished(2, 1.0, "m"), "finished"),
    ):
        log.append(end)
        run.update()
        assert run.state is state
    log.close()


def test_a_run_whose_log_is_cut_back_has_another_history(tmp_path: Path) -> None:
    log, run = EventLog(tmp_path / EVENTS), FollowedRun(tmp_path)
    log.append(CheckpointSaved(3, "s"))
    position = log.position()
    log.append(CheckpointSaved(4, "s"))
    run.update()
    before = run.history
    log.rewind(position)
    run.update()
    log.close()
    assert (before.checkpoints, run.history.checkpoints) == ([3, 4], [3])
