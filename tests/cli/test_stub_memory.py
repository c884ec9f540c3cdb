"""The stub that tests of front ends use has the interface of the real thing."""

import inspect

from mbc_engine.memory import Memory
from tests.cli.stub_memory import StubMemory


def parameters(function):
    """Name, kind and default of each argument, none of a property; functions that are defaults count as equal."""
    listed = inspect.signature(function).parameters.values() if inspect.isfunction(function) else ()
    return [(each.name, each.kind, inspect.isfunction(each.default) or each.default) for each in listed]


def public_methods(kind):
    names = {name for name in vars(kind) if name in {"__init__", "__enter__", "__exit__"} or name[0] != "_"}
    return {name: parameters(vars(kind)[name]) for name in names}


def test_stub_has_all_public_methods_with_their_arguments():
    assert public_methods(StubMemory) == public_methods(Memory)
