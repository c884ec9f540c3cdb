"""Amortization networks (paper, section 3.1): a text becomes T vectors of the base LM's width."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mbc_engine.lm.encoders import Encoder, PaddingSide, token_states
from mbc_engine.text.chunks import Chunker


class Centring(nn.Module):
    """Normalise [B, T, D] over documents: by batch statistics in training, by running statistics otherwise.

    Trained from scratch, an amortizer collapses onto one vector per position. Subtracting each position's mean and
    dividing by its root mean square keeps what depends on the document visible, its directions in proportion. The means
    also told the positions apart, so each gets a learned vector instead, initially that of `positions` [T, D].
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, positions: Tensor, *, momentum: float = 0.05) -> None:
        super().__init__()
        self.momentum = momentum
        self.positions = nn.Parameter(positions.clone())
        self.register_buffer("mean", torch.zeros_like(positions))
        self.register_buffer("scale", torch.ones_like(positions[:, :1]))

    def forward(self, vectors: Tensor) -> Tensor:
        return self._normalised(vectors) + self.positions

    def _normalised(self, vectors: Tensor) -> Tensor:
        if not self.training or len(vectors) < 2:
            return (vectors - self.mean) / self.scale
        mean = vectors.mean(0)
        scale = _scale(vectors - mean)
        with torch.no_grad():
            self.mean.lerp_(mean.detach().float(), self.momentum)
            self.scale.lerp_(scale.detach().float(), self.momentum)
        return (vectors - mean) / scale

    @torch.no_grad()
    def fit(self, vectors: Tensor) -> None:
        self.mean.copy_(vectors.mean(0))
        self.scale.copy_(_scale(vectors - self.mean))


def _scale(centred: Tensor) -> Tensor:
    return (centred.float().square().mean((0, 2)) + 1e-12).sqrt().unsqueeze(-1)


def document_variance(vectors: Tensor) -> float:
    """Share of the energy of [B, T, D] that differs between documents, in [0, 1]; near 0 means collapse."""
    energy = vectors.float().square().mean()
    varying = (vectors.float() - vectors.float().mean(0)).square().mean()
    return float(varying / energy.clamp_min(1e-12))


class Amortizer(nn.Module, ABC):
    """Token ids -> phi [B, T, D], T being `tokens`; `centring`, if given, removes what all documents share."""

    def __init__(self, tokens: int, centring: Centring | None) -> None:
        super().__init__()
        self.tokens = tokens
        self.centring = centring

    @property
    @abstractmethod
    def pretrained(self) -> PreTrainedModel: ...

    @abstractmethod
    def readout(self, states: Tensor, mask: Tensor) -> Tensor:
        """Token states [B, S, E] and mask [B, S] -> [B, T, D], before centring."""

    def contextualise(self, ids: Tensor, mask: Tensor) -> Tensor:
        return token_states(self.pretrained, ids, mask)

    def centre(self, vectors: Tensor) -> Tensor:
        return vectors if self.centring is None else self.centring(vectors)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.centre(self.readout(self.contextualise(ids, mask), mask))


