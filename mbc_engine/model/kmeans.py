"""Lloyd's k-means, seeded by distinct points: where a codebook starts when training has vectors already."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Clusters:
    """Centres [clusters, D] and how many points each has [clusters]."""

    centres: Tensor
    sizes: Tensor


def kmeans(points: Tensor, clusters: int, *, iterations: int = 15) -> Clusters:
    """Cluster [N, D] points. An empty cluster takes the point that is farthest from its own centre.

    Raises:
        ValueError: fewer points than clusters.
    """
    if len(points) < clusters:
        raise ValueError(f"{clusters} clusters need at least as many points, not {len(points)}")
    centres = points[torch.randperm(len(points), device=points.device)[:clusters]].clone()
    sizes = torch.zeros(clusters, device=points.device)
    for _ in range(iterations):
        distances = torch.cdist(points, centres)
        nearest = distances.min(-1)
        sizes = torch.bincount(nearest.indices, minlength=clusters).to(points.dtype)
        sums = torch.zeros_like(centres).index_add_(0, nearest.indices, points)
        empty = (sizes == 0).nonzero().flatten()
        centres = sums / sizes.clamp_min(1).unsqueeze(-1)
        centres[empty] = points[nearest.values.topk(len(empty)).indices]
    return Clusters(centres, sizes)
