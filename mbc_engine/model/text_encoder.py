"""One side of a model: an amortizer with its tokenizer, texts to T vectors each."""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from mbc_engine.model.amortizer import Amortizer, mean_pooled
from mbc_engine.model.chunker import Chunker
from mbc_engine.model.padded_batches import padded_batches

# About a thousand tokens: more of them at once outgrow a CPU's caches, and bring more padding.
_CPU_CHARACTERS: Final = 4096


class TextEncoder(nn.Module):
    """An amortizer with its tokenizer: texts -> T vectors each.

    Args:
        amortizer: g_amort or g_input.
        tokenizer: of the amortizer's encoder.
        window: longest text in tokens, special tokens included.
        packed_from: what packed weights of the encoder were made from; None if it has none.
    """

    def __init__(
        self, amortizer: Amortizer, tokenizer: PreTrainedTokenizerBase, window: int, packed_from: str | None = None
    ) -> None:
        super().__init__()
        self.amortizer = amortizer
        self.tokenizer = tokenizer
        self.window = window
        self.packed_from = packed_from

    @property
    def is_frozen(self) -> bool:
        """Whether the pretrained encoder stays as it is."""
        return not any(parameter.requires_grad for parameter in self.amortizer.pretrained.parameters())

    def tokenize(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Ids and mask [B, S], padded to the longest text; a text longer than the window is cut."""
        device = next(self.amortizer.parameters()).device
        batch = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.window, return_tensors="pt"
        ).to(device)
        return batch["input_ids"], batch["attention_mask"]

    @cached_property
    def chunker(self) -> Chunker:
        """What cuts texts to the window."""
        capacity = self.window - self.tokenizer.num_special_tokens_to_add()
        return Chunker(self.tokenizer.backend_tokenizer, capacity)

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Phi of texts, [B, T, D]."""
        vectors: Tensor = self.amortizer(*self.tokenize(texts))
        return vectors

    def batches(self, texts: Sequence[str], size: int) -> Iterator[list[int]]:
        """Indices of texts to encode together, at most `size`; on a CPU fewer where they are long."""
        device = next(self.amortizer.parameters()).device
        longest = _CPU_CHARACTERS if device.type == "cpu" else math.inf
        return padded_batches(list(map(len, texts)), size=size, longest=longest)

    @torch.no_grad()
    def sentence_vectors(self, texts: Sequence[str], *, batch_size: int = 32) -> Tensor:
        """Unit vectors of sentences, the mean of the encoder's token states: [B, E]."""
        encoder = self.amortizer.pretrained
        vectors = torch.empty(len(texts), encoder.config.hidden_size, dtype=encoder.dtype, device=encoder.device)
        for chosen in self.batches(texts, batch_size):
            ids, mask = self.tokenize([texts[index] for index in chosen])
            vectors[chosen] = mean_pooled(self.amortizer.contextualise(ids, mask), mask)
        return vectors
