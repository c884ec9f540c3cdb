import json
import os
import subprocess
import sys
import time

import pytest

from mbc_cli.commands.train import TrainProgress
from mbc_engine.events import (
    CheckpointSaved,
    Progressed,
    QuantisationStarted,
    TrainFinished,
    TrainStarted,
    TrainStateChanged,
    TrainStep,
    Validated,
)
from mbc_engine.runs.event_log import EventLog, work_lock
from mbc_engine.runs.training_runs import EVENTS, LOCK, make_request, request_in
from tests.cli.imports import imported_by
from tests.needs import PATIENCE

STARTED = TrainStarted(0, 4000, 100, 50, 999)
STEP = TrainStep(1200, 3, 1.23456, 1.0, 0.25, 0.0, 0.25, 0.931, 17.54, 2, 0.9, 1e-05, 84.2, reset_codes=7)
BEST = Validated(1000, 2, 500, 400, 51.25, 62.04, 90.0, True)
WORSE = Validated(1100, 2, 500, 400, 51.0, 61.0, 90.0, False)


@pytest.fixture
def make_run(home):
    def make(name, *events, changed=1_700_000_000):
        folder = home / "XDG_DATA_HOME" / "mbc" / "runs" / name
        folder.mkdir(parents=True)
        log = EventLog(folder / EVENTS)
        for event in events:
            log.append(event)
        log.close()
        os.utime(folder / EVENTS, (changed, changed))
        return folder

    return make


@pytest.fixture
def at_work():
    """Makes a run look as if a training process were working on it."""
    locks = []

    def hold(folder):
        locks.append(work_lock(folder / LOCK))
        locks[-1].acquire()

    yield hold
    for lock in locks:
        lock.release()


def test_runs_are_listed_the_last_changed_first(mbc, make_run, at_work):
    make_run("done", STARTED, STEP, BEST, TrainFinished(4000, 9.0, "m"))
    make_run("stopped", STARTED, TrainStateChanged("stopped", 3, 4000), changed=1_700_000_001)
    make_run("killed", STARTED, STEP, changed=1_700_000_002)
    at_work(make_run("paused", STARTED, STEP, WORSE, TrainStateChanged("paused", 1200, 4000), changed=1_700_000_003))
    asked = make_run("asked", changed=1_700_000_004)
    at_work(asked)
    make_request(asked, "stop")
    rows = [line.split("\t") for line in mbc("runs", "list").stdout.splitlines()]
    assert [row[:4] for row in rows] == [
        ["asked", "preparing, to be stopped", "", ""],
        ["paused", "paused", "1,200 of 4,000", ""],
        ["killed", "interrupted", "1,200 of 4,000", ""],
        ["stopped", "stopped", "0 of 4,000", ""],
        ["done", "finished", "1,200 of 4,000", "62.0"],
    ]
    assert rows[0][4] == ""
    assert rows[1][4].startswith(time.strftime("%Y-"))


def test_runs_as_json_are_lines(mbc, make_run):
    folder = make_run("done", STARTED, STEP, BEST)
    run = json.loads(mbc("runs", "list", "--json").stdout)
    assert run.pop("changed") > 1.7e9
    assert run.pop("best")["f1"] == 62.04
    assert run == {
        "run": "done",
        "path": str(folder),
        "state": "interrupted",
        "request": None,
        "step": 1200,
        "total_steps": 4000,
    }


