"""Where models run: set by an option, by the environment, or detected."""

import json

import pytest
import torch

from mbc_cli.engine import prepare_torch, require_device
from mbc_cli.tui.state import DashboardOptions
from mbc_engine.errors import ConfigError, ModelError


@pytest.fixture
def commands(bank, notes, questions):
    """Every command that runs a model, with its arguments."""
    return [
        ("ask", "Where did Ada move?", "--bank", bank),
        ("ingest", notes, "--bank", bank, "--workers", 0),
        ("eval", "--data", questions, "--limit", 1),
        ("calibrate", "--data", questions, "--bank-size", 8, "--dry-run"),
        ("bank", "reencode", "--bank", bank, "--workers", 0),
        ("demo",),
    ]


@pytest.fixture
def devices(monkeypatch):
    """The devices that models are requested on; none is loaded."""
    seen = []

    def loaded(config, folder, *, device, reader=None):
        seen.append(device)
        raise ModelError("Not today.")

    monkeypatch.setattr("mbc_engine.paper.checkpoint.load", loaded)
    return seen


def test_commands_take_a_device(mbc, model, commands, devices, monkeypatch):
    monkeypatch.setenv("MBC_DEVICE", "abacus")
    for command in commands:
        result = mbc(*command, "--model", model)
        assert (result.exit_code, result.stdout) == (2, ""), command
        assert "'abacus'" in result.stderr
        assert len(result.stderr.splitlines()) == 2
        assert "Not today." in mbc(*command, "--model", model, "--device", "cpu").stderr, command
    assert devices == ["cpu"] * len(commands)


def test_gpu_is_the_default_if_available(monkeypatch):
    for is_available, expected in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda is_available=is_available: is_available)
        assert prepare_torch(None) == expected
        assert prepare_torch("cpu") == "cpu"


@pytest.mark.parametrize("device", ["meta", "cuda:99", "mps:7"])
def test_an_unavailable_device_is_refused(device):
    with pytest.raises(ConfigError, match="cannot be used here") as caught:
        prepare_torch(device)
    assert "cpu" in (caught.value.hint or "")


def test_available_devices_are_listed(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ConfigError) as caught:
        prepare_torch("cuda:99")
    assert caught.value.hint == "Only cpu is available here; see `mbc doctor`."
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ConfigError) as caught:
        prepare_torch("cuda:99")
    assert caught.value.hint == "Only cpu, cuda:0, cuda:1 are available here; see `mbc doctor`."


@pytest.mark.parametrize("device", ["abacus", "meta", "cpu:x", "cuda:", ""])
def test_an_invalid_device_is_refused(device):
    with pytest.raises(ConfigError, match="is not a device"):
        require_device(device)


def test_a_resumed_run_keeps_its_device(mbc, preset, questions, home, monkeypatch):
    assert mbc("train", "--preset", preset, "--data", questions, "--run", "./run").exit_code == 0
    assert json.loads((home / "run" / "command.json").read_text())["device"] == "cpu"
    monkeypatch.setenv("MBC_DEVICE", "abacus")  # for new runs
    assert mbc("train", "--resume", "--run", "./run").exit_code == 0
    assert mbc("train", "--resume", "--run", "./run", "--device", "abacus").exit_code == 2


def test_dashboard_in_a_browser_keeps_the_device(home):
    options = DashboardOptions(home / "b", "mini", home / "runs", device="cuda:1").to_arguments()
    assert options[-2:] == ["--device", "cuda:1"]
    assert "--device" not in DashboardOptions(home / "b", "mini", home / "runs").to_arguments()
