"""Routing: a question's vectors score every document by the document's own codes.

The score of a document is the sum over positions and levels of ⟨W h_t(question), E_{c_t}⟩: with the products of a
question with all codes in a table, a document costs T·levels look-ups. The bank is a product-quantised index of its
documents, for free.
"""

import math

import torch
from torch import Tensor, nn

from mbc_engine.model.codebook import Codebook


class Router(nn.Module):
    """W and a learned temperature.

    Args:
        dim: D.
        scale: the first temperature; scores are means over positions times this.
    """

    def __init__(self, dim: int, *, scale: float = 10.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(dim))
        self.log_scale = nn.Parameter(torch.tensor(math.log(scale)))

    def project(self, question: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D], temperature included: a score is the plain sum of products with it."""
        tokens, dim = question.shape[1:]
        return question @ self.weight * (self.log_scale.exp() / (tokens * dim))

    def scores(self, question: Tensor, documents: Tensor) -> Tensor:
        """Score of each of N documents for each question: [B, T, D], [N, T, D] -> [B, N]; the dense way."""
        return torch.einsum("btd,ntd->bn", self.project(question), documents)

    def tables(self, question: Tensor, codebook: Codebook) -> Tensor:
        """Each question's product with each code: [B, T, D] -> [B, T, levels, num_codes]."""
        books = codebook.books.expand(-1, codebook.tokens, -1, -1)
        return torch.einsum("btd,ltjd->btlj", self.project(question), books)
