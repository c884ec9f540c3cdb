"""Presets, overrides, and errors in them."""

from pathlib import Path
from typing import Any

import pytest

from mbc_engine.config import Config, load_preset, parse_config
from mbc_engine.errors import ConfigError
from mbc_engine.names import preset_names

SMALLEST = """
[model]
base = "some/base"
documents = { name = "some/encoder" }
questions = { name = "some/encoder" }
"""


def test_there_is_a_preset_for_each_published_setup_and_some_recent_models() -> None:
    assert {"distilgpt2", "gpt2-large", "gpt2-xl", "llama2-7b"} <= set(preset_names())
    assert {"smollm2-135m", "gemma3-270m", "qwen3-0.6b", "llama3.2-1b"} <= set(preset_names())
    assert preset_names() == sorted(preset_names())


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads_and_survives_being_written_out(name: str) -> None:
    config = load_preset(name)
    assert parse_config(config.to_toml(), name) == config


@pytest.mark.parametrize(
    ("name", "encoders", "tokens", "rank", "layers", "batch", "dropout"),
    [
        ("distilgpt2", ("small", "small"), 12, 16, 6, 64, 0),
        ("gpt2-large", ("base", "base"), 24, 32, 16, 32, 0),
        ("gpt2-xl", ("large", "base"), 24, 32, 16, 32, 0.75),
        ("llama2-7b", ("large", "base"), 24, 32, 16, 32, 0.75),
    ],
)
def test_published_presets_have_the_papers_values(
    name: str, encoders: tuple[str, str], tokens: int, rank: int, layers: int, batch: int, dropout: float
) -> None:
    config = load_preset(name)
    model, training = config.model, config.training
    assert (model.tokens, model.lora.rank, model.lora.alpha, model.lora.layers) == (tokens, rank, 2 * rank, layers)
    assert model.lora.dropout == 0.05
    assert (model.codebook.codes, model.codebook.levels, model.codebook.per_position) == (512, 1, False)
    assert (model.codebook.commitment, model.codebook.decay, model.codebook.dead_threshold) == (0.25, 0.99, 1e-4)
    assert (model.aggregator.blocks, model.prefix.columns, model.read) == (4, 2, "flat")
    assert not model.routing
    assert not model.centring
    assert (training.learning_rate, training.warmup, training.clip, training.epochs) == (1e-5, 0.01, 100.0, 50)
    assert (training.batch_size, training.backprop_dropout) == (batch, dropout)
    assert [model.documents.name, model.questions.name] == [f"google-t5/t5-{size}" for size in encoders]
    assert (training.losses.vq, training.losses.routing, training.losses.reconstruction) == (1.0, 0.0, 0.0)
    assert training.quantise_from == 0


OF_SMALLEST = {"documents.name", "questions.name", "batch_size", "accumulate"}


@pytest.mark.parametrize(
    ("name", "published", "changed"),
    [
        ("gemma3-270m", "gpt2-large", OF_SMALLEST),
        ("qwen3-0.6b", "gpt2-large", set()),
        ("llama3.2-1b", "gpt2-xl", {"documents.name"}),
    ],
)
def test_other_presets_are_the_papers_but_for_what_they_say(name: str, published: str, changed: set[str]) -> None:
    def flat(table: dict[str, Any], path: str = "") -> dict[str, Any]:
        deeper = [flat(value, f"{path}{key}.") for key, value in table.items() if isinstance(value, dict)]
        own = {f"{path}{key}": value for key, value in table.items() if not isinstance(value, dict)}
        return {key: value for part in (own, *deeper) for key, value in part.items()}

    ours, paper = (flat(load_preset(preset).model_dump()) for preset in (name, published))
    differing = {key.removeprefix("model.").removeprefix("training.") for key in ours if ours[key] != paper[key]}
    assert differing == {"base", "base_weights", *changed}
    small = load_preset("distilgpt2")
    if changed == OF_SMALLEST:
        config = load_preset(name)
        assert (config.model.documents, config.model.questions) == (small.model.documents, small.model.questions)
        assert config.training.batch_size == small.training.batch_size


