"""A card says what is known, and that the rest is not."""

from dataclasses import replace

import pytest
import yaml

from mbc_engine.events import TrainFinished, TrainStarted, TrainStep, Validated
from mbc_engine.runs.event_log import Stamped
from mbc_engine.runs.training_runs import RunHistory
from mbc_engine.sharing.card import MARK, Training, model_card
from mbc_engine.sharing.inspection import inspect

STARTED = TrainStarted(step=0, total_steps=20, examples=40, documents=38, trainable_parameters=44_505)
STEP = TrainStep(
    **dict.fromkeys(
        ("epoch", "loss", "question_loss", "vq_loss", "route_loss", "reconstruction_loss", "route_accuracy",
         "perplexity", "dead_codes", "document_variance", "learning_rate", "examples_per_second"), 0),
    step=7,
)  # fmt: skip
BEST = Validated(
    step=20, epoch=1, questions=120, documents=95, exact_match=31.25, f1=40.5, first_source=88.0, is_best=True
)


@pytest.fixture
def model(saved):
    return inspect(saved, "It", "")


def told(model, *events, command=None, device=None):
    history = RunHistory()
    history.add(Stamped(1_700_000_000.0, event) for event in events)
    return model_card(model, "ada/tiny", training=Training(history, command, device), licence=None, author="mbc 9")


def front_matter(card):
    return yaml.safe_load(card.split("---\n")[1])


def test_the_front_matter_is_what_a_hub_reads(model):
    assert front_matter(model_card(model, "ada/tiny", training=None, licence="cc-by-4.0", author="mbc 9")) == {
        "library_name": "mbc",
        "pipeline_tag": "question-answering",
        "base_model": "tiny/gpt2",
        "license": "cc-by-4.0",
        "tags": ["mbc", "memory", "retrieval"],
    }


def test_no_licence_is_given_that_nobody_gave(model):
    assert "license" not in front_matter(model_card(model, "ada/tiny", training=None, licence=None, author="mbc 9"))


def test_a_licence_cannot_add_to_the_front_matter(model):
    licence = 'mit"\n---\nevil: [x'
    assert (
        front_matter(model_card(model, "ada/tiny", training=None, licence=licence, author="mbc 9"))["license"]
        == licence
    )


def test_an_embedded_base_is_none_of_the_hub(model):
    settings = model.config.model.model_copy(update={"base": "embedded:mini/base"})
    embedded = replace(model, config=model.config.model_copy(update={"model": settings}))
    card = model_card(embedded, "ada/mini", training=None, licence=None, author="mbc 9")
    assert "base_model" not in front_matter(card)
    bits = embedded.shape.bits_per_chunk
    assert f"| A chunk in a bank | {bits} bits, {bits / 8:.3g} bytes |" in card


def test_a_model_without_its_run_is_not_evaluated(model):
    card = model_card(model, "ada/tiny", training=None, licence=None, author="mbc 9")
    assert "**Not evaluated**" in card
    assert "F1" not in card
    assert card.count(MARK) == 1


def test_a_card_tells_what_the_model_is_made_of(model):
    card = model_card(model, "ada/tiny", training=None, licence=None, author="mbc 9")
    for row in (
        "| Base LM | `tiny/gpt2`, frozen; KV-LoRA of rank 2 on the last layer |",
        "| Vectors of a chunk, T | 4 of width 32 |",
        "| Codebook | 8 codes, one book for all positions |",
        "| A chunk in a bank | 12 bits, 1.5 bytes |",
        "| codebook | 264 |",
        f"| all | {sum(model.stored.values()):,} |",
    ):
        assert row in card
    assert "mbc models pull ada/tiny" in card


def test_a_finished_run_tells_its_figures(model):
    command = "mbc train --preset config.toml --data q.jsonl"
    card = told(model, STARTED, STEP, BEST, TrainFinished(20, 180.0, "/model"), command=command, device="cuda")
    for row in (
        "| State | finished, 20 steps |",
        "| Data | 40 questions about 38 documents |",
        "| Trainable parameters | 44,505 |",
        "| Device | `cuda` |",
        "| Time | 3 min |",
        "| Date | 2023-11-14 |",
        "| Settings | 2 epochs, batches of 4 questions, learning rate 0.001, float32 |",
        "| Seed | 0 |",
        "| Card written by | mbc 9 |",
    ):
        assert row in card
    assert "strict EM 31.2 %, F1 40.5 %, the right source first 88.0 %, on 120 held-out questions" in card
    assert f"```sh\n{command}\n```" in card
    assert "not evaluated" not in card.lower()


def test_a_batch_in_several_passes_is_no_larger(model):
    training = model.config.training.model_copy(update={"accumulate": 2})
    model = replace(model, config=model.config.model_copy(update={"training": training}))
    assert "batches of 4 questions" in told(model, STARTED)


def test_a_run_without_a_validation_is_not_evaluated(model):
    card = told(model, STARTED, STEP)
    assert "| Best validation | **not evaluated** |" in card
    assert "| State | not finished: 7 of 20 steps |" in card
    assert "/model" not in card


def test_a_run_that_never_began_is_none(model):
    assert "shared without its training run" in told(model)


def test_a_device_is_text(model):
    assert "| Device | `a??b???` |" in told(model, STARTED, device="a`|b\n\x1b<")