def test_without_runs_it_says_how_to_start_one(mbc):
    result = mbc("runs", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "mbc train" in result.stderr
    assert mbc("runs", "list", "--json").output == ""


def test_a_run_that_prepares_tells_how_many_texts_are_read(mbc, make_run, at_work):
    folder = make_run("first", Progressed("read texts", 384, 3044))
    at_work(folder)
    make_request(folder, "pause")
    output = mbc("runs", "show", "first").stdout
    assert "state    preparing, to be paused\n" in output
    assert "steps    none yet, 384 of 3,044 texts read\n" in output


def test_a_request_that_is_fulfilled_or_left_behind_is_not_shown(mbc, make_run, at_work):
    for name, hold in (("paused", True), ("killed", False)):
        folder = make_run(name, STARTED, STEP, TrainStateChanged("paused", 1200, 4000))
        make_request(folder, "pause")
        if hold:
            at_work(folder)
    runs = [json.loads(line) for line in mbc("runs", "list", "--json").stdout.splitlines()]
    assert {run["state"]: run["request"] for run in runs} == {"paused": None, "interrupted": None}


def test_a_run_is_shown(mbc, make_run):
    events = (STARTED, QuantisationStarted(600, 50), BEST, WORSE, CheckpointSaved(1100, "s"), STEP)
    folder = make_run("first", *events)
    output = mbc("runs", "show", "first").stdout
    assert [line.split(maxsplit=1)[1] for line in output.splitlines()[:-1]] == [
        "first",
        str(folder),
        "interrupted; continue with: mbc train --resume --run first",
        "unknown",
        "1,200 of 4,000",
        "4",
        "1.235, source 93%",
        "since step 600, perplexity 17.54, 2 dead, 7 reset",
        "84 questions/s",
        "F1 62.0 %, exact match 51.2 % at step 1,000 (500 questions)",
        "F1 61.0 %, exact match 51.0 % at step 1,100 (500 questions)",
        "of step 1,100",
    ]
    details = json.loads(mbc("runs", "show", folder, "--json").stdout)
    assert details["latest"]["loss"] == 1.23456
    assert [validation["step"] for validation in details["validations"]] == [1000, 1100]
    assert (details["base"], details["command"], details["model"], details["seconds_left"]) == (None, None, None, None)


def test_an_empty_log_can_be_shown(mbc, make_run):
    make_run("new")
    assert "interrupted" in mbc("runs", "show", "new").stdout
    assert json.loads(mbc("runs", "show", "new", "--json").stdout)["latest"] is None


def test_what_is_asked_of_a_training_lies_in_its_folder(mbc, make_run, at_work):
    folder = make_run("first", STARTED)
    at_work(folder)
    assert mbc("runs", "pause", "first").stdout.endswith("Continue with: mbc runs resume first\n")
    assert request_in(folder) == "pause"
    assert "training, to be paused" in mbc("runs", "list").stdout
    assert mbc("runs", "resume", "first").stdout == "first continues.\n"
    assert request_in(folder) is None
    assert mbc("runs", "stop", "first").stdout.endswith("Continue with: mbc train --resume --run first\n")
    assert json.loads(mbc("runs", "pause", folder, "--json").stdout) == {
        "run": "first",
        "path": str(folder),
        "request": "pause",
    }


@pytest.mark.parametrize("verb", ["pause", "resume", "stop"])
@pytest.mark.parametrize(
    ("last", "said", "hint"),
    [
        (TrainStateChanged("stopped", 3, 4000), "was stopped", "mbc train --resume --run first"),
        (STEP, "was interrupted", "mbc train --resume --run first"),
        (TrainFinished(4000, 9.0, "m"), "has finished", "mbc runs show first"),
    ],
    ids=["stopped", "killed", "finished"],
)
def test_a_training_that_is_not_at_work_takes_no_requests(mbc, make_run, verb, last, said, hint):
    folder = make_run("first", STARTED, last)
    result = mbc("runs", verb, "first")
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert hint in result.stderr
    assert request_in(folder) is None


@pytest.mark.parametrize("verb", ["show", "pause", "resume", "stop"])
def test_a_run_that_is_not_there_is_an_error(mbc, verb):
    result = mbc("runs", verb, "nothing")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "mbc runs list" in result.stderr


def test_looking_at_runs_imports_no_torch(make_run):
    make_run("first", STARTED, STEP, BEST)
    commands = [["runs", "list"], ["runs", "show", "first"], ["runs", "show", "first", "--json"]]
    assert imported_by(commands, {"torch", "transformers", "peft"}) == "[]"


def test_a_pause_is_reported_where_the_training_was_started(capsys, home):
    view = TrainProgress(home / "run", "my run")
    for event in (STARTED, STEP, TrainStateChanged("paused", 1200, 4000), TrainStateChanged("training", 1200, 4000)):
        view.show(event)
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "step 1,200: paused. Continue with: mbc runs resume 'my run'",
        "step 1,200: continuing",
    ]


def test_a_name_is_never_obeyed_by_the_terminal(mbc, make_run):
    make_run("\x1b[31mred", STARTED)
    for arguments in (["list"], ["show", "\x1b[31mred"], ["pause", "\x1b[31mred"]):
        assert "\x1b" not in mbc("runs", *arguments).output


@pytest.mark.slow
def test_another_process_is_paused_resumed_and_stopped(mbc, preset, home):
    rows = [{"text": f"Ada{n} moved.", "question": f"Who moved {n}?", "answers": ["Ada"]} for n in range(20)]
    (home / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-m", "mbc_cli", "train", "--preset", preset, "--data", "questions.jsonl"]
    command += ["--run", "long", "--set", "training.epochs=4000", "--threads", "1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home) as process:

        def wait_for(name):
            for line in process.stdout:
                event = json.loads(line)
                if name in (event["event"], event.get("state")):
                    return
            pytest.fail(f"no {name}: {process.stderr.read()}")

        wait_for("TrainStep")
        assert mbc("runs", "pause", "long").exit_code == 0
        wait_for("paused")
        assert json.loads(mbc("runs", "list", "--json").stdout)["state"] == "paused"
        assert mbc("runs", "resume", "long").exit_code == 0
        wait_for("training")
        assert "train --resume" in mbc("runs", "stop", "long").stdout
        wait_for("stopped")
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    details = json.loads(mbc("runs", "show", "long", "--json").stdout)
    assert details["state"] == "stopped"
    assert details["command"]["data"] == [str(home / "questions.jsonl")]
    assert details["base"]
