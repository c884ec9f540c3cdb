"""KV-LoRA: what it leaves alone, what it changes and by how much."""

import pytest
import torch

from mbc_engine.errors import ModelMismatch
from mbc_engine.lm.base import load_base
from mbc_engine.paper.kv_lora import adapter_state, add_kv_lora, load_adapter, save_adapter

RANK, ALPHA = 2, 6


def adapted(folder, *, layers=1, dropout=0.0, rank=RANK, weights="float32"):
    base = load_base(str(folder), weights=weights)
    torch.manual_seed(0)
    add_kv_lora(base.model, rank=rank, alpha=ALPHA, dropout=dropout, layers=layers)
    return base


@torch.no_grad()
def projections(base):
    """Input and output of each layer's query, key and value projections for one text: [S, ...]."""
    seen = {}

    def keep(layer, name):
        def hook(_, given, out):
            parts = zip("qkv", out[0].chunk(3, -1), strict=True) if name == "c_attn" else [(name[0], out[0])]
            seen.update({(layer, part): (given[0][0], value) for part, value in parts})

        return hook

    layers = base.model.transformer.h if base.model.config.model_type == "gpt2" else base.model.model.layers
    attentions = [layer.attn if hasattr(layer, "attn") else layer.self_attn for layer in layers]
    hooks = [
        getattr(attention, name).register_forward_hook(keep(index, name))
        for index, attention in enumerate(attentions)
        for name in ("c_attn", "q_proj", "k_proj", "v_proj")
        if hasattr(attention, name)
    ]
    base.model(torch.tensor([[5, 9, 14, 3]]))
    for hook in hooks:
        hook.remove()
    return seen


@pytest.fixture(params=["gpt2", "llama"])
def folder(request, tiny):
    return tiny.bases[request.param]


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_update_by_hand(folder, weights):
    base = adapted(folder, layers=1, weights=weights)
    factors = {name: value.detach() for name, value in base.named_parameters() if value.requires_grad}
    before = projections(base)
    for name, value in factors.items():
        if "lora_B" in name:
            value.normal_()
    after = projections(base)
    given = after[1, "k"][0]

    def factor(kind, part):
        (found,) = [value for name, value in factors.items() if f"lora_{kind}" in name and part in name]
        return found

    if base.model.config.model_type == "gpt2":
        down = {"k": factor("A", "c_attn"), "v": factor("A", "c_attn")}
        up = dict(zip("kv", factor("B", "c_attn").chunk(2), strict=True))
    else:
        down = {part: factor("A", f"{part}_proj") for part in "kv"}
        up = {part: factor("B", f"{part}_proj") for part in "kv"}
    assert len(after) == 6
    for (layer, part), (_, value) in after.items():
        is_adapted = layer == 1 and part in "kv"  # the last layer's keys and values, and nothing else
        expected = given @ down[part].T @ up[part].T * (ALPHA / RANK) if is_adapted else torch.zeros_like(value)
        torch.testing.assert_close(value - before[layer, part][1], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("other", [{"layers": 2}, {"rank": 3}])
def test_adapter_of_another_size(folder, tmp_path, other):
    base = adapted(folder, **other).model
    save_adapter(base, adapter_state(base), tmp_path)
    with pytest.raises(ModelMismatch):
        load_adapter(adapted(folder).model, tmp_path)
