"""What a document is to the engine: a text with a source, and the chunks of it that fit the encoder."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Document:
    """A text to remember.

    Attributes:
        source: where it came from; an absolute path for files.
        text: the whole text.
        digest: SHA-256 of the bytes it was read from, hexadecimal.
        size: how many bytes these were.
        date: when it was written, ISO 8601, or None when unknown.
    """

    source: str
    text: str
    digest: str
    size: int
    date: str | None = None
