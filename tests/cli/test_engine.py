"""Loading in the command line: what it changes in the process, and what it leaves alone."""

import gc
import weakref

import pytest

from mbc_cli import engine
from mbc_cli.engine import loading


def test_an_unloaded_model_is_freed(model, bank):
    gc.unfreeze()
    engine._freeze.cache_clear()
    with engine.open_memory([bank], str(model), "cpu") as memory:
        held = weakref.ref(memory.model)
        assert gc.get_freeze_count()
        memory.unload()
        assert held() is None


def test_models_stay_collectable_in_a_frozen_process():
    engine._freeze.cache_clear()
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
