"""Which words of a text are worth remembering: those that are likeliest to be asked for."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from mbc_engine.model.word_pieces import Pieces


class Salience(nn.Module):
    """How likely each piece of a text is to be part of an answer.

    Args:
        width: of the encoder's states.
        dim: of the base LM's embeddings.
        hidden: of the network.
    """

    def __init__(self, width: int, dim: int, *, hidden: int = 128) -> None:
        super().__init__()
        self.piece_norm = nn.LayerNorm(dim)
        self.network = nn.Sequential(nn.Linear(width + dim, hidden), nn.GELU(), nn.Linear(hidden, 1))

    def forward(self, states: Tensor, pieces: Tensor, vocabulary: Tensor) -> Tensor:
        """Log-odds of pieces: states [..., E], pieces [...], vocabulary [V, D] -> [...]."""
        vectors = self.piece_norm(functional.embedding(pieces, vocabulary.detach()))
        odds: Tensor = self.network(torch.cat([states, vectors], dim=-1)).squeeze(-1)
        return odds


def chosen(pieces: Pieces, odds: Tensor, count: int) -> Tensor:
    """Places of the `count` likeliest pieces of each text in its order, [B, count]; -1 where it has no more."""
    ranked = odds.masked_fill(~pieces.mask, -torch.inf)
    if ranked.shape[1] < count:
        ranked = functional.pad(ranked, (0, count - ranked.shape[1]), value=-torch.inf)
    best = ranked.topk(count, dim=1)
    beyond = ranked.shape[1]
    places = best.indices.masked_fill(best.values == -torch.inf, beyond).sort(dim=1).values
    return places.masked_fill(places == beyond, -1)
