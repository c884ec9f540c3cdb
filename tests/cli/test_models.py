"""The models that are available, what a model or a preset consists of, and models shared through a fake hub."""

import json
import shutil
from dataclasses import asdict

import pytest

from mbc_engine.events import TrainStarted, Validated
from mbc_engine.paper.checkpoint import save_model
from mbc_engine.runs.training_runs import EVENTS
from tests.conftest import write_log
from tests.sharing.fake_hub import SHA, FakeHub

BEST = Validated(1000, 2, 500, 400, 51.25, 62.04, 90.0, True)


@pytest.fixture
def put(home, model):
    """Puts a copy of the tiny model into the user's models."""

    def copy(name):
        return shutil.copytree(model, home / "XDG_DATA_HOME" / "mbc" / "models" / name)

    return copy


@pytest.fixture
def run(home, model):
    """A training run with a model and two validations."""
    folder = home / "XDG_DATA_HOME" / "mbc" / "runs" / "first"
    shutil.copytree(model, folder / "model")
    write_log(folder / EVENTS, TrainStarted(0, 4000, 100, 50, 999), BEST)
    return folder


def test_all_models_are_listed(mbc, put, run, tiny):
    mine, pulled = put("mine"), put("ada/notes")
    rows = [line.split("\t") for line in mbc("models", "list").stdout.splitlines()]
    assert [row[0] for row in rows] == ["mini", "mine", "ada/notes", "first"]
    assert rows[0][1:4] == ["reads text", "24 x 512", "27 B"]
    assert [row[1:4] for row in rows[1:]] == [[str(tiny.bases["gpt2"]), "4 x 8", "1.5 B"]] * 3
    assert [row[5:7] for row in rows] == [["", ""]] * 3 + [["51.2", "62.0"]]
    assert [row[7] for row in rows[1:]] == [str(mine), str(pulled), str(run / "model")]


def test_the_list_as_json(mbc, run, tiny):
    mini, trained = map(json.loads, mbc("models", "list", "--json").stdout.splitlines())
    assert (mini["model"], mini["place"], mini["best"], mini["problem"]) == ("mini", "package", None, None)
    encoder = str(tiny.encoders["bert"])
    size = sum(path.stat().st_size for path in (run / "model").rglob("*") if path.is_file())
    codes = {"tokens": 4, "levels": 1, "num_codes": 8, "per_position": False, "bits_per_chunk": 12}
    parts = {"base": str(tiny.bases["gpt2"]), "encoders": {"documents": encoder, "questions": encoder}, "codes": codes}
    where = {"model": "first", "path": str(run / "model"), "place": "run", "size": size}
    assert trained == {**where, **parts, "reads_text": False, "problem": None, "best": asdict(BEST)}


@pytest.mark.parametrize("text", ["[model]\ntokens = 4\n", "\xff\xfe"], ids=["incomplete", "no UTF-8"])
def test_a_model_with_broken_settings_is_listed(mbc, refusal, put, text):
    (put("mine") / "config.toml").write_bytes(text.encode("latin-1"))
    listed = json.loads(mbc("models", "list", "--json").stdout.splitlines()[1])
    assert (listed["model"], listed["base"], listed["codes"]) == ("mine", None, None)
    assert listed["problem"]
    assert mbc("models", "list").stdout.splitlines()[1].split("\t")[1] == listed["problem"]
    assert refusal(4, "models", "show", "mine").startswith(f"Error: {listed['problem']}\n")


def test_a_preset_is_shown(mbc):
    lines = mbc("models", "show", "distilgpt2").stdout.splitlines()
    assert lines[0].split() == ["preset", "distilgpt2"]
    assert "per chunk  13.5 B: 12 tokens of 512 codes, one codebook for all" in lines
    assert "train      mbc train --preset distilgpt2 --data SPEC" in lines
    assert lines[-1].split() == ["all", "197,318,656", "81,912,576", "1.12", "GB"]


@pytest.mark.parametrize("typed", ["name", "folder", "run", "run's name"])
def test_a_model_is_found_by_name_folder_or_run(mbc, put, run, model, typed):
    put("mine")
    named = {"name": "mine", "folder": model, "run": run, "run's name": "first"}[typed]
    details = json.loads(mbc("models", "show", named, "--json").stdout)
    assert details["kind"] == "model"
    assert details["model"] == {"name": "mine", "folder": "tiny"}.get(typed, "first")
    assert details["place"] == {"name": "yours", "folder": "folder"}.get(typed, "run")
    assert (details["best"] is not None) == typed.startswith("run")
    assert details["parameters"]["trainable"] > 0
    assert details["settings"]["model"]["tokens"] == 4


