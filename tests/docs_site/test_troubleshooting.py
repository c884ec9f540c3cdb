"""The messages that docs/troubleshooting.md explains are messages of the program."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"`([^`\n]*…[^`\n]*)`", PAGE)


@pytest.fixture(scope="module")
def texts() -> str:
    """All texts in the program, with what is put into them left out."""
    modules = [path for package in ("mbc_cli", "mbc_engine") for path in (ROOT / package).rglob("*.py")]
    nodes = (node for path in modules for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    return "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.parametrize("message", sorted(set(MESSAGES)))
def test_the_program_says_so(message: str, texts: str) -> None:
    for part in filter(None, (part.strip() for part in message.split("…"))):
        assert part in texts


def test_messages_are_found_on_the_page() -> None:
    assert len(set(MESSAGES)) > 10
