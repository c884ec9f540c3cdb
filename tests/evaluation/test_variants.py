from typing import Any

import pytest

from mbc_engine.config import Config, load_preset, parse_config
from mbc_engine.evaluation.cells import variant
from mbc_engine.names import preset_names


def changed(one: dict[str, Any], other: dict[str, Any], path: str = "") -> dict[str, Any]:
    """The values of `other` that differ from `one`, by dotted name."""
    found: dict[str, Any] = {}
    for name, value in other.items():
        if isinstance(value, dict) and isinstance(one[name], dict):
            found |= changed(one[name], value, f"{path}{name}.")
        elif value != one[name]:
            found[path + name] = value
    return found


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize(
    ("name", "differences"),
    [
        ("mac", {"model.quantised": False, "model.lora.layers": 0, "training.quantise_from": 0.0}),
        ("mbc-unquantised", {"model.quantised": False, "training.quantise_from": 0.0}),
        ("no-reset", {"training.reset_codes": False}),
        ("mbc", {}),
    ],
)
def test_variants_differ_only_in_what_defines_them(preset: str, name: str, differences: dict[str, Any]) -> None:
    config = load_preset(preset)
    found = changed(config.model_dump(), variant(config, name).model_dump())
    assert differences.items() >= found.items()
    assert found.keys() >= differences.keys() - {"training.quantise_from"}


@pytest.mark.parametrize("name", ["mac", "no-reset"])
def test_variant_survives_toml(name: str) -> None:
    config = variant(load_preset("smollm2-135m"), name)
    assert parse_config(config.to_toml(), "config.toml") == config


def test_mac_drops_the_confidence_of_another_model() -> None:
    given = load_preset("smollm2-135m").model_dump(exclude_none=True)
    confidence = {"slope": 1.0, "intercept": 0.0, "from_memory": 0.8, "from_model": 0.2}
    calibrated = Config.model_validate({**given, "model": {**given["model"], "confidence": confidence}})
    assert calibrated.model.confidence is not None
    assert variant(calibrated, "mac").model.confidence is None
