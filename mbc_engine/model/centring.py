"""Centring of an amortizer's output over documents: what all documents share carries no information.

Trained from scratch, an amortizer collapses onto one vector a position, and every code just names its position.
Subtracting each position's mean and dividing by its root mean square keeps the document-dependent part in sight.
Like batch normalisation without affine parameters, but with one scale a position, so that the directions within a
position keep their proportions.
"""

import torch
from torch import Tensor, nn


class Centring(nn.Module):
    """Normalise [B, T, D] over documents: by the batch in training, by running figures otherwise.

    Args:
        tokens: T.
        dim: D.
        momentum: how fast the running figures follow the batches.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, tokens: int, dim: int, *, momentum: float = 0.05) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(tokens, dim))
        self.register_buffer("scale", torch.ones(tokens, 1))

    def forward(self, vectors: Tensor) -> Tensor:
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
        """Set the running figures to those of [N, T, D]."""
        self.mean.copy_(vectors.mean(0))
        self.scale.copy_(_scale(vectors - self.mean))


def _scale(centred: Tensor) -> Tensor:
    """Root mean square over documents and dimensions, [N, T, D] -> [T, 1]; never zero."""
    return (centred.float().square().mean((0, 2)) + 1e-12).sqrt().unsqueeze(-1)


def document_variance(vectors: Tensor) -> float:
    """Share of the energy of [B, T, D] that differs between documents, in [0, 1]; near 0 means collapse."""
    energy = vectors.float().square().mean()
    varying = (vectors.float() - vectors.float().mean(0)).square().mean()
    return float(varying / energy.clamp_min(1e-12))
