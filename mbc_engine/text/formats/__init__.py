"""The formats that can be read: one entry each, found by the suffix of a file's name."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from mbc_engine.text.decoding import ByteStream, split_suffixes
from mbc_engine.text.document import Content, Fields, Skipped, UnreadableFile
from mbc_engine.text.formats.markup import read_html, read_markdown, read_text
from mbc_engine.text.formats.office import read_docx, read_pdf
from mbc_engine.text.formats.rows import read_csv, read_jsonl


@dataclass(frozen=True)
class Format:
    """How to read a kind of file.

    Attributes:
        name: enters the digests, for the same bytes are other texts in other formats. A change of it makes every
            document of the format a new one.
        read: from bytes to contents, lazily. A row that is no document is `Skipped`, its number the source. Raises
            UnreadableFile if the file, or from some place on the rest of it, cannot be read.
        suffixes: of the files' names.
        may_be_compressed: whether a further suffix may name a compression.
    """

    name: str
    read: Callable[[ByteStream], Iterator[Content | Fields | Skipped]]
    suffixes: tuple[str, ...]
    may_be_compressed: bool = True


TEXT = Format("text", read_text, (".txt", ".text", ".log", ".rst", ".org", ".tex"))
FORMATS = (
    TEXT,
    Format("markdown", read_markdown, (".md", ".markdown")),
    Format("html", read_html, (".html", ".htm", ".xhtml")),
    Format("pdf", read_pdf, (".pdf",), may_be_compressed=False),
    Format("docx", read_docx, (".docx",), may_be_compressed=False),
    # One name: a row is the same document wherever it stands.
    Format("row", read_jsonl, (".jsonl", ".ndjson")),
    Format("row", read_csv, (".csv", ".tsv")),
)
SUFFIXES: Mapping[str, Format] = {suffix: format for format in FORMATS for suffix in format.suffixes}


def format_of(name: str) -> tuple[Format, str]:
    """The format that a file's name promises, and the suffix of its compression or ""; UnreadableFile if none."""
    suffix, compression = split_suffixes(name)
    format = SUFFIXES.get(suffix)
    if format is None or (compression and not format.may_be_compressed):
        promised = suffix + compression
        raise UnreadableFile(f"is a {promised} file, a format that is not supported" if promised else "has no suffix")
    return format, compression
