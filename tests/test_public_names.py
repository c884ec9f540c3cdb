"""The public names of the library: which there are, that they cost nothing until used, and that each is explained."""

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import mbc_engine
from mbc_engine import events

# Programs import these.
NAMES = {
    *("Answer", "AskOptions", "Banks", "Confidence", "Config", "Conversation", "EmptyBank", "Event", "MBC", "MBCError"),
    *("Memory", "MemoryBank", "MemoryMethod", "QAExample", "RetrieveAndRead", "RetrieverReader", "Selection", "Source"),
    "__version__",
    *("calibrate", "evaluate", "ingest", "ingest_stream", "load_examples", "load_model", "load_preset", "open_bank"),
    *("reencode", "run_to_completion", "train", "watch"),
}


def test_public_names():
    assert set(mbc_engine.__all__) == set(dir(mbc_engine)) == NAMES
    assert (files("mbc_engine") / "py.typed").is_file()
    with pytest.raises(AttributeError, match="'mbc_engine' has no attribute 'nothing'"):
        _ = mbc_engine.nothing


def test_the_library_imports_only_the_standard_library():
    code = (
        "import json, sys; before = set(sys.modules); import mbc_engine; dir(mbc_engine);"
        "print(json.dumps(sorted({name.split('.')[0] for name in set(sys.modules) - before} - {'mbc_engine'})))"
    )
    environment = {"PYTHONPATH": str(Path(mbc_engine.__file__).parents[1])}
    result = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert set(json.loads(result.stdout)) <= sys.stdlib_module_names


def test_run_to_completion_returns_the_result():
    steps = [events.Progressed("answer questions", done, 2) for done in (1, 2)]

    def work():
        yield from steps
        return "forty-two"

    shown: list[events.Event] = []
    assert events.run_to_completion(work(), shown.append) == events.run_to_completion(work()) == "forty-two"
    assert shown == steps
