"""Packed weights: what stays frozen, what trains, and what a bank is bound to."""

from dataclasses import replace

import pytest
import torch

from mbc_engine.events import TrainFinished
from mbc_engine.lm.pretrained import PACKED, is_packed
from mbc_engine.model import load_model
from mbc_engine.training.trainer import train
from tests.paper.conftest import weight_overrides


def packed(module):
    return {name: layer for name, layer in module.named_modules() if is_packed(layer)}


def test_fingerprint_of_packed_weights(wide):
    """A GPU may round a weight differently from a CPU; the bank still belongs to the model."""
    made = {
        weights: wide.model("gpt2", "t5", *weight_overrides("float32", weights)) for weights in ("float32", *PACKED)
    }
    assert len({model.fingerprints() for model in made.values()}) == 3
    model = made["nf4"]
    before = model.fingerprints()
    layer = next(iter(packed(model.documents).values()))
    layer.weight.data[0] ^= 1
    assert model.fingerprints() == before
    model.documents.encoder = replace(model.documents.encoder, packed_from="nf4 of another")
    assert model.fingerprints() != before


@pytest.mark.parametrize(("weights", "encoder"), [("nf4", "t5"), pytest.param("int8", "bert", marks=pytest.mark.slow)])
def test_packed_model_trains(wide, examples, tmp_path, weights, encoder):
    changes = [*weight_overrides(weights, weights), "training.precision=bf16", "training.epochs=1"]
    config, data = wide.config("gpt2", encoder, *changes), examples(8)
    untrained = wide.model("gpt2", encoder, *changes)
    *_, last = train(config, data, data[:2], tmp_path / "run", cache=tmp_path / "cache")
    assert isinstance(last, TrainFinished)
    model = load_model(tmp_path / "run")
    before, after = (dict(made.named_parameters()) for made in (untrained, model))
    for name in ("documents.amortizer.queries", "aggregator.blocks.0.attention.query.weight", "prefix.up"):
        assert not torch.equal(before[name], after[name]), name
    for name, layer in packed(model).items():
        assert torch.equal(layer.weight, untrained.get_submodule(name).weight), name
    assert any("lora_B" in name and value.abs().max() > 0 for name, value in after.items())
