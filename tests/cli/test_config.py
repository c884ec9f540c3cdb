import json
import tomllib

import pytest

from mbc_cli.paths import runs_folder


@pytest.fixture
def config(home):
    """The path of the config file, which does not exist yet."""
    path = home / "XDG_CONFIG_HOME" / "mbc" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_order_of_precedence(mbc, config, make_bank, monkeypatch):
    typed, environment, written = (str(make_bank(f"{name}.mbc")) for name in ("typed", "environment", "written"))

    def info(*command):
        result = mbc(*command, "--json")
        return json.loads(result.stdout)["path"], result.stderr.splitlines()

    monkeypatch.setenv("HOME", str(config.parents[2]))
    config.write_text('bank = "~/written.mbc"')
    path, notes = info("--verbose", "bank", "info")
    assert (path, notes[:2]) == (written, [f"config file: {config}", f"from the config: --bank {written}"])
    monkeypatch.setenv("MBC_BANK", environment)
    path, notes = info("bank", "info", "--verbose")
    assert (path, notes[1]) == (environment, f"from the environment: --bank {environment}")
    assert notes[-1].startswith("mbc bank info: 0.")
    path, notes = info("bank", "info", "--verbose", "--bank", typed)
    assert path == typed and not any("--bank" in note for note in notes)


def test_table_of_a_command(mbc, config, make_bank):
    special, others = make_bank("special.mbc"), make_bank("others.mbc")
    config.write_text(f'bank = "{others}"\n[bank-info]\nbank = "{special}"\njson = true')
    assert json.loads(mbc("bank", "info").stdout)["path"] == str(special)
    assert mbc("bank", "verify").stdout.startswith(str(others))


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("sources = 5", lambda options: options.sources == 5),
        ('only = ["a", "b c"]', lambda options: options.selection.only == ("a", "b c")),
        ('only = "a"', lambda options: options.selection.only == ("a",)),
        ("since = 2024-05-31", lambda options: str(options.selection.since) == "2024-05-31"),
        ("half-life = 30", lambda options: options.selection.half_life == 30),
        ("write = true", lambda options: options.write),
    ],
)
def test_values_are_parsed_as_if_typed(mbc, memory, config, text, taken):
    config.write_text(f"[ask]\n{text}")
    mbc("ask", "why?")
    assert taken(memory.batches[0][1])


def test_runs_folder(config, home, monkeypatch):
    config.write_text('runs = "~/mine"')
    monkeypatch.setenv("HOME", str(home))
    assert runs_folder() == home / "mine"
    for folder in ("theirs", "~nobody-has-this-name"):
        monkeypatch.setenv("MBC_RUNS", folder)
        assert str(runs_folder()) == folder


def test_set_get_and_unset_keep_comments(mbc, refusal, config):
    config.write_text('# Mine.\nmodel = "mini"  # small\n\n[ask]\nsources = 3 # three\n')
    mbc("config", "set", "ask.sources", "5")
    assert mbc("config", "get", "ask.sources").stdout == "5\n"
    assert config.read_text() == '# Mine.\nmodel = "mini"  # small\n\n[ask]\nsources = 5 # three\n'
    assert mbc("config", "list").stdout == "model\tmini\nask.sources\t5\n"
    assert json.loads(mbc("config", "list", "--json").stdout)["settings"] == {"model": "mini", "ask.sources": 5}
    unset = {"path": str(config), "key": "ask.sources", "value": None}
    assert json.loads(mbc("config", "unset", "ask.sources", "--json").stdout) == unset
    assert config.read_text() == '# Mine.\nmodel = "mini"  # small\n\n'
    refusal(2, "config", "get", "ask.sources")


@pytest.mark.parametrize("key", ["bank-info.json", "json"])
def test_a_flag_of_the_config_can_be_turned_off(mbc, config, small_bank, key):
    mbc("config", "set", key, "true")
    assert mbc("bank", "info", "--bank", small_bank).stdout.startswith("{")
    assert mbc("bank", "info", "--bank", small_bank, "--no-json").stdout.startswith("bank ")


@pytest.mark.parametrize(
    ("arguments", "stored"),
    [
        (("ask.sources", "5"), {"ask": {"sources": 5}}),
        (("ask.min-confidence", "0.5"), {"ask": {"min-confidence": 0.5}}),
        (("ask.half-life", "30"), {"ask": {"half-life": "30"}}),
        (("ask.only", "a/**", "b"), {"ask": {"only": ["a/**", "b"]}}),
        (("read", "routed:2"), {"read": "routed:2"}),
        (("bank-list.json", "true"), {"bank-list": {"json": True}}),
        (("bank", "here.mbc"), {"bank": "{home}/here.mbc"}),
        (("train.preset", "own.toml"), {"train": {"preset": "{home}/own.toml"}}),
        (("train.preset", "distilgpt2"), {"train": {"preset": "distilgpt2"}}),
        (("eval.train", "a.csv[:9]", "squad:train"), {"eval": {"train": ["{home}/a.csv[:9]", "squad:train"]}}),
    ],
)
def test_values_are_stored_with_their_types(mbc, config, home, arguments, stored):
    (home / "own.toml").touch()
    (home / "distilgpt2").mkdir()
    mbc("config", "set", *arguments)
    assert tomllib.loads(config.read_text().replace(str(home), "{home}")) == stored


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("bogus", "1"), "No command has an option for the key bogus."),
        (("bnak", "1"), "Did you mean bank"),
        (("questions", "1"), "ask.questions or calibrate.questions"),
        (("quiet", "true"), "No command has an option"),
        (("ask.beams", "0"), "Invalid value for '--beams'"),
        (("bank", ""), "it has to be a path, not an empty string"),
        (("as-of", "2024-13"), "--as-of '2024-13' is not a date."),
        (("ask.sources", "1", "2"), "takes one value, not 2"),
        (("read", "backwards"), "There is no read mode 'backwards'"),
        (("model", "\x1b[31m"), "control characters"),
    ],
)
def test_invalid_keys_and_values_are_refused(refusal, config, arguments, said):
    assert said in refusal(2, "config", "set", *arguments)
    assert not config.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[ask]\nsources = = 1", "cannot be read: Invalid value (at line 2, column 11)."),
        ("[ask]\nbogus = 1", "the key ask.bogus"),
        ("[ask]\nsources = [1, 2]", "ask.sources takes one value"),
        ('model = "\\u001b[31m"', "control characters"),
    ],
)
def test_a_broken_config_is_an_error_with_a_hint(mbc, refusal, config, small_bank, text, said):
    config.write_text(text)
    error = refusal(2, "bank", "info", "--bank", small_bank)
    assert said in error and str(config) in error
    mbc("bank", "info", "--help")
    assert mbc("config", "path").stdout == f"{config}\n"


def test_a_wrong_value_is_reported_with_the_file(mbc, refusal, config, small_bank):
    config.write_text('[ask]\nsources = "many"')
    error = refusal(2, "ask", "why?", "--bank", small_bank)
    assert error.startswith(f"Error: {config}: Invalid value for '--sources'")
    config.write_text('[ask]\nhalf-life = "soon"')
    assert f"{config} sets --half-life soon." in mbc("ask", "why?", "--bank", small_bank, code=2).stderr
