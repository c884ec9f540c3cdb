"""A tiny model in a folder, files to memorise, and a home of its own for every test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from mbc_cli.app import app
from mbc_engine.model.checkpoint import save_model

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder and the user's folders lie in `tmp_path`; nothing is taken from the real environment."""
    for name in ("MBC_BANK", "MBC_MODEL", "MBC_RUNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def mbc() -> Run:
    """Runs `mbc` with arguments in this process."""

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


@pytest.fixture(scope="session")
def preset(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A preset file of a tiny model with both reads."""
    path = tmp_path_factory.mktemp("presets") / "tiny.toml"
    path.write_text(tiny.config("gpt2", "bert", "model.routing=true").to_toml())
    return path


@pytest.fixture(scope="session")
def model(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an untrained tiny model."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    overrides = ("gpt2", "bert", "model.routing=true")
    save_model(tiny.model(*overrides), tiny.config(*overrides), folder)
    return folder


@pytest.fixture
def notes(home: Path) -> Path:
    """Two files that can be memorised."""
    folder = home / "notes"
    folder.mkdir()
    (folder / "ada.txt").write_text("Ada moved to Aalen in the spring. The river rose.")
    (folder / "bruno.md").write_text("Bruno moved to Bergen. The bridge held.")
    return folder


@pytest.fixture
def bank(mbc: Run, model: Path, notes: Path, home: Path) -> Path:
    """A bank that holds the notes."""
    path = home / "memory.mbc"
    assert mbc("ingest", notes, "--bank", path, "--model", model).exit_code == 0
    return path
