"""A tiny model that names its pretrained parts as on the hub, and a fake hub."""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from mbc_engine.paper.checkpoint import save_model
from mbc_engine.sharing import push
from tests.sharing.fake_hub import FakeHub


@pytest.fixture(autouse=True)
def working_folder(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, in which `tiny/gpt2` and `tiny/bert` are found as in a cache of the hub."""
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "gpt2").symlink_to(tiny.bases["gpt2"])
    (tmp_path / "tiny" / "bert").symlink_to(tiny.encoders["bert"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def saved_once(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    kind = ("gpt2", "bert", "model.routing=true")
    names = ("model.base=tiny/gpt2", "model.documents.name=tiny/bert", "model.questions.name=tiny/bert")
    save_model(tiny.model(*kind), tiny.config(*kind, *names), folder := tmp_path_factory.mktemp("models") / "saved")
    return folder


@pytest.fixture
def saved(saved_once: Path, working_folder: Path) -> Path:
    """The folder of a tiny model with a router."""
    return copytree(saved_once, working_folder / "saved")


@pytest.fixture
def hub(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    (working_folder / "hub").mkdir()
    fake = FakeHub(working_folder / "hub")
    fake.install(monkeypatch.setattr)
    return fake


@pytest.fixture
def shared(saved: Path, hub: FakeHub) -> FakeHub:
    """The hub with the model as ada/tiny."""
    push(saved, "ada/tiny")
    return hub


@pytest.fixture
def models(working_folder: Path) -> Path:
    """The user's folder of models; nothing is in it yet."""
    return working_folder / "models"


@pytest.fixture
def files() -> Callable[[Path], dict[str, bytes]]:
    """All files below a folder by their paths."""

    def read(folder: Path) -> dict[str, bytes]:
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    return read
