"""Folders to ingest."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four stories and a picture."""
    folder = tmp_path / "news"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text(f"Story number {number}. It rained in the north. Nobody won.")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder
