"""A tiny model that names its pretrained parts as on the hub, and a fake hub."""

from shutil import copytree

import pytest

from mbc_engine.paper.checkpoint import save_model
from mbc_engine.sharing import push
from tests.sharing.fake_hub import FakeHub


@pytest.fixture(autouse=True)
def working_folder(tiny, tmp_path, monkeypatch):
    """The working folder, in which `tiny/gpt2` and `tiny/bert` are found as in a cache of the hub."""
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "gpt2").symlink_to(tiny.bases["gpt2"])
    (tmp_path / "tiny" / "bert").symlink_to(tiny.encoders["bert"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def saved_once(tiny, tmp_path_factory):
    kind = ("gpt2", "bert", "model.routing=true")
    names = ("model.base=tiny/gpt2", "model.documents.name=tiny/bert", "model.questions.name=tiny/bert")
    save_model(tiny.model(*kind), tiny.config(*kind, *names), folder := tmp_path_factory.mktemp("models") / "saved")
    return folder


@pytest.fixture
def saved(saved_once, working_folder):
    """The folder of a tiny model with a router."""
    return copytree(saved_once, working_folder / "saved")


@pytest.fixture
def hub(working_folder, monkeypatch):
    (working_folder / "hub").mkdir()
    fake = FakeHub(working_folder / "hub")
    fake.install(monkeypatch.setattr)
    return fake


@pytest.fixture
def shared(saved, hub):
    """The hub with the model as ada/tiny."""
    push(saved, "ada/tiny")
    return hub


@pytest.fixture
def models(working_folder):
    """The user's folder of models; nothing is in it yet."""
    return working_folder / "models"


@pytest.fixture
def files():
    """All files below a folder by their paths."""

    def read(folder):
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    return read
