"""Closed-form fit of mini's addresses: means, a basis with variance shared evenly by positions, k-means codebooks."""

import torch
from torch import Tensor

from mbc_engine.mini.retrieval import Address
from mbc_engine.paper.codebook import kmeans


@torch.no_grad()
def fit(address: Address, documents: Tensor, questions: Tensor, *, iterations: int = 20) -> None:
    """Fit means, basis, spread and codebooks to unit sentence vectors of documents [N, E] and questions [M, E].

    Raises:
        ValueError: there are fewer documents than codes in a codebook.
    """
    mean = documents.mean(0)
    centred = documents - mean
    values, directions = torch.linalg.eigh((centred.T @ centred / len(centred)).double())
    size = address.tokens * address.dim
    values, directions = values.flip(0)[:size].clamp_min(1e-12), directions.flip(1)[:, :size]
    order = torch.tensor(_evenly(values.log().tolist(), address.tokens), device=values.device)
    basis = directions[:, order].T.float()
    vectors = (centred @ basis.T).unflatten(1, (address.tokens, address.dim)).unbind(1)
    address.document_mean[...] = mean.cpu()
    address.question_mean[...] = questions.mean(0).cpu()
    address.basis[...] = basis.cpu()
    address.spread[...] = values[order].cpu()
    for position, points in enumerate(vectors):
        address.books[position] = kmeans(points, address.num_codes, iterations=iterations)[0].cpu()


def _evenly(sizes: list[float], groups: int) -> list[int]:
    """Indices of descending sizes, group by group; groups have equal numbers and nearly equal sums."""
    lowest = sizes[-1]
    members: list[list[int]] = [[] for _ in range(groups)]
    sums = [0.0] * groups
    for index, size in enumerate(sizes):
        group = min((g for g in range(groups) if len(members[g]) < len(sizes) // groups), key=sums.__getitem__)
        members[group].append(index)
        sums[group] += size - lowest
    return [index for group in members for index in group]
