"""What a document is to the engine: a text to remember, where it came from and what identifies it."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Document:
    """A text to remember.

    Attributes:
        source: where it came from: the absolute path of a file, links resolved; "stdin:" and 12 hexadecimal digits
            for a text from standard input.
        part: "" when the document is all of its source; else what no other document of the source has: the id or
            number of a row, the number (from 1) of a piece of a long text, or `row 12, part 3` for a piece of a long
            row.
        text: the whole text, never blank, always valid UTF-8 without NUL.
        digest: SHA-256, hexadecimal, of the name of the format, a zero byte and the bytes it was read from, after
            decompression; of a piece, of what decides its text. Two documents with the same digest have the same text.
        size: how many bytes these were.
        date: the day it was written, ISO 8601: as it says itself, else the day its file was last modified (UTC);
            None when unknown.
        position: about how many bytes of the file, as it is on the disk, go up to the document's end; 0 for standard
            input.
    """

    source: str
    part: str
    text: str
    digest: str
    size: int
    date: str | None = None
    position: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Skipped:
    """What was not read, and why.

    Attributes:
        source: a file or folder; for one row of a file, `path#row`.
        reason: worded to follow the name.
        is_whole: whether a file was read to its end nevertheless: there is nothing in it.
    """

    source: str
    reason: str
    is_whole: bool = False
