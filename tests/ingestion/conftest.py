"""A tiny model, a bank of it, and what to compare of banks and events."""

from pathlib import Path

import pytest

from mbc_engine import ingest, open_bank
from mbc_engine.bank.exchange import export
from mbc_engine.events import FileSkipped, IngestFinished


@pytest.fixture
def model(tiny):
    return tiny.model()


@pytest.fixture
def bank(model, tmp_path):
    with open_bank(model, tmp_path / "b.mbc") as bank:
        yield bank


@pytest.fixture
def fresh_lines(model, tmp_path):
    """The lines of a new bank of these paths."""

    def fresh_lines(*paths, model=model, **kept):
        with open_bank(model, tmp_path / "fresh.mbc", **kept) as fresh:
            list(ingest(model, fresh, paths))
            return lines(fresh)

    return fresh_lines


def last_of(events):
    *_, last = events
    assert isinstance(last, IngestFinished)
    return last


def skipped(events):
    """Names, without folders, and reasons of skipped files."""
    return [(Path(event.source).name, event.reason) for event in events if isinstance(event, FileSkipped)]


def sources(bank):
    """Names of the bank's sources, without folders."""
    return sorted(Path(origin.name).name for document in bank.documents() for origin in document.origins)


def lines(bank):
    return b"".join(export(bank))
