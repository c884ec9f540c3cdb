"""A tiny model that names its pretrained parts as a hub does, and a folder that acts as the hub."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mbc_engine.events import Event
from mbc_engine.paper.checkpoint import save_model
from mbc_engine.sharing.hub import FolderHub
from mbc_engine.sharing.pushing import push


@pytest.fixture(autouse=True)
def here(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, in which `tiny/gpt2` and `tiny/bert` are found as in a cache of the hub."""
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "gpt2").symlink_to(tiny.bases["gpt2"])
    (tmp_path / "tiny" / "bert").symlink_to(tiny.encoders["bert"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def saved(tiny: Any, here: Path) -> Path:
    """The folder of a tiny model with a router."""
    kind = ("gpt2", "bert", "model.routing=true")
    names = ("model.base=tiny/gpt2", "model.documents.name=tiny/bert", "model.questions.name=tiny/bert")
    save_model(tiny.model(*kind), tiny.config(*kind, *names), here / "saved")
    return here / "saved"


@pytest.fixture
def hub(here: Path) -> FolderHub:
    (here / "hub").mkdir()
    return FolderHub(here / "hub")


@pytest.fixture
def shared(saved: Path, hub: FolderHub) -> FolderHub:
    """The hub with the model as ada/tiny."""
    push(hub, saved, "ada/tiny", show=ignore)
    return hub


@pytest.fixture
def models(here: Path) -> Path:
    """The user's folder of models; nothing is in it yet."""
    return here / "models"


def ignore(event: Event) -> None:
    """Show nothing."""


@pytest.fixture
def files() -> Callable[[Path], dict[str, bytes]]:
    """All files below a folder by their paths."""

    def read(folder: Path) -> dict[str, bytes]:
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    return read