class TokenHead(nn.Module):
    """One latent's own head, `skip(x) + mlp(x)`: [..., inputs] -> [..., dim]."""

    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__()
        self.skip = nn.Identity() if inputs == dim else nn.Linear(inputs, dim)
        self.mlp = nn.Sequential(nn.LayerNorm(inputs), nn.Linear(inputs, dim), nn.Tanh(), nn.Linear(dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.skip(x) + self.mlp(x)  # type: ignore[no-any-return]


class T5Amortizer(Amortizer):
    """The paper's: a T5 encoder-decoder whose decoder reads T learned inputs, with a head for each.

    The decoder has no causal mask: the T inputs are a set of queries, not a text. `as_released` it has one, and attends
    to padding. `t5` has no LM head.
    """

    def __init__(
        self, t5: PreTrainedModel, tokens: int, dim: int, centring: Centring | None = None, *, as_released: bool = False
    ) -> None:
        super().__init__(tokens, centring)
        self.t5, self.as_released = t5, as_released
        width = t5.config.d_model
        self.queries = nn.Parameter(torch.randn(tokens, width) * 0.02)
        self.heads = nn.ModuleList(TokenHead(width, dim) for _ in range(tokens))

    @property
    def pretrained(self) -> PreTrainedModel:
        return self.t5

    def readout(self, states: Tensor, mask: Tensor) -> Tensor:
        batch = len(states)
        everything = torch.ones(batch, 1, self.tokens, self.tokens, dtype=torch.bool, device=states.device)
        decoded = self.t5.get_decoder()(
            inputs_embeds=self.queries.expand(batch, -1, -1),
            attention_mask=None if self.as_released else everything,
            encoder_hidden_states=states,
            encoder_attention_mask=None if self.as_released else mask,
            use_cache=False,
        ).last_hidden_state
        return torch.stack([head(decoded[:, index]) for index, head in enumerate(self.heads)], dim=1)


class EncoderAmortizer(Amortizer):
    """An encoder-only model and one cross-attention decoder block of T learned queries, each with a linear head.

    Initially the block pools the states' mean, a sentence encoder's own summary of a text.
    """

    def __init__(self, encoder: PreTrainedModel, tokens: int, dim: int, centring: Centring | None = None) -> None:
        super().__init__(tokens, centring)
        self.encoder = encoder
        width: int = encoder.config.hidden_size
        # Heads of the usual width if possible, else as many as the encoder has.
        self.attention_heads: int = width // 64 if width % 64 == 0 else encoder.config.num_attention_heads
        self.queries = nn.Parameter(torch.randn(tokens, width) * 0.02)
        # No value projection: the heads that follow are linear and would absorb it.
        self.key = nn.Linear(width, width, bias=False)
        last = nn.Linear(width // 2, width)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.feed_forward = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width // 2), nn.GELU(), last)
        self.head_weight = nn.Parameter(torch.randn(tokens, width, dim) * width**-0.5)
        self.head_bias = nn.Parameter(torch.zeros(tokens, dim))

    @property
    def pretrained(self) -> PreTrainedModel:
        return self.encoder

    def pooled(self, states: Tensor, mask: Tensor) -> Tensor:
        heads = (self.attention_heads, -1)
        query, key = self.queries.unflatten(-1, heads), self.key(states).unflatten(-1, heads)
        # Few queries over short texts: on a CPU, plain attention is faster than the fused kernel.
        scores = torch.einsum("the,bshe->bhts", query, key) * query.shape[-1] ** -0.5
        weights = scores.masked_fill(~mask[:, None, None].bool(), -torch.inf).softmax(-1)
        return torch.einsum("bhts,bshe->bthe", weights.to(states.dtype), states.unflatten(-1, heads)).flatten(-2)

    def readout(self, states: Tensor, mask: Tensor) -> Tensor:
        x = self.pooled(states, mask)
        x = x + self.feed_forward(x)
        return torch.einsum("bte,ted->btd", x, self.head_weight) + self.head_bias


class TextEncoder(nn.Module):
    """One side of a model, g_amort or g_input: texts -> T vectors each; the window includes special tokens.

    `pads` is the side on which texts are padded to the window, None if only to the longest.
    """

    def __init__(self, amortizer: Amortizer, encoder: Encoder, window: int, pads: PaddingSide | None = None) -> None:
        super().__init__()
        self.amortizer, self.pads = amortizer, pads
        self.encoder, self.tokenizer, self.window = encoder, encoder.tokenizer, window

    @property
    def is_frozen(self) -> bool:
        return not any(parameter.requires_grad for parameter in self.amortizer.pretrained.parameters())

    def tokenize(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        return self.encoder.tokenize(texts, self.window, self.pads)

    @cached_property
    def chunker(self) -> Chunker:
        return self.encoder.chunker(self.window)

    def forward(self, texts: Sequence[str]) -> Tensor:
        return self.amortizer(*self.tokenize(texts))  # type: ignore[no-any-return]
