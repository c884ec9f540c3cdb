"""The VQ-VAE codebook (paper, sections 3.2 and 3.3): quantises documents to codes and resets dead codes."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from mbc_engine.bank import CodeShape, perplexity


@dataclass(frozen=True)
class Quantized:
    """A quantised batch."""

    vectors: Tensor  # [B, T, D], the value of the codes with the gradient of the input (straight-through)
    codes: Tensor  # [B, T, levels] int64
    loss: Tensor  # codebook loss + beta * commitment loss, a scalar (paper, equation 5; means over elements)
    residuals: Tensor  # the input of each level, [levels, B, T, D], without gradient


class Codebook(nn.Module):
    """E, its nearest-code search, its losses and the usage of its codes.

    `num_codes` is N_c, `tokens` T, `levels` the number of residual levels (1 in the paper); `per_position` gives each
    of the T positions its own codebook. `commitment` is beta, `decay` is gamma, of the usage's moving average; codes
    used less than `dead_threshold` (epsilon) are reset.
    """

    usage: Tensor

    def __init__(
        self,
        num_codes: int,
        dim: int,
        tokens: int,
        *,
        levels: int = 1,
        per_position: bool = False,
        commitment: float = 0.25,
        decay: float = 0.99,
        dead_threshold: float = 1e-4,
    ) -> None:
        super().__init__()
        self.num_codes, self.dim, self.tokens = num_codes, dim, tokens
        self.levels, self.per_position = levels, per_position
        self.commitment, self.decay, self.dead_threshold = commitment, decay, dead_threshold
        positions = tokens if per_position else 1
        self.books = nn.Parameter(
            torch.empty(levels, positions, num_codes, dim).uniform_(-1 / num_codes, 1 / num_codes)
        )
        self.register_buffer("usage", torch.zeros(levels, positions, num_codes))

    @property
    def shape(self) -> CodeShape:
        return CodeShape(self.tokens, self.levels, self.num_codes, self.per_position)

    def lookup(self, codes: Tensor) -> Tensor:
        """Vectors of codes, levels summed: [..., T, levels] int64 -> [..., T, D]."""
        return torch.stack([self.lookup_level(codes[..., level], level) for level in range(self.levels)]).sum(0)

    def lookup_level(self, codes: Tensor, level: int) -> Tensor:
        positions = torch.arange(self.tokens, device=codes.device) if self.per_position else 0
        return self.books[level, positions, codes]

    def encode(self, vectors: Tensor) -> Tensor:
        return self.quantize(vectors).codes

    def quantize(self, vectors: Tensor) -> Quantized:
        """Nearest codes, straight-through vectors and both losses of each level for [B, T, D]; paper, section 3.2."""
        residual = vectors.float()
        total, loss = torch.zeros_like(residual), residual.new_zeros(())
        codes, residuals = [], []
        for level in range(self.levels):
            index = nearest(residual, self.books[level])
            hard = self.lookup_level(index, level)
            loss = loss + functional.mse_loss(hard, residual.detach())
            loss = loss + self.commitment * functional.mse_loss(residual, hard.detach())
            codes.append(index)
            residuals.append(residual.detach())
            total = total + hard.detach()
            residual = residual - hard.detach()
        through = vectors + (total - vectors).detach()
        return Quantized(through, torch.stack(codes, dim=-1), loss, torch.stack(residuals))

    @torch.no_grad()
    def update_usage(self, codes: Tensor) -> None:
        """U <- gamma u + (1 - gamma) n with n the counts of a batch's codes [B, T, levels] (paper, equation 1)."""
        self.usage.mul_(self.decay).add_(self.count(codes), alpha=1 - self.decay)

    def count(self, codes: Tensor) -> Tensor:
        """How often each code occurs in [B, T, levels]: [levels, positions, num_codes], float."""
        one_hot = functional.one_hot(codes, self.num_codes).to(self.usage.dtype)  # [B, T, levels, N_c]
        by_position = one_hot.sum(0).transpose(0, 1)  # [levels, T, N_c]
        return by_position if self.per_position else by_position.sum(1, keepdim=True)

    @torch.no_grad()
    def reset_dead(self, residuals: Tensor, generator: torch.Generator | None = None) -> int:
        """Set dead codes to distinct vectors of `residuals` [levels, B, T, D] and the mean usage (paper, equation 2).

        Returns how many were reset: per book, at most as many as it has vectors. `generator` is a CPU generator.
        """
        count = 0
        for level in range(self.levels):
            for position in range(self.books.shape[1]):
                vectors = residuals[level, :, position] if self.per_position else residuals[level].flatten(0, 1)
                usage = self.usage[level, position]
                dead = (usage < self.dead_threshold).nonzero().flatten()
                chosen = torch.randperm(len(vectors), generator=generator)[: len(dead)].to(vectors.device)
                dead = dead[: len(chosen)]
                self.books[level, position, dead] = vectors[chosen].to(self.books.dtype)
                usage[dead] = usage.mean()
                count += len(dead)
        return count

    @torch.no_grad()
    def fit(self, vectors: Tensor) -> None:
        """Set the books to k-means centres of [N, T, D], level by level, and their usage to the clusters' sizes.

        Raises ValueError if there are fewer vectors for a book than codes in it.
        """
        residual = vectors.float()
        for level in range(self.levels):
            for position in range(self.books.shape[1]):
                points = residual[:, position] if self.per_position else residual.flatten(0, 1)
                centres, sizes = kmeans(points, self.num_codes)
                self.books[level, position] = centres.to(self.books.dtype)
                # Sizes sum to T: on a batch's scale, new usage would take 1 / (1 - gamma) steps to matter.
                self.usage[level, position] = sizes / len(vectors)
            residual = residual - self.lookup_level(nearest(residual, self.books[level]), level)

    def perplexity(self) -> float:
        """Effective number of codes in use, the mean over books (paper, section 4.4.4)."""
        return float(perplexity(self.usage.cpu().numpy()).mean())

    def dead_codes(self) -> int:
        return int((self.usage < self.dead_threshold).sum())


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
