"""Training without codes: the same loop, and nothing of a codebook or an adapter anywhere."""

import pytest

from mbc_engine.evaluation.cells import variant
from mbc_engine.events import (
    QuantisationStarted,
    TrainStarted,
    TrainStep,
)
from mbc_engine.paper.builder import trainable_parameters
from mbc_engine.paper.checkpoint import load_model
from mbc_engine.runs.training_runs import read_usage
from mbc_engine.training.trainer import train
from tests.training.conftest import tensors


@pytest.fixture
def config(tiny):
    """MAC of a model that starts without codes, whose codes would die."""
    return variant(
        tiny.config(
            "gpt2",
            "bert",
            "model.centring=true",
            "model.codebook.dead_threshold=0.3",
            "training.quantise_from=0.3",
            "training.accumulate=2",
            "training.backprop_dropout=0.5",
        ),
        "mac",
    )


def test_mac_has_neither_codebook_nor_adapter(tiny, tmp_path, examples, config):
    run = tmp_path / "run"
    events = list(train(config, examples(20), examples(3), run, cache=tmp_path / "cache"))
    assert not [event for event in events if isinstance(event, QuantisationStarted)]
    steps = [event for event in events if isinstance(event, TrainStep)]
    assert {(step.vq_loss, step.perplexity, step.dead_codes) for step in steps} == {(0.0, 0.0, 0)}
    assert steps[-1].loss < steps[0].loss
    assert read_usage(run) is None
    assert not (run / "model" / "adapter").exists()
    for file in ("snapshot.safetensors", "model/model.safetensors"):
        assert not [name for name in tensors(run / file) if "codebook" in name or "lora" in name]
    model = load_model(run)
    assert model.codebook is None
    (started,) = [event for event in events if isinstance(event, TrainStarted)]
    whole = tiny.model("gpt2", "bert", "model.centring=true")
    lora = sum(value.numel() for value in whole.base.parameters() if value.requires_grad)
    assert started.trainable_parameters == trainable_parameters(model)
    assert started.trainable_parameters == trainable_parameters(whole) - lora - whole.codebook.books.numel()
