import json
import shutil
import tomllib
from dataclasses import replace

from mbc_engine.events import Calibrated, Progressed

FOUND = Calibrated(100, 50, 16, 2.0, -1.0, 0.75, 0.25, 0.875, 60.0, 30.0, 10.0, 4.0, 36.0, 60.0)


def test_the_rates_are_shown(mbc, model, questions, home, monkeypatch):
    copied = shutil.copytree(model, home / "copied")
    command = ("calibrate", "--model", copied, "--data", questions(44), "--bank-size", 20)
    events = iter([Progressed("answer questions", 1, 2), FOUND])
    monkeypatch.setattr("mbc_engine.paper.calibration.calibrate", lambda *_, **__: events)
    assert mbc(*command).stdout.splitlines() == [
        "with its document  60.0 % from memory, 30.0 % unsure, 10.0 % from the model alone",
        "without            4.0 % from memory, 36.0 % unsure, 60.0 % from the model alone",
        "AUC                0.875 (0.5 is chance), 50 held-out questions, 16 documents in the bank",
        "saved in           copied/config.toml",
    ]
    before, kept = (tomllib.loads((folder / "config.toml").read_text()) for folder in (model, copied))
    assert kept["model"].pop("confidence")["from_memory"] == 0.75
    assert kept == before
    events = iter([replace(FOUND, auc=0.4)])
    result = mbc(*command, "--dry-run", "--json")
    assert "does not make right answers more likely" not in result.stderr
    assert json.loads(result.stdout)["is_kept"] is False


def test_mini_is_already_calibrated(refusal):
    assert "is already calibrated" in refusal(2, "calibrate", "--model", "mini", "--data", "none.csv")
