"""Files written and read in one go."""

import sys
from pathlib import Path

import pytest

from mbc_engine.text import Document, Skipped, read_file

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # for its samples, without the checkout installed
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


@pytest.fixture
def write(tmp_path):
    def write(name, data):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    return write


@pytest.fixture
def read(write):
    """Everything that reading a file of this name and content gives."""
    return lambda name, data: list(read_file(write(name, data)))


@pytest.fixture
def read_one(read):
    """The one document of a file that gives nothing else."""

    def read_one(name, data):
        (item,) = read(name, data)
        assert isinstance(item, Document), item
        return item

    return read_one


@pytest.fixture
def reason(read):
    """Why a file gives no document at all."""

    def reason(name, data):
        (item,) = read(name, data)
        assert isinstance(item, Skipped), item
        return item.reason

    return reason


def sections(document):
    """The first line of each section, and its context."""
    return [(document.text[section.start :].split("\n")[0].strip(), section.context) for section in document.sections]


def named_texts(items):
    """The part and text of each document; where one was skipped, its number and the reason."""
    return [
        (item.part, item.text) if isinstance(item, Document) else (item.source.partition("#")[2], item.reason)
        for item in items
    ]


def words(texts):
    """Counts words as tokens."""
    return [len(text.split()) for text in texts]


def links(*kinds_and_targets):
    """The links of a part of an Office file, which are called r1, r2, …"""
    written = (
        f'<Relationship Id="r{number}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(kinds_and_targets, 1)
    )
    return f'<Relationships xmlns="x">{"".join(written)}</Relationships>'
