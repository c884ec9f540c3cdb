"""Vector quantisation: the nearest codes of vectors, k-means, and shares of vectors as shares of codes."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mbc_engine.bank import Codes, CodeShape, count

CodeMap = NDArray[np.float32]


def kmeans(points: Tensor, clusters: int, *, iterations: int = 15) -> tuple[Tensor, Tensor]:
    """Lloyd's k-means of points [N, D]: centres [clusters, D], and how many points each has [clusters].

    It starts from distinct points; an empty cluster takes the point that is farthest from its own centre. Raises
    ValueError for fewer points than clusters.
    """
    if len(points) < clusters:
        raise ValueError(f"{clusters} clusters need at least as many points, not {len(points)}")
    centres = points[torch.randperm(len(points), device=points.device)[:clusters]].clone()
    sizes = torch.zeros(clusters, device=points.device)
    for _ in range(iterations):
        nearest_centres = torch.cdist(points, centres).min(-1)
        sizes = torch.bincount(nearest_centres.indices, minlength=clusters).to(points.dtype)
        sums = torch.zeros_like(centres).index_add_(0, nearest_centres.indices, points)
        empty = (sizes == 0).nonzero().flatten()
        centres = sums / sizes.clamp_min(1).unsqueeze(-1)
        centres[empty] = points[nearest_centres.values.topk(len(empty)).indices]
    return centres, sizes


def nearest(vectors: Tensor, books: Tensor) -> Tensor:
    """Index of the nearest code, the lowest of equals: [B, T, D], [T or 1, N_c, D] -> [B, T] int64."""
    books = books.detach().float()
    # Full precision also inside autocast: a text must get the same codes everywhere.
    with torch.autocast(vectors.device.type, enabled=False):
        # |v - e|^2 without |v|^2, which is the same for every code.
        products = torch.einsum("btd,tjd->btj", vectors.detach().float(), books.expand(vectors.shape[1], -1, -1))
        return (books.square().sum(-1) - 2 * products).argmin(-1)


def spread(shares: NDArray[np.floating], codes: Codes, shape: CodeShape) -> CodeMap:
    """Shares of vectors [B, k, T] as shares of their codes [B, k, T, levels]: [B, levels, positions, num_codes].

    They sum to 1 over each level. No question's shares may all be zero.
    """
    whole = (shares / shares.sum((1, 2), keepdims=True))[..., None]
    return np.stack([count(row, shape, share) for row, share in zip(codes, whole, strict=True)]).astype(np.float32)
