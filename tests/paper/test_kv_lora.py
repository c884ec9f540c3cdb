"""KV-LoRA: what it leaves alone, what it changes and by how much."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mbc_engine.errors import ModelMismatch
from mbc_engine.lm.base import BaseLM, load_base
from mbc_engine.paper.kv_lora import adapter_state, add_kv_lora, load_adapter, save_adapter

RANK, ALPHA = 2, 6


def adapted(
    folder: Path, *, layers: int = 1, dropout: float = 0.0, rank: int = RANK, weights: Any = "float32"
) -> BaseLM:
    base = load_base(str(folder), weights=weights)
    torch.manual_seed(0)
    add_kv_lora(base.model, rank=rank, alpha=ALPHA, dropout=dropout, layers=layers)
    return base


def keep(base: BaseLM, folder: Path) -> None:
    save_adapter(base.model, adapter_state(base.model), folder)


def randomise(base: BaseLM) -> None:
    torch.manual_seed(1)
    for name, parameter in base.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter)


def trained(base: BaseLM) -> dict[str, Tensor]:
    return {name: value for name, value in base.named_parameters() if value.requires_grad}


@torch.no_grad()
def projections(base: BaseLM) -> dict[tuple[int, str], tuple[Tensor, Tensor]]:
    """Input and output of each layer's query, key and value projections for one text: [S, ...]."""
    seen: dict[tuple[int, str], tuple[Tensor, Tensor]] = {}

    def keep(layer: int, name: str) -> Any:
        def hook(_: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
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
def folder(request: pytest.FixtureRequest, tiny: Any) -> Path:
    return tiny.bases[request.param]


def test_untrained_adapter(folder: Path) -> None:
    ids = torch.tensor([[5, 9, 14, 3]])
    with torch.no_grad():
        assert torch.equal(adapted(folder, layers=2).model(ids).logits, load_base(str(folder)).model(ids).logits)


@pytest.mark.parametrize("weights", ["float32", "bf16", "int8"])
def test_only_keys_and_values_of_the_last_layers_change(folder: Path, weights: str) -> None:
    base = adapted(folder, layers=1, weights=weights)
    before = projections(base)
    randomise(base)
    after = projections(base)
    assert len(after) == 6
    for (layer, part), (_, value) in after.items():
        changed = (value - before[layer, part][1]).abs().max() > 1e-2
        assert changed == (layer == 1 and part in "kv"), (layer, part)


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_update_by_hand(folder: Path, weights: str) -> None:
    base = adapted(folder, layers=1, weights=weights)
    before = projections(base)
    randomise(base)
    after = projections(base)
    given = after[1, "k"][0]
    factors = {name: value.detach() for name, value in trained(base).items()}

    def factor(kind: str, part: str) -> Tensor:
        (found,) = [value for name, value in factors.items() if f"lora_{kind}" in name and part in name]
        return found

    if base.model.config.model_type == "gpt2":
        down = {"k": factor("A", "c_attn"), "v": factor("A", "c_attn")}
        up = dict(zip("kv", factor("B", "c_attn").chunk(2), strict=True))
    else:
        down = {part: factor("A", f"{part}_proj") for part in "kv"}
        up = {part: factor("B", f"{part}_proj") for part in "kv"}
    for part in "kv":
        expected = given @ down[part].T @ up[part].T * (ALPHA / RANK)
        torch.testing.assert_close(after[1, part][1] - before[1, part][1], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("other", [{"layers": 2}, {"rank": 3}])
def test_adapter_of_another_size(folder: Path, tmp_path: Path, other: dict[str, int]) -> None:
    keep(adapted(folder, **other), tmp_path)
    with pytest.raises(ModelMismatch):
        load_adapter(adapted(folder).model, tmp_path)
