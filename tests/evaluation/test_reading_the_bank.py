"""MBC and MAC learn to answer from their banks: documents they have never seen, which contradict those they have.

Everybody moved to every place in some document, so that nothing can be known by heart: where somebody moved is what
the documents in the bank say. A quarter of the documents is held out, and the banks are made of these.
"""

import itertools
import random
from functools import partial

import pytest

from mbc_engine.datasets.examples import QAExample
from mbc_engine.evaluation.bank_methods import (
    EmptyBank,
    MemoryMethod,
    WrongBank,
    shuffled_over_codebook,
    shuffled_over_documents,
)
from mbc_engine.model import load_model
from mbc_engine.training.trainer import train

BANKS = 8
SIZE = 8


@pytest.fixture
def moves(examples):
    """Who moved where, everybody to every place, in random order."""
    stories = [example.text.rstrip(".").split() for example in examples(50)]
    names, places = (sorted({words[place] for words in stories}) for place in (0, -1))
    pairs = list(itertools.product(names[:20], places[:6]))
    random.Random(0).shuffle(pairs)
    return [
        QAExample(f"{name}-{place}", f"{name} moved to {place}.", f"Where did {name} move?", (place,))
        for name, place in pairs
    ]


def trained(tiny, moves, folder):
    """What a base LM of random weights needs to learn to be steered, in seconds."""
    config = tiny.config(
        "gpt2",
        "bert",
        "model.documents.frozen=true",
        "model.questions.frozen=true",
        "model.centring=true",
        "model.routing=true",
        "model.read=routed:1",
        "model.prefix.slot_embedding=true",
        "model.codebook={ codes = 16, per_position = true, levels = 2 }",
        "training.epochs=60",
        "training.batch_size=32",
        "training.learning_rate=0.01",
        "training.clip=1.0",
        "training.quantise_from=0.5",
        "training.bank_documents=1",
        "training.losses.routing=1.0",
        "training.losses.reconstruction=1.0",
    )
    for _ in train(config, moves[len(moves) // 4 :], [], folder / "run", cache=folder / "cache"):
        pass
    return load_model(folder / "run")


@pytest.fixture
def share(moves):
    """How many of the questions a method answers, asked of banks of held-out documents about eight people each."""
    unseen, rng = moves[: len(moves) // 4], random.Random(1)
    banks = []
    for _ in range(BANKS):
        about = {one.question: one for one in rng.sample(unseen, len(unseen))}
        banks.append(list(about.values())[:SIZE])

    def share(method):
        hits = 0
        for bank in banks:
            method.reset()
            method.adapt([one.text for one in bank])
            replies = method.answer([one.question for one in bank])
            hits += sum(reply.text == one.answers[0] for reply, one in zip(replies, bank, strict=True))
        return hits / (BANKS * SIZE)

    return share


@pytest.mark.slow
def test_codes_answer_what_their_controls_cannot(tiny, share, moves, tmp_path):
    model = trained(tiny, moves, tmp_path)
    real = share(MemoryMethod(model))
    assert real >= 0.5  # by chance one in six
    controls = {
        "empty": EmptyBank(model),
        "shuffled documents": MemoryMethod(model, corrupt=shuffled_over_documents),
        "shuffled codes": MemoryMethod(model, corrupt=partial(shuffled_over_codebook, codebook=model.codebook)),
        "wrong": WrongBank(MemoryMethod(model), [one.text for one in moves]),
    }
    for name, control in controls.items():
        assert share(control) <= real - 0.25, name
