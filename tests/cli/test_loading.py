"""Loading in the command line, the devices of models, and the stub that other tests have in place of a memory."""

import gc
import inspect
import weakref

import pytest
import torch

from mbc_cli.loading import _freeze, loading, open_memory, prepare_torch
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.memory import Memory
from tests.cli.stub_memory import StubMemory


def test_an_unloaded_model_is_freed(model, bank):
    gc.unfreeze()
    _freeze.cache_clear()
    with open_memory([bank], str(model), "cpu") as memory:
        held = weakref.ref(memory.model)
        assert gc.get_freeze_count()
        memory.unload()
        assert held() is None


def test_models_stay_collectable_in_a_frozen_process():
    _freeze.cache_clear()
    gc.freeze()  # as the dashboard does, which may open one model after the other
    before = gc.get_freeze_count()
    with loading("a model"):
        objects = [[number] for number in range(1000)]
    assert objects and gc.get_freeze_count() <= before


def test_garbage_collection_pauses_while_loading():
    with pytest.raises(KeyError), loading("a model"):
        with loading("its parts"):
            pass
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
    assert gc.get_freeze_count()


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


def test_commands_take_a_device(mbc, refusal, model, commands, devices, monkeypatch):
    monkeypatch.setenv("MBC_DEVICE", "abacus")
    for command in commands:
        assert "'abacus'" in refusal(2, *command, "--model", model)
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


def test_stub_has_all_public_methods_with_their_arguments():
    def arguments(method):
        listed = inspect.signature(method).parameters.values() if inspect.isfunction(method) else ()
        return [(each.name, each.kind) for each in listed]

    def methods(kind):
        return {name: arguments(method) for name, method in vars(kind).items() if name == "__init__" or name[0] != "_"}

    assert methods(StubMemory) == methods(Memory)
