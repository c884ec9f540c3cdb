"""A codebook of words: a chunk is remembered as its address and as the words in it likeliest to be asked for.

A word is a piece of the base LM's vocabulary, which is a codebook already, and the role it plays in its text, one of a
few learned ones and a shade of it. Codes stay numbers below `num_codes`: a piece takes one and a half of them, its role
the other half of the second, the shade a third. What a question reads are the words, as vectors that have seen each
other; the address (`address.py`) only says which chunks it reads.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from mbc_engine.config import CODES_OF_A_WORD
from mbc_engine.model.address import Address


@dataclass(frozen=True)
class Roles:
    """What words are in their texts: one of a few roles, and its shade, which codes what the role leaves over.

    Attributes:
        role, shade: [..., W] int64.
    """

    role: Tensor
    shade: Tensor


@dataclass(frozen=True)
class WordQuantized:
    """What the codebook makes of a batch.

    Attributes:
        rows: what is read of each chunk, [B, W, D], with gradients to what its roles are told by.
        roles: of its words.
        loss: of the roles, a scalar, as in `Codebook`.
    """

    rows: Tensor
    roles: Roles
    loss: Tensor


class WordCodebook(nn.Module):
    """Words and addresses to codes, and codes to the rows that questions read.

    Args:
        vocabulary: the base LM's embedding of its V pieces, D wide; not a part of this module.
        address: how chunks are found, with books of its own.
        words: W, words of a chunk.
        role_dim: width of the vector that a role is told by.
        heads: attention heads of the layer that lets a chunk's words see each other.
        num_codes: N_c.
        commitment: beta.

    Attributes:
        tokens: codes of a chunk: those of the address, then three for each word.
        rarity: how much a piece says by occurring in a chunk, from 0 for the most common ones to 1, [V].
    """

    levels, per_position, is_read_by_row = 1, True, False
    rarity: Tensor

    def __init__(
        self,
        vocabulary: nn.Embedding,
        address: Address,
        *,
        words: int,
        role_dim: int = 64,
        heads: int = 6,
        num_codes: int = 512,
        commitment: float = 0.25,
    ) -> None:
        super().__init__()
        dim = vocabulary.embedding_dim
        self._vocabulary = (vocabulary,)  # in a tuple, since it belongs to the base LM
        self.address = address
        self.num_codes, self.words, self.commitment = num_codes, words, commitment
        self.tokens = address.tokens + CODES_OF_A_WORD * words
        self.roles = num_codes // -(-vocabulary.num_embeddings // num_codes)
        self.role_book = nn.Parameter(torch.randn(self.roles, role_dim) * 0.5)
        self.shade_book = nn.Parameter(torch.randn(num_codes, role_dim) * 0.1)
        self.register_buffer("rarity", torch.zeros(vocabulary.num_embeddings))
        self.norm = nn.LayerNorm(dim)
        self.role = nn.Linear(role_dim, dim)
        self.before = nn.Linear(dim, dim, bias=False)
        nn.init.zeros_(self.before.weight)
        self.places = nn.Parameter(torch.randn(words, dim) * 0.02)
        self.context = nn.TransformerEncoderLayer(
            dim, heads, 2 * dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )

    @property
    def vocabulary(self) -> Tensor:
        """The pieces' vectors, [V, D]."""
        weight: Tensor = self._vocabulary[0].weight
        return weight

    @property
    def books(self) -> Tensor:
        """What a bank keeps, [1, tokens, num_codes, width]: the vectors of addresses; words have none of their own."""
        return functional.pad(self.address.books, (0, 0, 0, 0, 0, CODES_OF_A_WORD * self.words)).unsqueeze(0)

    def code_shares(self, shares: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """What words have a share of as what all their codes have of it: [..., W] -> [..., tokens]."""
        of_words = np.repeat(shares, CODES_OF_A_WORD, axis=-1)
        return np.concatenate([np.zeros((*shares.shape[:-1], self.address.tokens), shares.dtype), of_words], axis=-1)

    def nearest(self, contexts: Tensor) -> Roles:
        """The role of each word and its shade by the vector of its context, [..., role_dim]."""
        # Full precision also inside autocast: a code must be the same in training and in a bank.
        with torch.autocast(contexts.device.type, enabled=False):
            exact = contexts.detach().float()
            role = _nearest(self.role_book, exact)
            shade = _nearest(self.shade_book, exact - self.role_book.detach().float()[role])
        return Roles(role, shade)

    def quantize(self, pieces: Tensor, contexts: Tensor) -> WordQuantized:
        """The roles and rows of words.

        Args:
            pieces: [B, W] int64.
            contexts: what their roles are told by, [B, W, role_dim].
        """
        roles = self.nearest(contexts)
        coarse, rest = self.role_book[roles.role], self.shade_book[roles.shade]
        hard = (coarse + rest).detach()
        loss = functional.mse_loss(coarse, contexts.detach())
        loss = loss + functional.mse_loss(rest, (contexts - coarse).detach())
        loss = loss + self.commitment * functional.mse_loss(contexts, hard)
        return WordQuantized(self._rows(pieces, contexts + (hard - contexts).detach()), roles, loss)

    def join(self, pieces: Tensor, roles: Roles, address: Tensor) -> Tensor:
        """Codes of words and addresses: [..., W], as many roles, [..., address] -> [..., tokens, 1]."""
        high = pieces // self.num_codes * self.roles + roles.role
        of_words = torch.stack([pieces % self.num_codes, high, roles.shade], dim=-1).flatten(-2)
        return torch.cat([address, of_words], dim=-1).unsqueeze(-1)

    def split(self, codes: Tensor) -> tuple[Tensor, Roles, Tensor]:
        """The inverse of `join`: pieces [..., W], their roles, addresses [..., address].

        Numbers that no `join` gives, as in a bank spoilt on purpose, name some piece and some role all the same.
        """
        flat = codes.squeeze(-1)
        address, of_words = flat[..., : self.address.tokens], flat[..., self.address.tokens :]
        low, high, shade = of_words.unflatten(-1, (-1, CODES_OF_A_WORD)).unbind(-1)
        pieces = high // self.roles * self.num_codes + low
        return pieces.clamp_max(len(self.vocabulary) - 1), Roles(high % self.roles, shade), address

    def lookup(self, codes: Tensor) -> Tensor:
        """What is read of chunks: [..., tokens, 1] int64 -> [..., W, D]."""
        pieces, roles, _ = self.split(codes)
        contexts = self.role_book[roles.role] + self.shade_book[roles.shade]
        rows: Tensor = self._rows(pieces.flatten(0, -2), contexts.flatten(0, -3)).unflatten(0, pieces.shape[:-1])
        return rows

    def _rows(self, pieces: Tensor, contexts: Tensor) -> Tensor:
        named = self.norm(functional.embedding(pieces, self.vocabulary))
        before = functional.pad(named, (0, 0, 1, 0))[..., :-1, :]
        rows: Tensor = self.context(named + self.before(before) + self.role(contexts) + self.places)
        return rows


def _nearest(book: Tensor, vectors: Tensor) -> Tensor:
    """Index of the nearest vector of a book [N, width] for each of [..., width]; the lowest wins a tie."""
    exact = book.detach().float()
    return (exact.square().sum(-1) - 2 * vectors @ exact.T).argmin(-1)
