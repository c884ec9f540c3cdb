"""The pages about the paper and the architecture: their names exist, and hyper-parameters are those of the presets."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mbc_engine.config import load_preset

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/paper.md").read_text(encoding="utf-8")
SPANS = re.findall(r"`([^`\s]+)`", PAGE + (ROOT / "docs/architecture.md").read_text(encoding="utf-8"))
PRESETS = ("distilgpt2", "gpt2-large", "gpt2-xl", "llama2-7b")
HYPER_PARAMETERS = [
    tuple(cell.strip() for cell in row.strip("| \n").split("|"))
    for row in re.findall(r"^\|[^|]*\| `(?:model|training)\.(?!py).*$", PAGE, re.MULTILINE)
]
HYPER_PARAMETERS += [("", key, *4 * [value]) for key, value in re.findall(r"`([a-z_.]+)\s=\s([\d.e-]+)`", PAGE)]


def home(path):
    return ROOT / ("" if path.startswith(("tests/", "mbc_cli/", "benchmarks/")) else "mbc_engine") / path


@cache
def names(path):
    """Functions, classes, methods (`Class.method`) and constants of a module."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name, body=body):
                found.add(name)
                found |= {f"{name}.{inner.name}" for inner in body if isinstance(inner, ast.FunctionDef)}
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                found.add(name)
    return found


@pytest.mark.parametrize(
    "span", sorted({span for span in SPANS if re.search(r"\.(py|toml)", span) and "NAME" not in span})
)
def test_every_name_exists(span):
    path, _, name = span.partition("::")
    assert list(home(path).parent.glob(home(path).name)), path
    assert not name or name in names(home(path))


@pytest.mark.parametrize("row", HYPER_PARAMETERS, ids=lambda row: row[1])
def test_hyper_parameters_are_those_of_the_presets(row):
    _, key, *stated = row
    for preset, value in zip(PRESETS, stated, strict=True):
        found: Any = load_preset(preset)
        for part in key.strip("`").split("."):
            found = getattr(found, part)
        assert str(found) == value, preset


def test_all_hyper_parameters_are_listed():
    assert len(HYPER_PARAMETERS) == 21
