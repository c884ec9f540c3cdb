"""The public names of the library: which there are, that they cost nothing until used, and that each is explained."""

import inspect
import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import mbc_engine
from mbc_engine import errors, events

# Whoever changes this changes what programs import.
NAMES = {
    *("Answer", "AskOptions", "Banks", "Confidence", "Config", "EmptyBank", "Event", "MBC", "MBCError", "Memory"),
    *("MemoryBank", "MemoryMethod", "QAExample", "RetrieveAndRead", "RetrieverReader", "Selection", "Source"),
    "__version__",
    *("calibrate", "evaluate", "ingest", "ingest_stream", "load_examples", "load_model", "load_preset", "open_bank"),
    *("reencode", "run_to_completion", "train", "watch"),
}
OBJECTS = sorted(NAMES - {"__version__"})


def test_the_public_names_are_these() -> None:
    assert set(mbc_engine.__all__) == NAMES
    assert set(dir(mbc_engine)) == NAMES


@pytest.mark.parametrize("name", OBJECTS)
def test_a_public_name_is_there_and_explained(name: str) -> None:
    found = getattr(mbc_engine, name)
    assert found.__name__ == name
    assert found.__doc__
    assert not found.__doc__.startswith(f"{name}(")  # what a dataclass is given that says nothing


@pytest.mark.parametrize("name", OBJECTS)
def test_a_public_function_explains_only_arguments_it_has(name: str) -> None:
    found = getattr(mbc_engine, name)
    if inspect.isfunction(found):
        section = re.search(r"Args:\n(.*?)(?:\n\n|\Z)", found.__doc__ or "", re.DOTALL)
        explained = re.findall(r"^ {8}(\w+):", section[1], re.MULTILINE) if section else []
        assert set(explained) <= set(inspect.signature(found).parameters)


@pytest.mark.parametrize("base", [events.Event, errors.MBCError])
def test_events_and_errors_are_explained(base: type) -> None:
    def below(kind: type) -> list[type]:
        return [kind, *(found for own in kind.__subclasses__() for found in below(own))]

    ours = [kind for kind in below(base) if kind.__module__ == base.__module__]
    assert len(ours) > 5
    assert [kind.__name__ for kind in ours if not kind.__doc__ or kind.__doc__.startswith(f"{kind.__name__}(")] == []


def test_a_name_that_is_not_there_is_missing_as_usual() -> None:
    with pytest.raises(AttributeError, match="'mbc_engine' has no attribute 'nothing'"):
        _ = mbc_engine.nothing


def test_importing_the_library_imports_no_other() -> None:
    code = (
        "import json, sys; before = set(sys.modules); import mbc_engine; dir(mbc_engine);"
        "print(json.dumps(sorted({name.split('.')[0] for name in set(sys.modules) - before} - {'mbc_engine'})))"
    )
    environment = {"PYTHONPATH": str(Path(mbc_engine.__file__).parents[1])}
    result = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert set(json.loads(result.stdout)) <= sys.stdlib_module_names


def test_the_library_says_that_it_is_typed() -> None:
    assert (files("mbc_engine") / "py.typed").is_file()


def test_work_is_done_to_its_end_and_its_result_given() -> None:
    def work():
        yield events.Progressed("answer questions", 1, 2)
        yield events.Progressed("answer questions", 2, 2)
        return "forty-two"

    shown: list[events.Event] = []
    assert events.run_to_completion(work(), shown.append) == "forty-two"
    assert shown == [events.Progressed("answer questions", 1, 2), events.Progressed("answer questions", 2, 2)]
    assert events.run_to_completion(work()) == "forty-two"
