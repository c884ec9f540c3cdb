"""Processes that read files: one that dies costs its file, and is replaced."""

import json
import multiprocessing
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mbc_engine import open_bank
from mbc_engine.ingestion.reading import ChunkedDocument, FileRead, Workers, read_all
from mbc_engine.text import Skipped


@pytest.mark.slow
def test_a_file_whose_reader_dies_is_skipped_and_the_others_are_read(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    large = folder / "0.jsonl"  # more rows than are read ahead, so that it is in work when its process dies
    large.write_text("\n".join(json.dumps({"text": f"Row {number}."}) for number in range(5000)))
    files = [large, *sorted(folder.glob("*.txt"))]
    with open_bank(model, tmp_path / "b.mbc") as bank:
        items = read_all(files, bank, model.documents.chunker, workers=1)
        first = next(item for item in items if item is not None)
        (process,) = multiprocessing.active_children()
        process.kill()
        rest = list(items)
    assert isinstance(first, ChunkedDocument)
    assert [item for item in rest if isinstance(item, Skipped)] == [
        Skipped(str(large), "crashed the process that read it")
    ]
    names = [Path(item.document.source).name for item in rest if isinstance(item, ChunkedDocument)]
    assert names[-4:] == ["0.txt", "1.txt", "2.txt", "3.txt"]
    assert sum(isinstance(item, FileRead) for item in rest) == 5
    assert not any(item.lost for item in rest if isinstance(item, FileRead))


def test_who_iterates_is_not_kept_waiting(
    tiny: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mbc_engine.ingestion.reading._PATIENCE", 0.0)
    model = tiny.model()
    with (
        open_bank(model, tmp_path / "b.mbc") as bank,
        closing(read_all([folder / "0.txt"], bank, model.documents.chunker, workers=1)) as items,
    ):
        assert next(items) is None  # the process begins


@pytest.mark.slow
def test_processes_that_are_starting_are_ended(tiny: Any, folder: Path, tmp_path: Path) -> None:
    model = tiny.model()
    with open_bank(model, tmp_path / "b.mbc") as bank:
        assert bank.path is not None
        with Workers(sorted(folder.glob("*.txt")), bank.path, model.documents.chunker, 2):
            pass
        assert multiprocessing.active_children() == []
