"""Training teaches the router which document a question is about, also of documents it has never seen."""

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from mbc_engine.datasets.layout import QAExample
from mbc_engine.paper.checkpoint import load_model
from mbc_engine.paper.mbc import MBC
from mbc_engine.paper.scoring import memorise_documents
from mbc_engine.training.trainer import train

BANK = 64


def moves(names: list[str], places: list[str]) -> list[QAExample]:
    """Who moved where, every name with every place, in random order; a question tells which pair it is about."""
    pairs = list(itertools.product(names, places))
    random.Random(0).shuffle(pairs)
    return [
        QAExample(str(number), f"{name} moved to {place}.", f"Who moved to {place}? {name}", (name,))
        for number, (name, place) in enumerate(pairs)
    ]


def found_first(model: MBC, examples: list[QAExample], mode: str) -> int:
    """How many questions name their own document first."""
    memory, _ = memorise_documents(model, [example.text for example in examples])
    reading = model.read([example.question for example in examples], memory, read_mode=mode, top=1)
    return sum(own[0].chunk == number for number, own in enumerate(reading.sources))


@pytest.fixture
def examples(examples: Any) -> list[QAExample]:
    stories = [example.text.rstrip(".").split() for example in examples(50)]
    return moves(sorted({words[0] for words in stories})[:30], sorted({words[-1] for words in stories}))


@pytest.mark.slow
def test_routing_generalises(tiny: Any, tmp_path: Path, examples: list[QAExample]) -> None:
    config = tiny.config(
        "gpt2",
        "bert",
        "model.documents.frozen=true",
        "model.questions.frozen=true",
        "model.routing=true",
        "model.centring=true",
        "model.codebook={ codes = 32, per_position = true }",
        "training.losses.routing=1.0",
        "training.bank_documents=1",
        "training.batch_size=32",
        "training.epochs=10",
        "training.learning_rate=0.01",
        "training.quantise_from=0.5",
    )
    unseen = examples[:BANK]
    list(train(config, examples[BANK:], [], tmp_path / "run", cache=tmp_path / "cache"))
    model = load_model(tmp_path / "run")
    routed = found_first(model, unseen, "routed")
    assert routed >= 16  # one by chance; sixteen or more in one of 10^14 times
    # It is the codes and the router that say so: without what was learned, the same parts find what chance would.
    torch.manual_seed(0)
    with torch.no_grad():
        model.router.weight.copy_(torch.randn_like(model.router.weight))
    assert found_first(model, unseen, "routed") <= 6
    untrained = tiny.model("gpt2", "bert", "model.routing=true", "model.codebook={ codes = 32, per_position = true }")
    assert found_first(untrained, unseen, "routed") <= 6
