"""Texts into chunks that fit an encoder's window, in whatever process they are read: without torch."""

from dataclasses import dataclass, field
from typing import Any

from tokenizers import Tokenizer

from mbc_engine.documents.chunks import chunk


@dataclass
class Chunker:
    """Cuts texts by an encoder's own tokens.

    Attributes:
        tokenizer: the encoder's tokenizer as `tokenizers` writes it, JSON.
        capacity: tokens of text that fit the window beside the special tokens.
    """

    tokenizer: str
    capacity: int
    _loaded: Tokenizer | None = field(default=None, init=False, repr=False)

    def __call__(self, text: str) -> list[str]:
        """The chunks of a text; see `documents.chunk`."""
        return chunk(text, self.token_counts, self.capacity)

    def token_counts(self, texts: list[str]) -> list[int]:
        """Tokens of each text, special tokens not counted."""
        if self._loaded is None:
            self._loaded = Tokenizer.from_str(self.tokenizer)
            self._loaded.no_truncation()
            self._loaded.no_padding()
        return [len(encoding) for encoding in self._loaded.encode_batch_fast(texts, add_special_tokens=False)]

    def __getstate__(self) -> dict[str, Any]:
        return {"tokenizer": self.tokenizer, "capacity": self.capacity, "_loaded": None}
