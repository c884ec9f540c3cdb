"""A tiny model, a bank of it, and what to compare of banks and events."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mbc_engine import MemoryBank, ingest, open_bank
from mbc_engine.bank.exchange import export
from mbc_engine.events import Event, FileSkipped, IngestFinished
from mbc_engine.paper.model import MBC


@pytest.fixture
def model(tiny: Any) -> MBC:
    return tiny.model()


@pytest.fixture
def bank(model: MBC, tmp_path: Path) -> Iterator[MemoryBank]:
    with open_bank(model, tmp_path / "b.mbc") as bank:
        yield bank


@pytest.fixture
def fresh_lines(model: MBC, tmp_path: Path) -> Callable[..., bytes]:
    """The lines of a new bank of these paths."""

    def fresh_lines(*paths: Path) -> bytes:
        with open_bank(model, tmp_path / "fresh.mbc") as fresh:
            list(ingest(model, fresh, paths))
            return lines(fresh)

    return fresh_lines


def last_of(events: Iterable[Event]) -> IngestFinished:
    *_, last = events
    assert isinstance(last, IngestFinished)
    return last


def skipped(events: Iterable[Event]) -> list[tuple[str, str]]:
    """Names, without folders, and reasons of skipped files."""
    return [(Path(event.source).name, event.reason) for event in events if isinstance(event, FileSkipped)]


def sources(bank: MemoryBank) -> list[str]:
    """Names of the bank's sources, without folders."""
    return sorted(Path(origin.name).name for document in bank.documents() for origin in document.origins)


def lines(bank: MemoryBank) -> bytes:
    return b"".join(export(bank))