def test_a_file_is_a_preset_too(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(SMALLEST)
    assert load_preset(str(path)).model.base == "some/base"
    assert load_preset(str(path), ["model.base=other"]).model.base == "other"


def test_overrides_change_values_of_every_type() -> None:
    config = parse_config(
        SMALLEST,
        "here",
        [
            "model.tokens=7",
            "training.learning_rate=3e-4",
            "training.precision=float32",
            "model.documents.frozen=true",
            'model.base="quoted/base"',
            "training.losses.routing = 0.5",
            "model.lora={ rank = 3, dropout = 0.1 }",
            "model.questions.name=a=b",
        ],
    )
    assert config.model.tokens == 7
    assert config.training.learning_rate == 3e-4
    assert config.training.precision == "float32"
    assert config.model.documents.frozen
    assert not config.model.questions.frozen
    assert config.model.base == "quoted/base"
    assert config.training.losses.routing == 0.5
    assert (config.model.lora.rank, config.model.lora.dropout) == (3, 0.1)
    assert config.model.questions.name == "a=b"


def test_the_last_override_of_a_value_wins() -> None:
    assert parse_config(SMALLEST, "here", ["model.tokens=7", "model.tokens=8"]).model.tokens == 8


@pytest.mark.parametrize(
    ("override", "place"),
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
def test_a_wrong_value_or_name_is_reported_with_its_place(override: str, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(SMALLEST, "here", [override])
    assert f": {place}: " in f": {caught.value.message}"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.read=routed", "the routed read needs model.routing = true"),
        ("model.codebook.levels=2", "need read = 'hierarchical' or 'routed'"),
    ],
)
def test_a_read_that_does_not_fit_the_model_is_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(SMALLEST, "here", [override])


@pytest.mark.parametrize("override", ["model.tokens", "", "tokens"])
def test_an_override_needs_a_value(override: str) -> None:
    with pytest.raises(ConfigError, match=r"not of the form section\.key=value"):
        parse_config(SMALLEST, "here", [override])


def test_a_value_is_not_a_section() -> None:
    with pytest.raises(ConfigError, match="base is not a section"):
        parse_config(SMALLEST, "here", ["model.base.deeper=1"])


def test_a_missing_value_is_reported_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"model\.questions: .*required"):
        parse_config(SMALLEST.replace("questions", "# questions"), "here")


def test_broken_toml_is_reported_with_its_origin() -> None:
    with pytest.raises(ConfigError, match=r"own\.toml is not TOML"):
        parse_config("[model", "own.toml")


def test_an_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no preset 'nonesuch'") as caught:
        load_preset("nonesuch")
    assert caught.value.hint is not None
    assert "distilgpt2" in caught.value.hint


def test_settings_cannot_be_changed_afterwards() -> None:
    config = parse_config(SMALLEST, "here")
    with pytest.raises(ValueError, match="frozen"):
        config.model.tokens = 3  # type: ignore[misc]
    assert isinstance(config, Config)


CONFIDENCE = "{ slope = 1.5, intercept = -0.5, from_memory = 0.75, from_model = 0.25 }"


def test_a_model_is_not_calibrated_at_first() -> None:
    config = parse_config(SMALLEST, "here")
    assert config.model.confidence is None
    assert "confidence" not in config.to_toml()


def test_a_calibration_survives_being_written_out() -> None:
    config = parse_config(SMALLEST, "here", [f"model.confidence={CONFIDENCE}"])
    made = config.model.confidence
    assert made is not None
    assert (made.slope, made.intercept, made.from_memory, made.from_model) == (1.5, -0.5, 0.75, 0.25)
    assert parse_config(config.to_toml(), "here") == config


@pytest.mark.parametrize(
    "wrong", ["slope=-0.1", "slope=inf", "intercept=nan", "from_memory=1.1", "from_model=-0.1", "from_model=0.8"]
)
def test_a_calibration_that_makes_no_sense_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"model\.confidence"):
        parse_config(SMALLEST, "here", [f"model.confidence={CONFIDENCE}", f"model.confidence.{wrong}"])


def test_a_preset_takes_no_calibration_over(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(parse_config(SMALLEST, "here", [f"model.confidence={CONFIDENCE}"]).to_toml())
    assert load_preset(str(path)) == parse_config(SMALLEST, "here")
