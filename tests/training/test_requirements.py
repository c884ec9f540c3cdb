"""Why a training is refused, before anything is loaded or written."""

from pathlib import Path
from typing import Any

import pytest

from mbc_engine.errors import ConfigError, DataError
from mbc_engine.mini.model import save
from mbc_engine.training.trainer import train
from tests.training.conftest import Runner


def test_having_nothing_to_train_on_is_reported_before_anything_is_loaded(tiny: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing to train on"):
        next(train(tiny.config(), [], [], tmp_path / "run", cache=tmp_path))


def test_a_training_starts_from_models_of_the_papers_method_alone(tiny: Any, tmp_path: Path, start: Runner) -> None:
    save(tiny.retriever_reader(), tmp_path / "model")
    with pytest.raises(ConfigError, match="describes a retriever-reader such as mini; this needs a model of the paper"):
        start(tiny.config(), "run", start=tmp_path / "model")
    assert not (tmp_path / "run").exists()
