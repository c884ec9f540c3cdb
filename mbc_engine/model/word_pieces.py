"""A text as the base LM's word pieces, each with the encoder's state at its place.

The encoder reads a text in tokens of its own; a piece's state is the mean over the tokens that share a character with
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Pieces:
    """The word pieces of texts, and the encoder's tokens at the place of each.

    Attributes:
        ids: numbers in the base LM's vocabulary, [B, P]; 0 where a text has no more pieces.
        mask: where there is one, [B, P] bool.
        first, last: the encoder's tokens that each shares characters with, [B, P].
        spans: where each stands in its text without the space before it, [B, P, 2] characters.
    """

    ids: Tensor
    mask: Tensor
    first: Tensor
    last: Tensor
    spans: Tensor

    def states(self, tokens: Tensor) -> Tensor:
        """The pieces' states from those of the encoder's tokens: [B, S, E] -> [B, P, E]."""
        sums = torch.nn.functional.pad(tokens.float().cumsum(1), (0, 0, 1, 0))
        width = tokens.shape[-1]
        end = sums.gather(1, (self.last + 1).unsqueeze(-1).expand(-1, -1, width))
        start = sums.gather(1, self.first.unsqueeze(-1).expand(-1, -1, width))
        return (end - start) / (self.last + 1 - self.first).unsqueeze(-1)


class PieceAligner:
    """Cuts texts into the base LM's pieces and finds the encoder's tokens for each.

    Args:
        base: the base LM's tokenizer, a fast one.
    """

    def __init__(self, base: PreTrainedTokenizerBase) -> None:
        self._base = base.backend_tokenizer

    def __call__(self, texts: Sequence[str], offsets: Tensor) -> Pieces:
        """The pieces of texts whose characters the encoder's tokens cover; what it does not read is left out.

        Args:
            texts: the texts.
            offsets: first character and end of the encoder's tokens, [B, S, 2]; alike for one without characters.
        """
        # Said each time: a tokenizer stays as whoever used it last wanted it.
        self._base.no_truncation()
        self._base.encode_special_tokens = True  # "<|endoftext|>" in a document is text, as it is to the base LM
        cuts = self._base.encode_batch(list(texts), add_special_tokens=False)
        rows = [
            _aligned(text, tokens, cut.ids, cut.offsets)
            for text, tokens, cut in zip(texts, offsets.tolist(), cuts, strict=True)
        ]
        longest = max((len(row) for row in rows), default=0) or 1
        table = torch.zeros(len(rows), longest, 5, dtype=torch.int64)
        mask = torch.zeros(len(rows), longest, dtype=torch.bool)
        for number, row in enumerate(rows):
            if row:
                table[number, : len(row)] = torch.tensor(row)
                mask[number, : len(row)] = True
        table, mask = table.to(offsets.device), mask.to(offsets.device)
        return Pieces(table[..., 0], mask, table[..., 1], table[..., 2], table[..., 3:])


def _aligned(
    text: str, tokens: Sequence[Sequence[int]], ids: Sequence[int], offsets: Sequence[tuple[int, int]]
) -> list[tuple[int, int, int, int, int]]:
    """Of each piece with a character that a token has too: its number, the first and last such token, and its span."""
    covering = [(place, start, end) for place, (start, end) in enumerate(tokens) if start < end]
    found, at = [], 0
    for number, (first, end) in zip(ids, offsets, strict=True):
        start = next((place for place in range(first, end) if not text[place].isspace()), end)
        while at < len(covering) and covering[at][2] <= start:
            at += 1
        last = at
        while last < len(covering) and covering[last][1] < end:
            last += 1
        if start < end and last > at:
            found.append((number, covering[at][0], covering[last - 1][0], start, end))
    return found
