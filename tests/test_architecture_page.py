"""Everything the page on the architecture names exists, and its map has every module in the order of the layers."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.docs.markdown import blocks

ROOT = Path(__file__).parents[1]
ENGINE = ROOT / "mbc_engine"
NAME = "docs/architecture.md"
PAGE = (ROOT / NAME).read_text(encoding="utf-8")
# A path begins at the root or in the engine; NAME stands for any name.
PATHS = sorted(set(re.findall(r"`((?:[\w.]+/)+|(?:[\w.-]+/)*[\w.-]+\.(?:py|toml|md|txt))(?:::([\w.]+))?`", PAGE)))


def homes(path: str) -> list[Path]:
    pattern = path.replace("NAME", "*").rstrip("/")
    return [found for base in (ROOT, ENGINE) for found in base.glob(pattern) if found.is_dir() is path.endswith("/")]


@cache
def names(module: Path) -> set[str]:
    """The top-level names of a module, and those in its classes (`Class.method`)."""
    return set(_named(ast.parse(module.read_text(encoding="utf-8"))))


def _named(holder: ast.Module | ast.ClassDef) -> list[str]:
    found = []
    for node in holder.body:
        match node:
            case ast.ClassDef(name=name):
                found += [name, *(f"{name}.{inner}" for inner in _named(node))]
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                found.append(name)
            case ast.Assign(targets=targets):
                found += [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    return found


def mapped() -> dict[str, list[str]]:
    """What the map has in each folder at the root, in order."""
    found: dict[str, list[str]] = {}
    for line in next(block.text for block in blocks(NAME) if block.language == "tree").splitlines():
        match = re.match(r" *((?:[\w/]+(?:/|\.py),? +)+)", line)
        assert match, line
        inner = match[1].replace(",", "").split()
        if line.startswith(" "):
            found[[*found][-1]] += inner
        else:
            found |= {folder: [] for folder in inner}
    return found


@cache
def layers() -> list[set[str]]:
    """The engine's layers as `lint-imports` checks them, the highest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    highest_first = next(own["layers"] for own in contracts if own["type"] == "layers")
    return [set(re.findall(r"mbc_engine\.(\w+)", layer)) for layer in highest_first if "mbc_engine" in layer]


@pytest.mark.parametrize(("path", "name"), PATHS)
def test_everything_named_is_there(path: str, name: str) -> None:
    found = homes(path)
    assert found
    assert not name or any(name in names(module) for module in found)


def test_a_name_with_two_homes_is_written_whole() -> None:
    assert not [path for path, _ in PATHS if "NAME" not in path and len(homes(path)) > 1]


def test_every_module_of_the_engine_has_a_layer() -> None:
    entries = [path for path in ENGINE.glob("[!_]*") if path.suffix == ".py" or (path / "__init__.py").exists()]
    assert {path.stem for path in entries} == set().union(*layers())


def test_the_map_is_true() -> None:
    assert all((ROOT / folder / name).exists() for folder, inner in mapped().items() for name in ["", *inner])


@pytest.mark.parametrize("package", ["mbc_engine", "mbc_cli"])
def test_the_map_has_every_folder(package: str) -> None:
    files = (path.relative_to(ROOT / package) for path in (ROOT / package).glob("[!_.]*/**/*.*"))
    folders = {f"{path.parts[0]}/" for path in files if path.suffix != ".pyc"}
    assert folders <= set(mapped()[f"{package}/"])


def test_the_map_has_every_module_of_the_engine_in_the_order_of_the_layers() -> None:
    heights = {name: height for height, layer in enumerate(layers()) for name in layer}
    names_on_map = [path.removesuffix("/").removesuffix(".py") for path in mapped()["mbc_engine/"]]
    modules = [name for name in names_on_map if name in heights]
    assert sorted(modules) == sorted(heights)
    assert modules == sorted(modules, key=heights.__getitem__)
