"""`mbc models push` and `mbc models pull`, with a fake hub."""

import json
import shutil

import pytest

from mbc_engine.events import TrainStarted, Validated
from mbc_engine.paper.checkpoint import save_model
from tests.conftest import write_log
from tests.sharing.fake_hub import SHA, FakeHub


@pytest.fixture
def hub(home, monkeypatch):
    """The folder of a fake hub."""
    (home / "hub").mkdir()
    FakeHub(home / "hub").install(monkeypatch.setattr)
    return home / "hub"


@pytest.fixture
def run(tiny, home):
    """A run with its model, whose pretrained parts are in the working folder as if they came from a hub."""
    (home / "tiny").mkdir()
    (home / "tiny" / "gpt2").symlink_to(tiny.bases["gpt2"])
    (home / "tiny" / "bert").symlink_to(tiny.encoders["bert"])
    names = ("model.base=tiny/gpt2", "model.documents.name=tiny/bert", "model.questions.name=tiny/bert")
    folder = home / "XDG_DATA_HOME" / "mbc" / "runs" / "first"
    save_model(tiny.model(), tiny.config("gpt2", "bert", *names), folder / "model")
    shutil.copy(folder / "model" / "config.toml", folder)
    command = {"data": [f"{home}/secret/q.jsonl"], "validation": None, "start": None, "device": "cpu"}
    (folder / "command.json").write_text(json.dumps(command))
    validated = Validated(10, 0, 12, 10, 25.0, 50.0, None, True)
    write_log(folder / "events.jsonl", TrainStarted(0, 10, 40, 38, 1000), validated)
    return folder


def test_a_model_is_pushed_and_pulled(mbc, hub, run):
    result = mbc("models", "push", "first", "ada/tiny", "--license", "mit")
    assert result.exit_code == 0, result.stderr
    assert "mbc models pull ada/tiny" in result.stdout
    assert "tiny/gpt2 is also a folder here" in result.stderr
    result = mbc("models", "pull", "ada/tiny")
    assert result.exit_code == 0, result.stderr
    assert "per chunk  1.5 bytes" in result.stdout


def test_json(mbc, hub, run, home):
    pushed = json.loads(mbc("models", "push", run, "ada/tiny", "--json").stdout)
    size = pushed.pop("size")
    assert pushed == {"model": "first", "repository": "ada/tiny", "revision": SHA, "card": "written"}
    pulled = json.loads(mbc("models", "pull", "ada/tiny", "--name", "mine", "--json").stdout)
    assert pulled["size"] == size
    assert (pulled["model"], pulled["codes"]["bits_per_chunk"]) == ("mine", 12)
    shown = json.loads(mbc("models", "show", "mine", "--json").stdout)
    for name in ("model", "path", "base", "encoders", "codes"):
        assert pulled[name] == shown[name]
    assert pulled["path"] == str(home / "XDG_DATA_HOME" / "mbc" / "models" / "mine")


def test_card_names_data_without_folders(mbc, hub, run, home):
    data = ["/a:b/secret/q.jsonl", "/a\nb/secret/r.jsonl", "squad:train:/c:d/secret/squad", "newswire:train:5"]
    command = {"data": data, "validation": None, "start": "/secret/base", "device": "cpu"}
    (run / "command.json").write_text(json.dumps(command))
    assert mbc("models", "push", "first", "ada/tiny").exit_code == 0
    card = (hub / "ada" / "tiny" / "README.md").read_text()
    files = "--data q.jsonl --data r.jsonl --data squad:train:squad --data newswire:train:5 --from base"
    assert f"mbc train --preset config.toml {files}\n" in card


def test_a_model_in_training_is_refused(mbc, hub, run, monkeypatch):
    monkeypatch.setattr("mbc_cli.commands.models.is_running", lambda folder: True)
    result = mbc("models", "push", "first", "ada/tiny")
    assert (result.exit_code, "is being trained" in result.stderr) == (4, True)
