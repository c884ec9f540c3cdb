"""Weights packed into 8 or 4 bits: which ones, how precisely, and that the rest still trains."""

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from mbc_engine.errors import ModelError
from mbc_engine.lm.base import load_base
from mbc_engine.lm.encoders import load_encoder
from mbc_engine.lm.pretrained import PACKED, is_packed


def packed(module):
    return {name: layer for name, layer in module.named_modules() if is_packed(layer)}


@pytest.mark.parametrize("weights", PACKED)
def test_what_is_packed(wide, weights):
    base = load_base(str(wide.bases["gpt2"]), weights=weights).model
    assert {name.rpartition(".")[2] for name in packed(base)} == {"c_attn", "c_proj", "c_fc"}
    assert {value.dtype for name, value in base.named_parameters() if not name.endswith(".weight")} == {torch.float32}
    assert base.get_output_embeddings().weight.dtype == torch.float32


def test_packed_from(wide, tmp_path):
    one = load_encoder(str(wide.encoders["t5"]), weights="nf4").packed_from
    model = AutoModel.from_pretrained(wide.encoders["t5"])
    tokenizer = AutoTokenizer.from_pretrained(wide.encoders["t5"])
    for name in ("same", "shards", "other"):
        tokenizer.save_pretrained(tmp_path / name)
    model.save_pretrained(tmp_path / "same")
    model.save_pretrained(tmp_path / "shards", max_shard_size="8KB")
    assert not (tmp_path / "shards" / "model.safetensors").exists()
    with torch.no_grad():
        model.encoder.final_layer_norm.weight[3] += 1e-6
    model.save_pretrained(tmp_path / "other")
    assert load_encoder(str(tmp_path / "same"), weights="nf4").packed_from == one
    assert load_encoder(str(tmp_path / "shards"), weights="nf4").packed_from == one
    assert load_encoder(str(tmp_path / "other"), weights="nf4").packed_from != one
    assert load_encoder(str(tmp_path / "other"), weights="int8").packed_from != one
    assert load_encoder(str(wide.encoders["t5"])).packed_from is None


@pytest.mark.parametrize("weights", PACKED)
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_training_after_inference(wide, weights, precision):
    """Inference first: there bitsandbytes might pack 4-bit weights in a way that has no gradients."""
    encoder = load_encoder(str(wide.encoders["t5"]), weights=weights)
    model = encoder.model.eval()
    batch = {"input_ids": torch.tensor([[3, 5, 4, 6]]), "decoder_input_ids": torch.tensor([[3, 4]])}
    with torch.no_grad():
        first = model(**batch).last_hidden_state
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.is_floating_point())
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        model(**batch).last_hidden_state.float().square().mean().backward()
    for name, value in model.named_parameters():
        if value.requires_grad:
            assert value.grad is not None, name
    assert model.shared.weight.grad.abs().max() > 0
    with torch.no_grad():
        assert torch.equal(model(**batch).last_hidden_state, first)


def test_nf4_needs_multiples_of_64_on_a_cpu(tiny):
    for load in (
        lambda: load_base(str(tiny.bases["gpt2"]), weights="nf4"),
        lambda: load_encoder(str(tiny.encoders["t5"]), weights="nf4"),
    ):
        with pytest.raises(ModelError, match="not a multiple of 64") as caught:
            load()
        assert "int8" in (caught.value.hint or "")
