"""Benchmarks that no page is regenerated from often: they still run."""

import json
from pathlib import Path

import pytest

from mbc_engine import load_examples


def test_sizes_of_banks_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import bank

    bank.measure_size(tmp_path, 500)
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(bank.LAYOUTS) + len(bank.WITH_TEXT) + 1
    assert not list(tmp_path.iterdir())


def test_training_is_measured_both_ways(tmp_path: Path) -> None:
    import training

    texts = tmp_path / "texts.jsonl"
    texts.write_text(
        "".join(
            json.dumps({"text": own.text, "question": own.question, "answers": list(own.answers)}) + "\n"
            for own in load_examples("newswire:train:4")
        )
    )
    found = training.measure("tiny-gpt2", "cpu", "float32", 1, texts=str(texts))
    assert set(found["rates"]) == {training.OURS, training.NAIVE}
    assert min(found["rates"].values()) > 0
