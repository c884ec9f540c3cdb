"""A folder followed while it changes."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mbc_engine import open_bank
from mbc_engine.events import IngestFinished
from mbc_engine.serving.watch import watch


@pytest.mark.timeout(60)
def test_what_changes_is_ingested_and_what_goes_is_pruned(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model, stop = tiny.model(), threading.Event()
    seen: list[tuple[int, int, int]] = []

    def new_files() -> None:
        (folder / "sub").mkdir()
        (folder / "sub" / "new.txt").write_text("A new story.")
        (folder / "ignored.txt").write_text("Not to be read.")

    steps: list[Callable[[], object]] = [
        new_files,
        lambda: (folder / "0.txt").write_text("Changed."),
        lambda: (folder / "1.txt").unlink(),
        lambda: shutil.move(folder / "sub", folder / "moved"),
        stop.set,
    ]
    with open_bank(model, tmp_path / "b.mbc") as bank:
        for event in watch(model, bank, [folder], ignore=["ignored.txt"], prune=True, stop=stop):
            if isinstance(event, IngestFinished) and event.documents + event.removed:
                seen.append((event.documents, event.unchanged, event.removed))
                steps.pop(0)()
        names = sorted(Path(origin.source).name for document in bank.documents() for origin in document.origins)
    assert names == ["0.txt", "2.txt", "3.txt", "new.txt"]
    assert seen[0] == (4, 0, 0)
    assert seen[1] == (1, 0, 0)
    assert seen[2] == (1, 0, 0)
    assert seen[3] == (0, 0, 1)
