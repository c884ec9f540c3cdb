"""A small experiment around tiny models: made-up people who moved, split by documents."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mbc_engine.datasets.layout import QAExample
from mbc_engine.experiments.settings import ExperimentSettings


def write_questions(path: Path, examples: Sequence[QAExample]) -> str:
    rows = ({"id": own.id, "text": own.text, "question": own.question, "answers": [*own.answers]} for own in examples)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def settings(
    tiny: Any, tmp_path: Path, examples: Callable[[int], list[QAExample]]
) -> Callable[..., ExperimentSettings]:
    """Settings of a tiny experiment, with changes: `settings(methods=["mbc"])`."""
    preset = tmp_path / "tiny.toml"
    preset.write_text(tiny.config("gpt2", "bert", "model.routing=true", "training.epochs=1").to_toml())
    people = examples(40)
    dataset = {
        "name": "people",
        "title": "People",
        "train": [write_questions(tmp_path / "train.jsonl", people[:20])],
        "validation": write_questions(tmp_path / "validation.jsonl", people[20:26]),
        "test": write_questions(tmp_path / "test.jsonl", people[26:]),
    }
    given = {
        "title": "Tiny",
        "bases": [{"name": "tiny", "title": "Tiny GPT-2", "preset": str(preset)}],
        "datasets": [dataset],
        "methods": ["mbc", "mbc-empty"],
        "documents": 8,
        "rates": [1e-3, 1e-4],
        "document_window": 16,
        "retention": {"first": 2, "step": 3, "further": 6},
        "scaling": [2, 8],
        "question_training": {"epochs": 1, "batch_size": 8},
        "reading_training": {"epochs": 1, "batch_size": 8},
        "camels": {"steps": 1, "inner_documents": 2, "inner_batches": 1},
    }

    def make(**changes: Any) -> ExperimentSettings:
        return ExperimentSettings.model_validate({**given, **changes})

    return make
