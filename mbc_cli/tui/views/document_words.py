"""Documents in words: what the bank knows of one, what it is called, and how many were found."""

from typing import Final

from rich.text import Text

from mbc_cli.text import counted, near, size
from mbc_cli.tui.jobs.documents import Found
from mbc_engine.bank import CodeShape, FoundDocument, StoredDocument, origin_name

# Of a document that was read in many places, so many are named.
_ORIGINS: Final = 3


def document_facts(document: StoredDocument, shape: CodeShape) -> list[tuple[str, str | Text]]:
    """What the bank knows of a document beside its codes."""
    facts: list[tuple[str, str | Text]] = []
    for number, origin in enumerate(document.origins[:_ORIGINS]):
        date = f", {origin.date}" if origin.date else ""
        facts.append(("" if number else "read from", f"{near(origin.name)}{date}"))
    if (more := len(document.origins) - _ORIGINS) > 0:
        facts.append(("", f"and {counted(more, 'other place')}"))
    codes = size(-(-document.chunks * shape.bits_per_chunk // 8))
    read = "" if document.size is None else f" of {size(document.size)}"
    facts.append(("holds", f"{counted(document.chunks, 'chunk')}{read}, {codes} of codes"))
    facts.append(("digest", document.digest))
    return facts


def name_of(found: FoundDocument) -> str:
    """What it is called in a sentence."""
    name = origin_name(found.source, found.part)
    return near(name) if name else found.digest


def count_of(found: Found) -> str:
    """How many were found, and how many of them are shown."""
    shown, matches = len(found.rows), found.matches
    if not found.is_done:
        return f"{matches:,} so far"
    return f"{shown:,} of {matches:,} shown" if shown < matches else f"{matches:,} found"
