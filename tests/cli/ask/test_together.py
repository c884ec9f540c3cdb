"""`mbc ask` with several banks: how they are named, weighted, shown and refused."""

import json
import os
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from mbc_cli.commands.chat import chat
from mbc_cli.engine import open_memory
from mbc_engine.answer import AskOptions
from mbc_engine.bank import Banks
from mbc_engine.lm.base import BaseLM
from tests.cli.ask.conftest import QUESTION


@pytest.fixture(autouse=True)
def says(monkeypatch):
    """The base LM always gives the same answer."""
    monkeypatch.setattr(BaseLM, "generate", lambda self, prefix, questions, **options: ["Aalen"] * len(questions))


@pytest.fixture
def team(ingest, notes, home):
    """A bank of one of the notes."""
    assert ingest(notes / "ada.txt", "--bank", "team.mbc").exit_code == 0
    return home / "team.mbc"


@pytest.fixture
def mine(ingest, notes, home):
    """A bank of the other note."""
    assert ingest(notes / "bruno.md", "--bank", "mine.mbc").exit_code == 0
    return home / "mine.mbc"


@pytest.fixture
def both(team, mine):
    return ("--bank", team, "--bank", mine)


def ask_json(mbc, model, *options):
    result = mbc("ask", QUESTION, "--model", model, "--json", *options)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def shares(answer):
    return {Path(source["path"]).name: source["share"] for source in answer["sources"]}


@pytest.mark.parametrize("read", ["flat", "routed", "hierarchical:2"])
def test_two_banks_answer_as_the_one_that_holds_both(mbc, model, both, bank, team, mine, read):
    apart, one = ask_json(mbc, model, *both, "--read", read), ask_json(mbc, model, "--bank", bank, "--read", read)
    assert shares(apart) == pytest.approx(shares(one), rel=1e-4)
    assert {(Path(source["path"]).name, source["bank"]) for source in apart["sources"]} == {
        ("ada.txt", str(team)),
        ("bruno.md", str(mine)),
    }
    assert apart["bank"]["paths"] == [str(team), str(mine)]
    assert (apart["bank"]["documents"], apart["bank"]["chunks"]) == (2, 2)
    with Banks.open([team, mine]) as banks:
        assert apart["bank"]["sizes"]["file"] == banks.sizes().file


def test_a_bank_says_which_it_is_where_there_are_several(mbc, model, both, bank):
    output = mbc("ask", QUESTION, "--model", model, *both).stdout
    assert "notes/ada.txt:1  in team.mbc  " in output
    assert "notes/bruno.md:1  in mine.mbc  " in output
    assert "in memory.mbc" not in mbc("ask", QUESTION, "--model", model, "--bank", bank).stdout


@pytest.mark.parametrize("read", ["flat", "routed", "hierarchical:2"])
def test_weights_say_which_bank_counts(mbc, model, both, read):
    unweighted = shares(ask_json(mbc, model, *both, "--read", read))
    team, mine = unweighted["ada.txt"], unweighted["bruno.md"]
    weighted = shares(ask_json(mbc, model, *both, "--weight", 1, "--weight", 1000, "--read", read))
    assert list(weighted) == ["bruno.md", "ada.txt"]
    if read == "routed":  # a share is the router's, times the weight
        assert weighted["ada.txt"] == pytest.approx(team / (team + 1000 * mine), rel=1e-3)
    first, *_ = ask_json(mbc, model, *both, "--weight", 1000, "--weight", 1, "--read", read)["sources"]
    assert Path(first["path"]).name == "ada.txt"


def test_a_batch_goes_over_all_banks(mbc, model, both, home):
    (home / "questions.txt").write_text(f"{QUESTION}\nAnd Bruno?\n")
    result = mbc("ask", "--questions", "questions.txt", "--model", model, *both, "--json")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [len(answer["sources"]) for answer in answers] == [2, 2]
    assert mbc("ask", "--questions", "questions.txt", "--model", model, *both).stdout.count("  in team.mbc  ") == 2


def test_a_conversation_knows_its_banks(mbc, model, team, mine, monkeypatch, capsys):
    lines = chain([QUESTION, "/sources"], [EOFError()])

    def read_line(*_):
        line = next(lines)
        if isinstance(line, BaseException):
            raise line
        return line

    monkeypatch.setattr("mbc_cli.commands.chat.start_line_editor", lambda *_: None)
    monkeypatch.setattr("mbc_cli.commands.chat.read_line", read_line)
    with open_memory([team, mine], str(model)) as memory:
        chat(memory, AskOptions(max_new_tokens=4))
    out, err = capsys.readouterr()
    assert "team.mbc + mine.mbc: 2 documents, 2 chunks." in err
    assert out.count("notes/ada.txt:1  in team.mbc  ") == 2


def test_what_is_written_to_one_of_them_meanwhile_is_found(model, team, mine, ingest, notes):
    with open_memory([team, mine], str(model), weights=[1.0, 2.0]) as memory:
        assert len(memory.ask([QUESTION], max_new_tokens=4)[0].sources) == 2
        (notes / "clara.txt").write_text("Clara moved to Celle.")
        assert ingest(notes / "clara.txt", "--bank", mine).exit_code == 0
        assert len(memory.ask([QUESTION], max_new_tokens=4)[0].sources) == 3
        mine.unlink()
        assert ingest(notes / "clara.txt", "--bank", mine).exit_code == 0
        assert len(memory.ask([QUESTION], max_new_tokens=4)[0].sources) == 2