def test_mini_is_shown(mbc):
    lines = mbc("models", "show", "mini").stdout.splitlines()
    assert "finds      passages by 24 codes of 512 and by shared words" in lines
    assert "reads      small: sentence-transformers/all-MiniLM-L6-v2" in lines
    assert "per chunk  27 B of codes, and its compressed text" in lines
    details = json.loads(mbc("models", "show", "mini", "--json").stdout)
    assert (details["base"], details["reads_text"], details["parameters"]) == (None, True, None)


@pytest.mark.parametrize("name", ["nonesuch", "", "no/such", ".", "n" * 300])
def test_an_unknown_name_is_an_error(refusal, name):
    error = refusal(4, "models", "show", name)
    assert error.startswith(f"Error: There is no model, run or preset '{name}'.\n  `mbc models list` shows")
    assert "distilgpt2" in error


def test_unknown_sizes_do_not_stop_the_rest(mbc, home, preset):
    path = home / "own.toml"
    path.write_text(preset.read_text().replace("[model]\nbase = ", '[model]\nbase = "some/model" # ', 1))
    result = mbc("models", "show", path)
    assert "base LM    some/model\n" in result.stdout
    assert "trainable" not in result.stdout
    assert "Its parameters cannot be counted. The size of some/model is unknown" in result.stderr
    assert json.loads(mbc("models", "show", path, "--json").stdout)["parameters"] is None


@pytest.fixture
def hub(home, monkeypatch):
    """The folder of a fake hub."""
    (home / "hub").mkdir()
    FakeHub(home / "hub").install(monkeypatch.setattr)
    return home / "hub"


@pytest.fixture
def shared_run(tiny, home):
    """A run with its model, whose pretrained parts are in the working folder as if they came from a hub."""
    (home / "tiny").mkdir()
    (home / "tiny" / "gpt2").symlink_to(tiny.bases["gpt2"])
    (home / "tiny" / "bert").symlink_to(tiny.encoders["bert"])
    names = ("model.base=tiny/gpt2", "model.documents.name=tiny/bert", "model.questions.name=tiny/bert")
    folder = home / "XDG_DATA_HOME" / "mbc" / "runs" / "first"
    save_model(tiny.model(), tiny.config("gpt2", "bert", *names), folder / "model")
    shutil.copy(folder / "model" / "config.toml", folder)
    data = ["/a:b/secret/q.jsonl", "/a\nb/secret/r.jsonl", "squad:train:/c:d/secret/squad", "newswire:train:5"]
    command = {"data": data, "validation": None, "start": "/secret/base", "device": "cpu"}
    (folder / "command.json").write_text(json.dumps(command))
    write_log(folder / EVENTS, TrainStarted(0, 4000, 100, 50, 999), BEST)
    return folder


def test_json(mbc, hub, shared_run, home):
    pushed = json.loads(mbc("models", "push", shared_run, "ada/tiny", "--json").stdout)
    size = pushed.pop("size")
    assert pushed == {"model": "first", "repository": "ada/tiny", "revision": SHA, "card": "written"}
    pulled = json.loads(mbc("models", "pull", "ada/tiny", "--name", "mine", "--json").stdout)
    assert pulled["size"] == size
    assert (pulled["model"], pulled["codes"]["bits_per_chunk"]) == ("mine", 12)
    shown = json.loads(mbc("models", "show", "mine", "--json").stdout)
    for name in ("model", "path", "base", "encoders", "codes"):
        assert pulled[name] == shown[name]
    assert pulled["path"] == str(home / "XDG_DATA_HOME" / "mbc" / "models" / "mine")


def test_card_names_data_without_folders(mbc, hub, shared_run):
    mbc("models", "push", "first", "ada/tiny")
    card = (hub / "ada" / "tiny" / "README.md").read_text()
    files = "--data q.jsonl --data r.jsonl --data squad:train:squad --data newswire:train:5 --from base"
    assert f"mbc train --preset config.toml {files}\n" in card


def test_a_model_in_training_is_refused(refusal, hub, shared_run, monkeypatch):
    monkeypatch.setattr("mbc_cli.commands.models.is_running", lambda folder: True)
    assert "is being trained" in refusal(4, "models", "push", "first", "ada/tiny")
