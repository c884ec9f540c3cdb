import pytest
from typer.testing import CliRunner

from mbc_cli.app import app


@pytest.fixture
def complete(home):
    """The completions that bash is offered for the last word of a command line."""

    def offered(*words):
        environment = {
            "_MBC_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(("mbc", *words)),
            "COMP_CWORD": str(len(words)),
        }
        return CliRunner(env=environment).invoke(app, [], prog_name="mbc").stdout.split()

    return offered


@pytest.fixture
def runs(home):
    """Two training runs, one of which has a model already."""
    folder = home / "XDG_DATA_HOME" / "mbc" / "runs"
    for name in ("first/model", "second"):
        (folder / name).mkdir(parents=True)
        (folder / name / "config.toml").touch()
    (folder / "first" / "config.toml").touch()
    (folder / "first" / "events.jsonl").touch()
    (folder / "first" / "model" / "model.safetensors").touch()
    (folder / "stray").mkdir()
    return folder


def test_models_and_runs(complete, runs):
    assert complete("ask", "--model", "") == [str(runs / "first"), "mini"]
    assert complete("ask", "--model", "mi") == ["mini"]
    assert complete("ask", "--model", "./") == []


def test_pulled_models(complete, home):
    for name in ("notes", "half"):
        folder = home / "XDG_DATA_HOME" / "mbc" / "models" / "ada" / name
        folder.mkdir(parents=True)
        (folder / "config.toml").touch()
    (folder.with_name("notes") / "model.safetensors").touch()
    assert complete("ask", "--model", "") == ["ada/notes", "mini"]
    assert complete("ask", "--model", "ada/") == ["ada/notes"]


def test_models_and_presets(complete, runs):
    assert {"mini", "llama2-7b", str(runs / "first")} <= set(complete("models", "show", ""))
    assert complete("models", "show", "m") == ["mini"]


def test_runs_by_name(complete, runs, home):
    assert complete("train", "--resume", "--run", "") == ["first", "second"]
    assert complete("train", "--resume", "--run", "s") == ["second"]
    (home / "mine" / "third").mkdir(parents=True)
    (home / "mine" / "third" / "config.toml").touch()
    assert complete("train", "--runs", "mine", "--run", "") == ["third"]


def test_presets(complete):
    assert {"smollm2-135m", "distilgpt2"} <= set(complete("train", "--preset", ""))
    assert complete("train", "--preset", "smo") == ["smollm2-135m"]


def test_reads(complete):
    assert complete("ask", "--read", "r") == ["routed"]
    assert complete("eval", "--read", "") == ["flat", "hierarchical", "routed"]


def test_evaluations(complete, home):
    folder = home / "XDG_DATA_HOME" / "mbc" / "evaluations"
    for name in ("first", "second", "begun"):
        (folder / name).mkdir(parents=True)
    for name in ("first", "second"):
        (folder / name / "experiment.toml").touch()
    assert complete("eval", "--suite", "") == ["paper", "small", "smollm2"]
    assert complete("eval", "--method", "mbc-s") == ["mbc-shuffled-codes", "mbc-shuffled-documents"]
    assert complete("eval", "--protocol", "") == ["code-usage", "online", "retention", "scaling"]
    assert complete("eval", "--golds", "s") == ["shortest"]
    assert complete("eval", "--run", "") == ["first", "second"]
    assert complete("eval", "show", "f") == ["first"]
    assert complete("eval", "sh") == ["show"]


def test_config_keys(complete):
    assert {"bank", "model", "ask.", "bank-list."} <= set(complete("config", "set", ""))
    assert complete("config", "get", "ask.so") == ["ask.sources"]


def test_shared_options(complete):
    assert complete("bank", "info", "--ver") == ["--verbose"]
    assert complete("bank", "--q") == ["--quiet"]


def test_a_broken_config_does_not_stop_completion(complete, home, monkeypatch):
    (home / "c.toml").write_text("a = [")
    monkeypatch.setenv("MBC_CONFIG", str(home / "c.toml"))
    assert complete("ask", "--model", "mi") == ["mini"]


def test_views_of_the_dashboard(complete):
    assert {"ask", "documents", "overview"} <= set(complete("tui", "--view", ""))
    assert complete("tui", "--view", "doc") == ["documents"]
