"""Size limits of files and functions, with reasons for the exceptions."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("mbc_engine", "mbc_cli", "benchmarks", "recipes", "examples", "docs")
MOST_LINES = 500
MOST_LINES_OF_A_FUNCTION = 60
LARGER: dict[str, str] = {}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_file_is_longer_than_a_reader_holds_in_mind_without_a_reason(folder: str) -> None:
    long = {name(path) for path in (ROOT / folder).rglob("*.py") if len(path.read_text().splitlines()) > MOST_LINES}
    assert long == {path for path in LARGER if path.startswith(f"{folder}/")}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_function_can_be_seen_at_once(folder: str) -> None:
    long = [
        f"{name(path)}:{node.lineno} {node.name} has {length} lines"
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := _lines_of_body(node)) > MOST_LINES_OF_A_FUNCTION
    ]
    assert not long


def _lines_of_body(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Without the signature, which for a command is its options, and the docstring."""
    first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
    return (node.end_lineno or 0) - first.lineno + 1
