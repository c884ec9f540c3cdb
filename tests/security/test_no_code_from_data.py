"""Nothing that is read can be run: no pickles, no code of others' models, and what passes between processes is data.

Ruff's security rules refuse eval, exec, pickle, marshal, shelve, unsafe YAML and shells; that nobody silences them, and
what they do not know, is looked for here.
"""

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import mbc_cli
import mbc_engine
from mbc_engine.errors import MBCError, ModelMismatch
from mbc_engine.ingestion.ray.workers import COLUMN, Files, KnownParts, Stretch, packed, told, unpacked
from mbc_engine.ingestion.reading import Chunked, Encoded, FileRead, Unchanged
from mbc_engine.text import Chunk, Document, Skipped

MODULES = [path for package in (mbc_cli, mbc_engine) for path in sorted(Path(package.__path__[0]).rglob("*.py"))]
RUNNING = {"__import__", "eval", "exec", "pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
CALLS = {"torch.load", "os.system", "os.popen", "yaml.load", "np.load", "numpy.load", "pd.read_pickle"}
KEYWORDS = {"trust_remote_code": False, "allow_pickle": False, "weights_only": True, "shell": False}
SILENCED = re.compile(r"noqa:.*\bS(?:102|301|302|307|4\d\d|506|60[245]|614)\b")


def dangers(code: str) -> Iterator[str]:
    """What in a module could run what it reads."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Name(id=name) if name in RUNNING:
                yield name
            case ast.alias(name=name) | ast.ImportFrom(module=str(name)) if name.partition(".")[0] in RUNNING:
                yield name
            case ast.Attribute() if ast.unparse(node) in CALLS:
                yield ast.unparse(node)
            case ast.keyword(arg=str(name), value=value) if name in KEYWORDS:
                if not (isinstance(value, ast.Constant) and value.value is KEYWORDS[name]):
                    yield name
    yield from SILENCED.findall(code)


def test_no_module_runs_what_it_reads() -> None:
    assert len(MODULES) > 100
    assert {path.name: found for path in MODULES if (found := list(dangers(path.read_text("utf-8"))))} == {}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle", "from pickle import loads", "import torch; torch.load('a')", "eval('1')", "__import__('os')",
        "AutoModel.from_pretrained(a, trust_remote_code=True)", "AutoModel.from_pretrained(a, trust_remote_code=some)",
        "run(a, shell=True)", "load(a, weights_only=False)", "np.load(a, allow_pickle=True)", "a()  # noqa: E501, S602",
        "import os; os.system('ls')", "import ray.cloudpickle, shelve",
    ],
)  # fmt: skip
def test_a_module_that_would_is_found(code: str) -> None:
    assert list(dangers(code))


def test_safe_ways_are_none() -> None:
    assert not list(dangers("AutoModel.from_pretrained(a, trust_remote_code=False)  # noqa: S603\nmodel.eval()"))


CHUNKS = [Chunk("Zoë\n", 0), Chunk("“moved”", 5)]
READ = Document("/notes/a.txt", "row 1", "", "ab" * 32, 7)
STRETCH = Stretch(
    1,
    2,
    False,
    (
        Chunked(READ, CHUNKS, 3),
        Unchanged("/notes/b.txt", 4),
        Skipped("/notes/c.txt", "is empty", is_whole=True),
        FileRead(5, frozenset({("/notes/a.txt", "row 2")})),
    ),
    0.25,
)


def there_and_back(value: Files | Stretch) -> Files | Stretch:
    (found,) = unpacked(pa.table(packed(value)))
    return found


@pytest.mark.parametrize(
    "value",
    [
        STRETCH,
        Files(3, (b"/notes/\xff\n.txt", b"/b"), (KnownParts({"": "ab"}), KnownParts())),
        Files(0, (), (None,)),
    ],
)
def test_what_passes_between_processes_on_ray_comes_as_it_went(value: Files | Stretch) -> None:
    assert there_and_back(value) == value


def test_codes_come_as_they_went() -> None:
    codes = np.arange(2 * 3 * 2, dtype=np.uint16).reshape(2, 3, 2) * 5957
    (item,) = there_and_back(Stretch(0, 0, True, (Encoded(READ, CHUNKS, codes, 3),))).items
    assert (item.document, item.chunks, item.size) == (READ, CHUNKS, 3)
    assert np.array_equal(item.codes, codes)
    assert item.codes.dtype == np.uint16


@pytest.mark.parametrize("error", [ModelMismatch("another", hint="the same"), told(KeyError("x")), MBCError("\ud800")])
def test_errors_come_as_they_went(error: MBCError) -> None:
    came = there_and_back(Stretch(0, 0, True, (), error=error)).error
    assert type(came) is type(error)
    assert (came.message, came.hint) == (error.message.replace("\ud800", "\ufffd"), error.hint)


@pytest.mark.parametrize(
    "cell", [pickle.dumps(STRETCH), b"{}", b'{"number": 0, "place": 0, "is_last": true, "items": [[]]}']
)
def test_anything_else_is_refused(cell: bytes) -> None:
    with pytest.raises(ValueError, match="validation error"):
        list(unpacked(pa.table({COLUMN: [cell]})))