def test_the_environment_may_name_several(mbc, model, team, mine, monkeypatch):
    monkeypatch.setenv("MBC_BANK", f"{team}{os.pathsep}{mine}")
    assert len(ask_json(mbc, model)["sources"]) == 2
    monkeypatch.setenv("MBC_BANK", str(mine))
    assert ask_json(mbc, model)["bank"]["paths"] == [str(mine)]
    assert ask_json(mbc, model, "--bank", team)["bank"]["paths"] == [str(team)]


def test_a_command_for_one_bank_refuses_several(mbc, team, mine, home, notes, monkeypatch):
    monkeypatch.setenv("MBC_BANK", f"{team}{os.pathsep}{mine}")
    for command in (["ingest", notes, "--model", "no-such-model"], ["bank", "info"]):
        result = mbc(*command)
        assert (result.exit_code, "names several banks" in result.stderr) == (2, True)
    assert mbc("bank", "info", "--bank", mine).exit_code == 0


@pytest.fixture
def config(home):
    path = home / "XDG_CONFIG_HOME" / "mbc" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_one_bank_of_the_config_is_for_every_command(mbc, model, team, config):
    assert mbc("config", "set", "bank", "team.mbc").exit_code == 0
    assert tomllib.loads(config.read_text()) == {"bank": str(team)}
    assert ask_json(mbc, model)["bank"]["paths"] == [str(team)]
    assert json.loads(mbc("bank", "info", "--json").stdout)["path"] == str(team)
    result = mbc("config", "set", "bank", "team.mbc", "mine.mbc")
    assert (result.exit_code, "takes one value" in result.stderr) == (2, True)


def test_several_banks_of_the_config_are_for_ask_alone(mbc, model, team, mine, config):
    assert mbc("config", "set", "bank", "team.mbc").exit_code == 0
    assert mbc("config", "set", "ask.bank", "team.mbc", "mine.mbc").exit_code == 0
    assert tomllib.loads(config.read_text()) == {"bank": str(team), "ask": {"bank": [str(team), str(mine)]}}
    assert ask_json(mbc, model)["bank"]["paths"] == [str(team), str(mine)]
    assert json.loads(mbc("bank", "info", "--json").stdout)["path"] == str(team)
    output = mbc("ask", QUESTION, "--model", model, "--verbose").stderr
    assert [f"from the config: --bank {path}" in output for path in (team, mine)] == [True, True]


def test_a_config_with_several_for_every_command_is_refused(mbc, team, mine, config):
    config.write_text(f'bank = ["{team}", "{mine}"]')
    result = mbc("bank", "info")
    assert (result.exit_code, f"{config}: bank takes one value" in result.stderr) == (2, True)


def test_weights_that_do_not_fit_are_refused_before_any_model_is_loaded(mbc, both):
    result = mbc("ask", QUESTION, *both, "--weight", 1, "--model", "no-such-model")
    assert result.exit_code == 2
    assert "--weight" in result.stderr


def test_one_bank_named_twice_is_refused_before_any_model_is_loaded(mbc, team, home):
    (home / "link.mbc").symlink_to(team)
    for name, message in (
        ("team.mbc", f"{team} and team.mbc are the same file."),
        (team, f"{team} is named twice."),
        ("link.mbc", f"{team} and link.mbc are the same file."),
    ):
        result = mbc("ask", QUESTION, "--bank", team, "--bank", name, "--model", "no-such-model")
        assert (result.exit_code, message in result.stderr) == (2, True)


def test_banks_of_two_models_are_refused_before_any_model_is_loaded(mbc, make_bank, record):
    one, other = (make_bank(f"{scale}.mbc", record("/a", "Ada"), scale=scale) for scale in (0.5, 0.25))
    result = mbc("ask", QUESTION, "--bank", one, "--bank", other, "--model", "no-such-model")
    assert result.exit_code == 4
    with Banks.open([one]) as banks:
        assert f"{one} was written by model tiny ({banks.header.signature.fingerprint})" in result.stderr
    assert "mbc bank reencode" in result.stderr


def test_a_missing_bank_is_an_error(mbc, team):
    result = mbc("ask", QUESTION, "--bank", team, "--bank", "none.mbc", "--model", "no-such-model")
    assert (result.exit_code, "No bank at none.mbc" in result.stderr) == (5, True)


def test_an_empty_bank_among_others_is_fine_and_alone_is_not(mbc, model, team, mine, both):
    assert mbc("bank", "remove", "notes/bruno.md", "--bank", mine).exit_code == 0
    assert list(shares(ask_json(mbc, model, *both, "--weight", 1, "--weight", 1000))) == ["ada.txt"]
    assert mbc("bank", "remove", "notes/ada.txt", "--bank", team).exit_code == 0
    result = mbc("ask", QUESTION, "--model", model, *both)
    assert (result.exit_code, "team.mbc + " in result.stderr, "mine.mbc is empty" in result.stderr) == (5, True, True)


def test_a_bank_without_sources_among_others_refuses_a_selection(mbc, model, team, ingest, notes):
    assert ingest(notes / "bruno.md", "--bank", "bare.mbc", "--no-sources").exit_code == 0
    both = ("--bank", team, "--bank", "bare.mbc")
    assert [source["state"] for source in ask_json(mbc, model, *both, "--weight", 9, "--weight", 1)["sources"]] == [
        "unchanged",
        "unknown",
    ]
    result = mbc("ask", QUESTION, "--model", model, *both, "--only", "*.txt")
    assert (result.exit_code, "bare.mbc was made without sources" in result.stderr) == (5, True)
