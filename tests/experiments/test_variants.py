"""Variants of a preset differ from it in what they are about, and in nothing else."""

from typing import Any

import pytest

from mbc_engine.config import Config, load_preset, parse_config
from mbc_engine.experiments.cells import mac_of, without_codes, without_reset
from mbc_engine.names import preset_names


def changed(one: dict[str, Any], other: dict[str, Any], path: str = "") -> dict[str, Any]:
    """The values that differ in other settings, by path."""
    found: dict[str, Any] = {}
    for key, value in one.items():
        if isinstance(value, dict) and isinstance(other[key], dict):
            found |= changed(value, other[key], f"{path}{key}.")
        elif value != other[key]:
            found[f"{path}{key}"] = other[key]
    return found


@pytest.mark.parametrize("name", preset_names())
def test_mac_is_the_preset_without_codes_and_kv_lora(name: str) -> None:
    config = load_preset(name)
    found = changed(config.model_dump(), mac_of(config).model_dump())
    assert found.pop("training.quantise_from", 0.0) == 0.0
    assert found == {"model.quantised": False, "model.lora.layers": 0}


def test_mac_does_not_take_over_how_sure_of_its_answers_another_model_was() -> None:
    sure = {"slope": 1.0, "intercept": 0.0, "from_memory": 0.8, "from_model": 0.2}
    given = load_preset("smollm2-135m").model_dump(exclude_none=True)
    calibrated = Config.model_validate({**given, "model": {**given["model"], "confidence": sure}})
    assert calibrated.model.confidence is not None
    assert mac_of(calibrated).model.confidence is None


@pytest.mark.parametrize("variant", [mac_of, without_reset])
def test_a_variant_is_a_config_that_can_be_written_and_read(variant: Any) -> None:
    config = variant(load_preset("smollm2-135m"))
    assert parse_config(config.to_toml(), "variant") == config


def test_without_codes_kv_lora_stays() -> None:
    config = load_preset("smollm2-135m")
    found = changed(config.model_dump(), without_codes(config).model_dump())
    assert found == {"model.quantised": False, "training.quantise_from": 0.0}


def test_without_reset_only_the_reset_is_missing() -> None:
    config = load_preset("distilgpt2")
    assert changed(config.model_dump(), without_reset(config).model_dump()) == {"training.reset_codes": False}


def test_residual_codes_do_not_matter_where_there_are_none() -> None:
    config = load_preset("smollm2-135m", ["model.quantised=false", "model.read=flat"])
    assert config.model.codebook.levels == 2
