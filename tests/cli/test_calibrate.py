import json
import shutil
import tomllib
from dataclasses import replace

import pytest

from mbc_engine.events import Calibrated, Progressed

FOUND = Calibrated(100, 50, 16, 2.0, -1.0, 0.75, 0.25, 0.875, 60.0, 30.0, 10.0, 4.0, 36.0, 60.0)


@pytest.fixture
def copied(model, home):
    """A copy of the tiny model that may be changed."""
    return shutil.copytree(model, home / "copied")


@pytest.fixture
def calibrate(mbc, copied, questions):
    """Runs `mbc calibrate` on the copy."""
    return lambda *options: mbc("calibrate", "--model", copied, "--data", questions, "--bank-size", 20, *options)


def config(folder):
    return tomllib.loads((folder / "config.toml").read_text())


def test_the_rates_are_shown(calibrate, copied, model, monkeypatch):
    events = iter([Progressed("answer questions", 1, 2), FOUND])
    monkeypatch.setattr("mbc_engine.paper.calibration.calibrate", lambda *_, **__: events)
    result = calibrate()
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "with its document  60.0 % from memory, 30.0 % unsure, 10.0 % from the model alone",
        "without            4.0 % from memory, 36.0 % unsure, 60.0 % from the model alone",
        "AUC                0.875 (0.5 is chance), 50 held-out questions, 16 documents in the bank",
        "saved in           copied/config.toml",
    ]
    kept = config(copied)
    assert kept["model"].pop("confidence")["from_memory"] == 0.75
    assert kept == config(model)
    events = iter([replace(FOUND, auc=0.4)])
    result = calibrate("--dry-run", "--json")
    assert "does not make right answers more likely" not in result.stderr
    assert json.loads(result.stdout)["is_kept"] is False


def test_mini_is_already_calibrated(refusal):
    assert "is already calibrated" in refusal(2, "calibrate", "--model", "mini", "--data", "none.csv")
