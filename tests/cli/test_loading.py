"""Loading in the command line, the devices of models, and the stub that other tests have in place of a memory."""

import gc
import inspect
import weakref
from unittest.mock import Mock

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


def test_every_command_that_runs_a_model_takes_a_device(mbc, refusal, model, bank, notes, questions, monkeypatch):
    load = Mock(side_effect=ModelError("Not today."))
    monkeypatch.setattr("mbc_engine.paper.checkpoint.load", load)
    monkeypatch.setenv("MBC_DEVICE", "abacus")
    commands = (
        ("ask", "Where did Ada move?", "--bank", bank),
        ("ingest", notes, "--bank", bank, "--workers", 0),
        ("eval", "--data", questions(44), "--limit", 1),
        ("calibrate", "--data", questions(44), "--bank-size", 8, "--dry-run"),
        ("bank", "reencode", "--bank", bank, "--workers", 0),
        ("demo",),
    )
    for command in commands:
        assert "'abacus'" in refusal(2, *command, "--model", model)
        assert "Not today." in mbc(*command, "--model", model, "--device", "cpu", code=4).stderr
    assert [call.kwargs["device"] for call in load.call_args_list] == ["cpu"] * len(commands)


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
