"""The prefix: which latent fills which slot, and what a base LM gets of it."""

import pytest
import torch
from torch.nn import functional

from mbc_engine.paper.prefix import PrefixNetwork


def network(dim, kv_heads, head_dim, **options):
    torch.manual_seed(0)
    made = PrefixNetwork(dim, 3, kv_heads, head_dim, hidden=5, **options).requires_grad_(False)
    for parameter in made.parameters():
        parameter.normal_()
    return made


def naive_slot(made, latent, slot):
    """One latent [D] through one slot's feed-forward: [kv_heads, head_dim]."""
    x = latent if made.slot_embedding is None else latent + made.slot_embedding[slot]
    normed = functional.layer_norm(x, (len(x),), made.norm_weight[slot], made.norm_bias[slot])
    x = x + functional.gelu(normed @ made.up[slot] + made.up_bias[slot]) @ made.down[slot] + made.down_bias[slot]
    return made.to_kv(x).view(made.kv_heads, made.head_dim)


@pytest.mark.parametrize(
    ("dim", "kv_heads", "head_dim", "options"),
    [
        (6, 2, 3, {}),
        (6, 1, 4, {}),
        (6, 2, 3, {"columns": 3}),
        (6, 2, 5, {"columns": 1, "slot_embedding": True}),
        (6, 2, 3, {"value_scale": True}),
    ],
    ids=["as wide as the model", "grouped queries", "three columns", "slot embedding", "value scale"],
)
@pytest.mark.parametrize("tokens", [4, 5, 30])
def test_prefix_equals_a_loop(dim, kv_heads, head_dim, options, tokens):
    made = network(dim, kv_heads, head_dim, **options)
    latents = torch.randn(2, tokens, dim)
    prefix = made(latents)
    columns = options.get("columns", 2)
    assert prefix.length == columns
    assert prefix.keys.shape == prefix.values.shape == (2, 3, kv_heads, columns, head_dim)
    slot = 0
    for layer in range(3):
        for kind in (prefix.keys, prefix.values):
            for column in range(columns):
                for document in range(2):
                    expected = naive_slot(made, latents[document, slot % tokens], slot)
                    if made.value_scale is not None and kind is prefix.values:
                        expected = expected * made.value_scale[layer]
                    torch.testing.assert_close(kind[document, layer, :, column], expected)
                slot += 1
