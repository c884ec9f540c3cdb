"""How methods are made: all banks are read alike, and controls are asked only where a read can tell them apart."""

from collections.abc import Callable
from typing import Any

import pytest

from mbc_engine.experiments.cells import Cell, cells
from mbc_engine.experiments.registry import METHODS, controls_of
from mbc_engine.experiments.settings import ExperimentSettings

Settings = Callable[..., ExperimentSettings]


@pytest.fixture
def cell(settings: Settings, tiny: Any) -> Callable[..., Cell]:
    """A cell with an untrained model, of one chunk a document."""

    def make(**changes: Any) -> Cell:
        made = next(cells(settings(**changes)))
        made.memory_model = lambda name: tiny.model("gpt2", "bert", "model.routing=true")  # type: ignore[method-assign]
        return made

    return make


@pytest.mark.parametrize("read", [None, "routed:3"])
def test_mbc_and_mac_read_alike(cell: Callable[..., Cell], read: str | None) -> None:
    given = cell(read=read)
    remembering: list[Any] = [given.method(name) for name in ("mbc", "mac", "mbc-shuffled-codes")]
    assert {method._read_mode for method in remembering} == {read}


@pytest.mark.parametrize(
    ("read", "bank", "is_asked"),
    [
        ("flat", None, False),
        ("hierarchical:8", None, False),
        ("hierarchical:7", None, True),
        ("hierarchical:3", 3, False),
        ("hierarchical:2", 3, True),
        ("hierarchical", None, False),  # 256 documents a group
        ("routed:8", None, False),
        ("routed:7", None, True),
        ("routed", None, True),  # two
        ("routed", 2, False),
    ],
)
def test_a_control_that_a_read_cannot_tell_from_the_real_bank_is_not_asked(
    cell: Callable[..., Cell], read: str, bank: int | None, is_asked: bool
) -> None:
    given = cell(read=read, bank_documents=bank, documents=8)
    assert (given.skip_reason("mbc-shuffled-documents") is None) == is_asked
    assert given.skip_reason("mbc-shuffled-codes") is given.skip_reason("mbc-empty") is given.skip_reason("mbc") is None


def test_a_method_with_a_read_of_its_own_is_asked_in_it_and_so_is_its_control(cell: Callable[..., Cell]) -> None:
    given = cell(read="routed:3")
    methods: list[Any] = [given.method(f"{name}-flat") for name in ("mbc", "mbc-wrong", "mac", "mac-wrong")]
    assert {method._read_mode for method in methods} == {"flat"}
    assert [type(method).__name__ for method in methods] == ["MemoryMethod", "WrongBank"] * 2
    assert [method._codebook is None for method in methods] == [False, False, True, True]
    assert controls_of("mac-flat") == ("mac-wrong-flat",)
    assert METHODS["mbc-wrong-flat"].title == "MBC, wrong bank (flat read)"


def test_every_control_says_what_it_spoils() -> None:
    assert all(bool(kind.corrupted_bank) == (kind.control_of is not None) for kind in METHODS.values())
