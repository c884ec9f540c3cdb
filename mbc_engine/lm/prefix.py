"""The modulation becomes key/value prefixes of every layer (paper, section 3.1; P-tuning v2)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer


@dataclass(frozen=True)
class KVPrefix:
    """Keys and values of P extra columns for every layer: each [B, layers, kv_heads, P, head_dim]."""

    keys: Tensor
    values: Tensor

    @staticmethod
    def none(batch: int, *, layers: int, kv_heads: int, head_dim: int, device: torch.device) -> "KVPrefix":
        """No columns before any of `batch` texts: P is 0, and a base LM does as it does by itself."""
        columns = torch.empty(batch, layers, kv_heads, 0, head_dim, device=device)
        return KVPrefix(columns, columns)

    @property
    def length(self) -> int:
        """P, the prefix columns of a layer."""
        return self.keys.shape[3]

    def repeat(self, times: int) -> "KVPrefix":
        """Each example `times` times in a row, as beam search wants it."""
        return KVPrefix(self.keys.repeat_interleave(times, 0), self.values.repeat_interleave(times, 0))

    def cache(self, dtype: torch.dtype) -> DynamicCache:
        """A fresh cache that holds the prefix. A forward pass grows it, so that each call needs its own."""
        cache = DynamicCache()
        for layer in range(self.keys.shape[1]):
            cache.update(self.keys[:, layer].to(dtype), self.values[:, layer].to(dtype), layer)
        return cache

    def fixed(self, dtype: torch.dtype) -> DynamicCache:
        """A cache that holds the prefix and nothing else, however often a layer runs: for one pass over whole texts."""
        cache = DynamicCache()
        cache.layers = [
            _FixedLayer(self.keys[:, layer].to(dtype), self.values[:, layer].to(dtype))
            for layer in range(self.keys.shape[1])
        ]
        return cache


class _FixedLayer(DynamicLayer):
    """A layer of a prefix that does not grow, so that a layer computed a second time finds it as it was."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        super().update(keys, values)

    def update(self, key_states: Tensor, value_states: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
        assert self.keys is not None
        assert self.values is not None
        return torch.cat([self.keys, key_states], dim=-2), torch.cat([self.values, value_states], dim=-2)


class PrefixNetwork(nn.Module):
    """T latents -> 2·P·L slots, each refined by its own residual feed-forward, -> P keys and values a layer.

    The latents repeat over the slots in order. Slot s belongs to prefix column s mod P, then to key or value, then to
    its layer, so that with P = 2 neighbouring latents make a layer's columns.

    Args:
        dim: D.
        layers: L.
        kv_heads: key/value heads of the base LM (fewer than its query heads under grouped-query attention).
        head_dim: width of a head.
        columns: P, the paper's 2.
        hidden: width of a slot's feed-forward.
        slot_embedding: add a learned vector to each slot; helps a model that is trained from scratch.
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
    ) -> None:
        super().__init__()
        self.layers, self.kv_heads, self.head_dim, self.columns = layers, kv_heads, head_dim, columns
        slots = 2 * columns * layers
        self.norm_weight = nn.Parameter(torch.ones(slots, dim))
        self.norm_bias = nn.Parameter(torch.zeros(slots, dim))
        self.up = nn.Parameter(_linear_weight(slots, dim, hidden))
        self.up_bias = nn.Parameter(torch.zeros(slots, hidden))
        self.down = nn.Parameter(_linear_weight(slots, hidden, dim))
        self.down_bias = nn.Parameter(torch.zeros(slots, dim))
        self.slot_embedding = nn.Parameter(torch.randn(slots, dim) * 0.02) if slot_embedding else None
        # Grouped-query models have narrower keys and values than D; the others need no projection.
        kv_width = kv_heads * head_dim
        self.to_kv = nn.Identity() if kv_width == dim else nn.Linear(dim, kv_width, bias=False)

    def forward(self, latents: Tensor) -> KVPrefix:
        """[B, T, D] -> prefixes of every layer."""
        slots = len(self.norm_weight)
        repeats = -(-slots // latents.shape[1])
        x = latents.repeat(1, repeats, 1)[:, :slots]
        if self.slot_embedding is not None:
            x = x + self.slot_embedding
        normed = functional.layer_norm(x, x.shape[-1:]) * self.norm_weight + self.norm_bias
        hidden = functional.gelu(torch.einsum("bsd,sdh->bsh", normed, self.up) + self.up_bias)
        x = x + torch.einsum("bsh,shd->bsd", hidden, self.down) + self.down_bias
        heads = self.to_kv(x).unflatten(-1, (self.kv_heads, self.head_dim))
        by_layer = heads.unflatten(1, (self.layers, 2, self.columns)).transpose(3, 4)  # [B, L, 2, heads, P, head_dim]
        return KVPrefix(by_layer[:, :, 0], by_layer[:, :, 1])


def _linear_weight(slots: int, inputs: int, outputs: int) -> Tensor:
    """One linear layer's weight a slot, initialised as nn.Linear does."""
    bound = inputs**-0.5
    return torch.empty(slots, inputs, outputs).uniform_(-bound, bound)
