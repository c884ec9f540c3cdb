"""Files written and read in one go."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mbc_engine.text import Document, Skipped, read_file

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # for its samples, without the checkout installed
Written = bytes | str
Read = Callable[[str, Written], list[Document | Skipped]]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Written], Path]:
    def write(name: str, data: Written) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    return write


@pytest.fixture
def read(write: Callable[[str, Written], Path]) -> Read:
    """Everything that reading a file of this name and content gives."""
    return lambda name, data: list(read_file(write(name, data)))


@pytest.fixture
def read_one(read: Read) -> Callable[[str, Written], Document]:
    """The one document of a file that gives nothing else."""

    def read_one(name: str, data: Written) -> Document:
        (item,) = read(name, data)
        assert isinstance(item, Document), item
        return item

    return read_one


@pytest.fixture
def reason(read: Read) -> Callable[[str, Written], str]:
    """Why a file gives no document at all."""

    def reason(name: str, data: Written) -> str:
        (item,) = read(name, data)
        assert isinstance(item, Skipped), item
        return item.reason

    return reason


def sections(document: Document) -> list[tuple[str, str]]:
    """The first line of each section, and its context."""
    return [(document.text[section.start :].split("\n")[0].strip(), section.context) for section in document.sections]
