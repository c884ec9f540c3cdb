"""The stub that tests of front ends use has the interface of the real thing."""

import inspect

import pytest

from mbc_engine.memory import Memory
from tests.cli.stub_memory import StubMemory


def public_methods(kind):
    return sorted(name for name in vars(kind) if name in {"__init__", "__enter__", "__exit__"} or name[0] != "_")


def test_stub_has_all_public_methods():
    assert public_methods(StubMemory) == public_methods(Memory)


@pytest.mark.parametrize("name", public_methods(Memory))
def test_stub_takes_the_same_arguments(name):
    stub, real = (vars(kind)[name] for kind in (StubMemory, Memory))
    if not inspect.isfunction(real):  # a property
        return
    assert _parameters(stub) == _parameters(real)


def _parameters(function):
    """Name, kind and default of each argument; functions that are defaults count as equal."""
    listed = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, "function" if inspect.isfunction(each.default) else each.default) for each in listed]
