"""Texts into chunks that fit an encoder's window, in whatever process they are read: without torch."""

from dataclasses import dataclass

from tokenizers import Tokenizer

from mbc_engine.documents.chunks import Chunk, chunk


@dataclass(frozen=True)
class Chunker:
    """Cuts texts by an encoder's own tokens.

    Attributes:
        tokenizer: the encoder's; may be the one it uses itself.
        capacity: tokens of text that fit the window beside the special tokens.
    """

    tokenizer: Tokenizer
    capacity: int

    def __call__(self, text: str) -> list[str]:
        """The texts of a text's chunks."""
        return [own.text for own in self.chunks(text)]

    def chunks(self, text: str) -> list[Chunk]:
        """The chunks of a text; see `documents.chunk`."""
        return chunk(text, self.token_counts, self.capacity)

    def token_counts(self, texts: list[str]) -> list[int]:
        """Tokens of each text, special tokens not counted."""
        # Said each time: the encoder's side says what it wants before each of its own uses.
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        return [len(encoding) for encoding in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
