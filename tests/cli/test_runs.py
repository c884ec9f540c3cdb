import json
import os

import pytest

from mbc_engine.events import (
    CheckpointSaved,
    QuantisationStarted,
    TrainFinished,
    TrainStarted,
    TrainStateChanged,
    TrainStep,
    Validated,
)
from mbc_engine.runs.event_log import work_lock
from mbc_engine.runs.training_runs import EVENTS, LOCK, is_stop_requested, request_stop
from tests.conftest import write_log

STARTED = TrainStarted(0, 4000, 100, 50, 999)
STEP = TrainStep(1200, 3, 1.23456, 1.0, 0.25, 0.0, 0.25, 0.931, 17.54, 2, 0.9, 1e-05, 84.2, reset_codes=7)
BEST = Validated(1000, 2, 500, 400, 51.25, 62.04, 90.0, True)
WORSE = Validated(1100, 2, 500, 400, 51.0, 61.0, 90.0, False)
STOPPED = TrainStateChanged("stopped", 3, 4000)


@pytest.fixture
def make_run(home):
    """Makes a run's folder; with `is_running` it looks as if a training process were at work in it."""
    locks = []

    def make(name, *events, changed=1_700_000_000, is_running=False):
        folder = home / "XDG_DATA_HOME" / "mbc" / "runs" / name
        write_log(folder / EVENTS, *events)
        os.utime(folder / EVENTS, (changed, changed))
        if is_running:
            locks.append(work_lock(folder / LOCK))
            locks[-1].acquire()
        return folder

    yield make
    for lock in locks:
        lock.release()


def test_runs_are_listed_the_last_changed_first(mbc, make_run):
    make_run("done", STARTED, STEP, BEST, TrainFinished(4000, 9.0, "m"))
    make_run("stopped", STARTED, STOPPED, changed=1_700_000_001)
    request_stop(make_run("killed", STARTED, STEP, changed=1_700_000_002))
    request_stop(make_run("new", changed=1_700_000_003, is_running=True))
    rows = [line.split("\t") for line in mbc("runs", "list").stdout.splitlines()]
    assert [row[:4] for row in rows] == [
        ["new", "preparing, to be stopped", "", ""],
        ["killed", "interrupted", "1,200 of 4,000", ""],
        ["stopped", "stopped", "0 of 4,000", ""],
        ["done", "finished", "1,200 of 4,000", "62.0"],
    ]
    assert rows[0][4] == ""
    assert rows[1][4].startswith("20")


def test_show(mbc, make_run):
    events = (STARTED, QuantisationStarted(600, 50), BEST, WORSE, CheckpointSaved(1100, "s"), STEP)
    folder = make_run("first", *events)
    output = mbc("runs", "show", "first").stdout
    assert [line.split(maxsplit=1)[1] for line in output.splitlines()[:-1]] == [
        *("first", str(folder), "interrupted; continue with: mbc runs resume first", "unknown"),
        *("1,200 of 4,000 (30%)", "4", "84 questions/s", "F1 61.0, EM 51.0", "F1 62.0 at step 1,000"),
        *("7 codes in 1 step", "from step 600", "step 1,100", "1.235, source 93%", "17.54, 2 codes dead"),
    ]
    details = json.loads(mbc("runs", "show", folder, "--json").stdout)
    assert details["latest"]["loss"] == 1.23456
    assert [validation["step"] for validation in details["validations"]] == [1000, 1100]
    assert (details["base"], details["command"], details["model"], details["seconds_left"]) == (None, None, None, None)


def test_stop_is_requested_in_the_folder(mbc, make_run):
    folder = make_run("first", STARTED, is_running=True)
    result = json.loads(mbc("runs", "stop", folder, "--json").stdout)
    assert result == {"run": "first", "path": str(folder), "request": "stop"}
    assert is_stop_requested(folder)
    assert mbc("runs", "stop", "first").stdout.endswith("Continue with: mbc runs resume first\n")


@pytest.mark.parametrize(
    ("last", "message", "verb"),
    [
        (STOPPED, "was stopped", "resume"),
        (STEP, "was interrupted", "resume"),
        (TrainFinished(4000, 9.0, "m"), "has finished", "show"),
    ],
)
def test_stop_needs_a_running_run(refusal, make_run, last, message, verb):
    folder = make_run("first", STARTED, last)
    error = refusal(2, "runs", "stop", "first")
    assert message in error and f"mbc runs {verb} first" in error
    assert not is_stop_requested(folder)
