"""Presets, overrides, and errors in them."""

from operator import attrgetter

import pytest
from tomlkit import dumps

from mbc_engine.config import ConfidenceSettings, RetrieverReaderConfig, load_preset, parse_config, parse_model_config
from mbc_engine.errors import ConfigError
from mbc_engine.names import preset_names

SMALLEST = """
[model]
base = "some/base"
documents = { name = "some/encoder" }
questions = { name = "some/encoder" }
"""
CONFIDENCE = "{ slope = 1.5, intercept = -0.5, from_memory = 0.75, from_model = 0.25 }"


@pytest.mark.parametrize("name", preset_names())
def test_presets_survive_a_round_trip(name):
    config = load_preset(name)
    assert parse_config(config.to_toml(), name) == config


def test_preset_from_a_file_without_its_calibration(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(parse_config(SMALLEST, "here", [f"model.confidence={CONFIDENCE}"]).to_toml())
    assert load_preset(str(path)) == parse_config(SMALLEST, "here")
    assert load_preset(str(path), ["model.base=other"]).model.base == "other"


def test_folders_in_a_preset_are_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some" / "encoder").mkdir(parents=True)
    (tmp_path / "own.toml").write_text(SMALLEST)
    model = load_preset("own.toml", ["model.base=./some"]).model
    assert model.base == str(tmp_path / "some")
    assert set(model.encoders.values()) == {f"{tmp_path}/some/encoder"}


@pytest.mark.parametrize(
    ("override", "setting", "value"),
    [
        ("training.learning_rate=3e-4", "training.learning_rate", 3e-4),
        ("training.precision=float32", "training.precision", "float32"),
        ("model.documents.frozen=true", "model.documents.frozen", True),
        ('model.base="quoted/base"', "model.base", "quoted/base"),
        ("training.losses.routing = 0.5", "training.losses.routing", 0.5),
        ("model.lora={ rank = 3, dropout = 0.1 }", "model.lora.rank", 3),
        ("model.questions.name=a=b", "model.questions.name", "a=b"),
    ],
)
def test_overrides(override, setting, value):
    config = parse_config(SMALLEST, "here", ["model.tokens=7", override, "model.tokens=8"])
    assert attrgetter(setting)(config) == value
    assert config.model.tokens == 8


@pytest.mark.parametrize(
    ("override", "setting"),
    [
        ("model.tokenz=3", "model.tokenz"),
        ("model.codebook.size=3", "model.codebook.size"),
        ("nothing.at.all=3", "nothing"),
        ("model.tokens=many", "model.tokens"),
        ("model.tokens=0", "model.tokens"),
        ("model.codebook.codes=65537", "model.codebook.codes"),
        ("model.codebook.decay=1.0", "model.codebook.decay"),
        ("model.read=sideways", "model.read"),
        ("model.read=flat:3", "model.read"),
        ("model.read=hierarchical:1", "model.read"),
        ("training.backprop_dropout=1.0", "training.backprop_dropout"),
        ("training.batch_size=2.5", "training.batch_size"),
        ("model.lora.dropout=1.5", "model.lora.dropout"),
    ],
)
def test_wrong_setting_is_named(override, setting):
    with pytest.raises(ConfigError) as caught:
        parse_config(SMALLEST, "here", [override])
    assert f": {setting}: " in f": {caught.value.message}"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        (SMALLEST, ["model.read=routed"], "the routed read needs model.routing = true"),
        (SMALLEST, ["model.codebook.levels=2"], "need read = 'hierarchical' or 'routed'"),
        (SMALLEST, ["model.tokens"], r"not of the form section\.key=value"),
        (SMALLEST, [""], r"not of the form section\.key=value"),
        (SMALLEST, ["model.base.deeper=1"], "base is not a section"),
        (SMALLEST.replace("questions", "# questions"), [], r"model\.questions: .*required"),
        ("[model", [], r"own\.toml is not TOML"),
        ("[retriever_reader]", [], "describes a retriever-reader"),
    ],
)
def test_wrong_override_or_file(text, overrides, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(text, "own.toml", overrides)


def test_unknown_preset_lists_the_known_ones():
    with pytest.raises(ConfigError, match="no preset 'nonesuch'") as caught:
        load_preset("nonesuch")
    assert "distilgpt2" in str(caught.value.hint)


def test_calibration_survives_a_round_trip():
    config = parse_config(SMALLEST, "here")
    assert config.model.confidence is None
    assert "confidence" not in config.to_toml()
    config = parse_config(SMALLEST, "here", [f"model.confidence={CONFIDENCE}"])
    expected = {"slope": 1.5, "intercept": -0.5, "from_memory": 0.75, "from_model": 0.25}
    assert config.model.confidence == ConfidenceSettings(**expected)
    assert parse_config(config.to_toml(), "here") == config


@pytest.mark.parametrize(
    "wrong", ["slope=-0.1", "slope=inf", "intercept=nan", "from_memory=1.1", "from_model=-0.1", "from_model=0.8"]
)
def test_calibration_out_of_range(wrong):
    with pytest.raises(ConfigError, match=r"model\.confidence"):
        parse_config(SMALLEST, "here", [f"model.confidence={CONFIDENCE}", f"model.confidence.{wrong}"])


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "/etc/x", "link/../x", "a\\b", "a b", "a\n", "ä", "a" * 65]
)
def test_a_reader_names_only_a_file_of_its_model(name):
    def written(name):
        reader = {"name": name, "encoder": "some/encoder", "confidence": {"weights": (1.0, 1.0)}}
        return dumps({"retriever_reader": {"encoder": "some/encoder", "readers": [reader]}})

    config = parse_model_config(written("large-2.1_b"), "here")
    assert isinstance(config, RetrieverReaderConfig)
    with pytest.raises(
        ConfigError, match=r"retriever_reader\.readers\.0\.name: (use letters|string should have at most)"
    ):
        parse_model_config(written(name), "here")
