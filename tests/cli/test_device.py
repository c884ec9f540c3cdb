"""Where models run: set by an option, by the environment, or detected."""

import pytest
import torch

from mbc_cli.engine import prepare_torch, require_device
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


def test_available_devices_are_listed(monkeypatch):
    for count, listed in ((0, "cpu is"), (2, "cpu, cuda:0, cuda:1 are")):
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        with pytest.raises(ConfigError) as caught:
            prepare_torch("cuda:99")
        assert caught.value.hint == f"Only {listed} available here; see `mbc doctor`."


@pytest.mark.parametrize("device", ["abacus", "meta", "cpu:x", "cuda:", ""])
def test_an_invalid_device_is_refused(device):
    with pytest.raises(ConfigError, match="is not a device"):
        require_device(device)
