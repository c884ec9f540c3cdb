"""Where a chunk is found: its address, a few codes by which a question scores it.

Product quantisation (Jégou, Douze and Schmid, 2011) of a frozen encoder's sentence vectors, centred and turned so that
every position has an even share of what tells texts apart. Two things are added to the plain sum of products with the
books, and the score of a chunk stays a sum of look-ups:

- *Length.* Codes make some vectors shorter than others, by chance. A cosine would divide by the length; the tables take
  off a share of its square instead.
- *Whitening.* The chunks of one bank differ less in some directions than texts at large do, and a question is about what
  tells its chunk from the others. The covariance of the bank's own codes says which directions those are.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from mbc_engine.paper.codebook import kmeans

# Chosen on questions to six articles that neither the books nor `squad_val` come from.
LENGTH_SHARE = 0.25
WHITENING = 0.2
# A bank's spread counts as if it had this many more chunks of ordinary texts.
ORDINARY_CHUNKS = 128
# This many chunks of a bank say what its spread is.
SEEN_CHUNKS = 8192


class Address(nn.Module):
    """Addresses of documents, and what their codes are worth to questions.

    `fit` sets everything but the scale, in closed form and by k-means: gradients won nothing more (`docs/mini.md`).

    Args:
        width: E, of the encoder.
        tokens: codes of an address.
        dim: width of their vectors.
        num_codes: codes in a book.
    """

    spread: Tensor

    def __init__(self, width: int, *, tokens: int = 24, dim: int = 8, num_codes: int = 512) -> None:
        super().__init__()
        self.tokens, self.dim, self.num_codes = tokens, dim, num_codes
        self.basis = nn.Parameter(torch.randn(tokens * dim, width) * width**-0.5)
        self.document_mean = nn.Parameter(torch.zeros(width))
        self.question_mean = nn.Parameter(torch.zeros(width))
        self.books = nn.Parameter(torch.randn(tokens, num_codes, dim) * (tokens * dim) ** -0.5)
        self.log_scale = nn.Parameter(torch.tensor(math.log(20.0)))
        self.register_buffer("spread", torch.ones(tokens * dim))

    def of_documents(self, sentence_vectors: Tensor) -> Tensor:
        """Vectors of documents, to be encoded, from unit sentence vectors [B, E]: [B, tokens, dim]."""
        return self._turned(sentence_vectors - self.document_mean)

    def of_questions(self, sentence_vectors: Tensor) -> Tensor:
        """Vectors of questions, for `tables`, from unit sentence vectors [B, E]: [B, tokens, dim]."""
        return self._turned(sentence_vectors - self.question_mean)

    def _turned(self, centred: Tensor) -> Tensor:
        turned: Tensor = functional.linear(centred, self.basis)
        return turned.view(*turned.shape[:-1], self.tokens, self.dim)

    def encode(self, vectors: Tensor) -> Tensor:
        """Index of the nearest code at every position: [B, tokens, dim] -> [B, tokens] int64; the lowest wins a tie."""
        books = self.books.detach().float()
        # Full precision also inside autocast: a chunk must get the same address everywhere.
        with torch.autocast(vectors.device.type, enabled=False):
            products = torch.einsum("btd,tjd->btj", vectors.detach().float(), books)
        return (books.square().sum(-1) - 2 * products).argmin(-1)

    def lookup(self, codes: Tensor) -> Tensor:
        """Vectors of codes, [..., tokens] int64 -> [..., tokens, dim]."""
        vectors: Tensor = self.books[torch.arange(self.tokens, device=codes.device), codes]
        return vectors

    def tables(self, questions: Tensor, whitening: Tensor | None = None) -> Tensor:
        """What each code is worth to each question; summed over positions, a log-probability up to a constant.

        Args:
            questions: [B, tokens, dim].
            whitening: what `whitening` made of a bank's codes; None scores without regard to the bank.

        Returns:
            [B, tokens, num_codes].
        """
        flat = questions.flatten(1)
        unit = functional.normalize(flat if whitening is None else flat @ whitening, dim=-1).view_as(questions)
        products = torch.einsum("btd,tjd->btj", unit, self.books)
        worths: Tensor = (products - LENGTH_SHARE * self.books.square().sum(-1)) * self.log_scale.exp()
        return worths

    @torch.no_grad()
    def whitening(self, codes: Tensor) -> Tensor:
        """What questions to a bank with these codes are multiplied by, [N, tokens] -> [tokens * dim, tokens * dim].

        A power of the covariance of the bank's chunks; without chunks, that of texts at large.
        """
        seen = codes[:: max(1, math.ceil(len(codes) / SEEN_CHUNKS))]
        vectors = self.lookup(seen).flatten(1).float()
        away = vectors - vectors.sum(0) / max(1, len(vectors))
        covariance = away.T @ away + ORDINARY_CHUNKS * torch.diag(self.spread.float())
        values, directions = torch.linalg.eigh(covariance / (len(seen) + ORDINARY_CHUNKS))
        matrix: Tensor = (directions * values**-WHITENING) @ directions.T
        return matrix

    @torch.no_grad()
    def fit(self, documents: Tensor, questions: Tensor, *, iterations: int = 20) -> None:
        """Set means, basis, spread and books by unit sentence vectors of documents [N, E] and questions [M, E].

        Raises:
            ValueError: there are fewer documents than codes in a book.
        """
        self.document_mean.copy_(documents.mean(0))
        self.question_mean.copy_(questions.mean(0))
        centred = documents - self.document_mean
        values, directions = torch.linalg.eigh((centred.T @ centred / len(centred)).double())
        size = self.tokens * self.dim
        values, directions = values.flip(0)[:size].clamp_min(1e-12), directions.flip(1)[:, :size]
        order = torch.tensor(_evenly(values.log().tolist(), self.tokens), device=values.device)
        self.basis.copy_(directions[:, order].T)
        self.spread.copy_(values[order])
        vectors = self.of_documents(documents)
        for position in range(self.tokens):
            self.books[position] = kmeans(vectors[:, position], self.num_codes, iterations=iterations).centres


def _evenly(sizes: list[float], groups: int) -> list[int]:
    """Indices of descending sizes, group by group, so that groups are equal in number and nearly in sum."""
    lowest = sizes[-1]
    members: list[list[int]] = [[] for _ in range(groups)]
    sums = [0.0] * groups
    for index, size in enumerate(sizes):
        group = min((g for g in range(groups) if len(members[g]) < len(sizes) // groups), key=sums.__getitem__)
        members[group].append(index)
        sums[group] += size - lowest
    return [index for group in members for index in group]
