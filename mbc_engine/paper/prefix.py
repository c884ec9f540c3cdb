"""The prefix network (paper, section 3.1; P-tuning v2): the modulation becomes key/value prefixes of every layer."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from mbc_engine.lm.base import KVPrefix


class PrefixNetwork(nn.Module):
    """T latents -> 2·P·L slots, each refined by its own residual feed-forward, -> P keys and values per layer.

    The latents repeat over the slots in order. Slots are ordered by layer, then key or value, then prefix column.
    `columns` is P, `hidden` the width of a slot's feed-forward; a learned `slot_embedding` and a learned `value_scale`
    per layer help a model trained from scratch. `as_released`, slots are ordered by prefix column, layer, then key or
    value, and each latent fills neighbouring slots.
    """

    def __init__(
        self,
        dim: int,
        layers: int,
        kv_heads: int,
        head_dim: int,
        *,
        columns: int = 2,
        hidden: int = 768,
        slot_embedding: bool = False,
        value_scale: bool = False,
        as_released: bool = False,
    ) -> None:
        super().__init__()
        self.layers, self.kv_heads, self.head_dim, self.columns = layers, kv_heads, head_dim, columns
        self.as_released = as_released
        slots = 2 * columns * layers
        self.norm_weight = nn.Parameter(torch.ones(slots, dim))
        self.norm_bias = nn.Parameter(torch.zeros(slots, dim))
        self.up = nn.Parameter(_linear_weight(slots, dim, hidden))
        self.up_bias = nn.Parameter(torch.zeros(slots, hidden))
        self.down = nn.Parameter(_linear_weight(slots, hidden, dim))
        self.down_bias = nn.Parameter(torch.zeros(slots, dim))
        self.slot_embedding = nn.Parameter(torch.randn(slots, dim) * 0.02) if slot_embedding else None
        self.value_scale = nn.Parameter(torch.ones(layers)) if value_scale else None
        # Grouped-query models have narrower keys and values than D; the others need no projection.
        kv_width = kv_heads * head_dim
        self.to_kv = nn.Identity() if kv_width == dim else nn.Linear(dim, kv_width, bias=False)

    def forward(self, latents: Tensor) -> KVPrefix:
        """[B, T, D] -> prefixes of every layer."""
        slots, tokens = len(self.norm_weight), latents.shape[1]
        latent_of = torch.arange(slots, device=latents.device) % tokens
        x = latents[:, latent_of.sort().values if self.as_released else latent_of]
        if self.slot_embedding is not None:
            x = x + self.slot_embedding
        normed = functional.layer_norm(x, x.shape[-1:]) * self.norm_weight + self.norm_bias
        hidden = functional.gelu(torch.einsum("bsd,sdh->bsh", normed, self.up) + self.up_bias)
        x = x + torch.einsum("bsh,shd->bsd", hidden, self.down) + self.down_bias
        heads = self.to_kv(x).unflatten(-1, (self.kv_heads, self.head_dim))
        if self.as_released:
            heads = heads.unflatten(1, (self.columns, -1)).transpose(1, 2).flatten(1, 2)
        by_layer = heads.unflatten(1, (self.layers, 2, self.columns)).transpose(3, 4)  # [B, L, 2, heads, P, head_dim]
        keys, values = by_layer.unbind(2)
        return KVPrefix(keys, values if self.value_scale is None else values * self.value_scale[:, None, None, None])


def _linear_weight(slots: int, inputs: int, outputs: int) -> Tensor:
    bound = inputs**-0.5
    return torch.empty(slots, inputs, outputs).uniform_(-bound, bound)
