"""What a training is refused for, before anything is loaded or written."""

from pathlib import Path
from typing import Any

import pytest

from mbc_engine.errors import ConfigError, DataError
from mbc_engine.training.trainer import train
from tests.training.conftest import Runner


def test_a_run_is_not_overwritten(tiny: Any, start: Runner) -> None:
    start(tiny.config(), "run", until=lambda event: True)
    with pytest.raises(ConfigError, match="holds a run already"):
        start(tiny.config(), "run")


def test_nothing_to_train_on_is_told_before_anything_is_loaded(tiny: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing to train on"):
        next(train(tiny.config(), [], [], tmp_path / "run", cache=tmp_path))


def test_models_that_remember_words_are_made_elsewhere(tiny: Any, tmp_path: Path, start: Runner) -> None:
    words = ("model.routing=true", "model.read=routed", "model.words={}")
    with pytest.raises(ConfigError, match="The model to train remembers words; such a model is made by recipes/mini"):
        start(tiny.config("gpt2", "bert", *words), "run")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.toml").write_text(tiny.config("gpt2", "bert", *words).to_toml())
    with pytest.raises(ConfigError, match="model remembers words"):
        start(tiny.config(), "run", start=tmp_path / "model")
    assert not (tmp_path / "run").exists()
