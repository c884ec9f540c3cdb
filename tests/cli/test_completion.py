"""What bash is offered for the last word of a command line."""

import pytest
from typer.testing import CliRunner

from mbc_cli.app import app


@pytest.fixture
def complete(home):
    """The completions of the last word."""

    def offered(line):
        asked = {"COMP_WORDS": f"mbc {line}", "COMP_CWORD": str(len(line.split(" ")))}
        environment = {"_MBC_COMPLETE": "complete_bash", **asked}
        return CliRunner(env=environment).invoke(app, [], prog_name="mbc").stdout.split()

    return offered


@pytest.fixture
def files(home):
    """A pulled model, two runs, one of which has a model, and two evaluations, beside what is none of these."""
    data = home / "XDG_DATA_HOME" / "mbc"
    for name in (
        *("models/ada/notes/config.toml", "models/ada/notes/model.safetensors", "models/ada/half/config.toml"),
        *("runs/first/config.toml", "runs/first/events.jsonl", "runs/second/config.toml", "runs/stray/other.toml"),
        *("runs/first/model/config.toml", "runs/first/model/model.safetensors"),
        *("evaluations/one/experiment.toml", "evaluations/two/experiment.toml", "evaluations/begun/log"),
    ):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).touch()
    (home / "mine" / "third").mkdir(parents=True)
    (home / "mine" / "third" / "config.toml").touch()
    return data


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ask --model mi", ["mini"]),
        ("ask --model ada/", ["ada/notes"]),
        ("models show m", ["mini"]),
        ("train --resume --run ", ["first", "second"]),
        ("train --runs mine --run ", ["third"]),
        ("train --preset smo", ["smollm2-135m"]),
        ("ask --read r", ["routed"]),
        ("eval --method mbc-s", ["mbc-shuffled-codes", "mbc-shuffled-documents"]),
        ("eval --protocol ", ["code-usage", "online", "retention", "scaling"]),
        ("eval --run ", ["one", "two"]),
        ("eval show o", ["one"]),
        ("config get ask.so", ["ask.sources"]),
        ("tui --view doc", ["documents"]),
    ],
)
def test_last_word(complete, line, offered):
    assert complete(line) == offered


def test_models_presets_and_settings(complete, files):
    assert complete("ask --model ") == [str(files / "runs" / "first"), "ada/notes", "mini"]
    assert {"mini", "llama2-7b", str(files / "runs" / "first")} <= set(complete("models show "))
    assert {"bank", "model", "ask.", "bank-list."} <= set(complete("config set "))
