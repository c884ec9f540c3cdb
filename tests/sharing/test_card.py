"""A card says what is known, and that the rest is not."""

import pytest
from huggingface_hub import ModelCard

from mbc_engine.config import parse_config
from mbc_engine.events import TrainFinished, TrainStarted, TrainStep, Validated
from mbc_engine.runs.training_runs import RunHistory
from mbc_engine.sharing import MARK, check, model_card

STARTED = TrainStarted(step=0, total_steps=20, examples=40, documents=38, trainable_parameters=44_505)
STEP = TrainStep(7, *12 * [0])
BEST = Validated(
    step=20, epoch=1, questions=120, documents=95, exact_match=31.25, f1=40.5, first_source=88.0, is_best=True
)


@pytest.fixture
def config(saved):
    return check(saved, "It", "")


def card(config, *events, licence=None, command=None):
    history = RunHistory()
    history.add((1_700_000_000.0, event) for event in events)
    return model_card(config, "ada/tiny", licence=licence, history=history if events else None, command=command)


@pytest.mark.parametrize("licence", [None, "cc-by-4.0", 'mit"\n---\nevil: [x'])
def test_front_matter_takes_any_licence(config, licence):
    assert ModelCard(card(config, licence=licence)).data.to_dict() == {
        "library_name": "mbc",
        "pipeline_tag": "question-answering",
        "base_model": "tiny/gpt2",
        "tags": ["mbc", "memory", "retrieval"],
    } | ({"license": licence} if licence else {})


def test_card_without_a_run_describes_the_model(config):
    text = card(config)
    assert "**not evaluated**" in text
    assert "F1" not in text
    assert text.count(MARK) == 1
    assert "Each chunk of text becomes 4 tokens x 1 levels of 8 codes, 1.5 bytes," in text
    assert parse_config(text.split("```toml\n")[1].split("```")[0], "card") == config


def test_card_has_the_figures_of_a_run(config):
    command = "mbc train --preset config.toml --data q.jsonl"
    text = card(config, STARTED, STEP, BEST, TrainFinished(20, 180.0, "/model"), command=command)
    for row in (
        "- State: finished, 7 of 20 steps, 2023-11-14.",
        "- Data: 40 questions about 38 documents.",
        "- Trainable parameters: 44,505.",
        "strict EM 31.2 %, F1 40.5 %, correct source ranked first 88.0 %, on 120 held-out questions",
        f"```sh\n{command}\n```",
    ):
        assert row in text
    assert "not evaluated" not in text
    unfinished = card(config, STARTED, STEP)
    assert "- Best validation: **not evaluated**." in unfinished
    assert "- State: training, 7 of 20 steps" in unfinished
