"""An ingest begun here, as a command."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mbc_cli.tui.jobs.processes import Ingesting, IngestPlan
from mbc_cli.tui.state import Places


def test_the_command_says_what_was_chosen(places: Places, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[list[str]] = []

    def child(arguments: list[str], ended: Callable[[object], object]) -> None:
        begun.append(arguments)

    monkeypatch.setattr("mbc_cli.tui.jobs.processes.Child", child)
    plan = IngestPlan(home / "-x", watch=True, prune=True, ignore=("-a", "*.csv"))
    Ingesting(places, print).start(plan)
    options = [f"--bank={places.bank}", f"--model={places.model}", "--ignore=-a", "--ignore=*.csv"]
    assert begun == [["ingest", *options, "--watch", "--prune", "--", str(home / "-x")]]
