"""Benchmarks that no page is regenerated from often: they still run."""

import json
import lzma
from pathlib import Path

import pytest
from tokenizers import ByteLevelBPETokenizer, Tokenizer, models, pre_tokenizers

from mbc_engine import load_examples


def write_data(folder: Path) -> None:
    """A data folder as `shapes.py` reads it, with little text and small tokenizers."""
    examples = load_examples("newswire:train:4")
    words = [
        "<pad>",
        "</s>",
        "<unk>",
        *sorted({word for own in examples for word in f"{own.text} {own.question}".split()}),
    ]
    for path in ("qa", "tokenizers/gpt2", "tokenizers/t5"):
        (folder / path).mkdir(parents=True)
    rows = ({"text": own.text, "question": own.question, "answers": list(own.answers)} for own in examples)
    with lzma.open(folder / "qa/squad_train_part.jsonl.xz", "wt") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)
    whole_words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, "<unk>"))
    whole_words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    whole_words.save(str(folder / "tokenizers/t5/tokenizer.json"))
    byte_level = ByteLevelBPETokenizer()
    byte_level.train_from_iterator(words, vocab_size=300, special_tokens=["<|endoftext|>"])
    byte_level.save_model(str(folder / "tokenizers/gpt2"))


def test_sizes_of_banks_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import bank

    bank.measure_size(tmp_path, 500)
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(bank.LAYOUTS) + len(bank.WITH_TEXT) + 1
    assert not list(tmp_path.iterdir())


def test_training_is_measured_both_ways(tmp_path: Path) -> None:
    import training

    write_data(tmp_path)
    found = training.measure(str(tmp_path), "tiny-gpt2", "cpu", "float32", 1)
    assert set(found["rates"]) == {training.OURS, training.NAIVE}
    assert min(found["rates"].values()) > 0
