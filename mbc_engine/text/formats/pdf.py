"""PDF: the text of the pages that have any."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from mbc_engine.text.decoding import ByteStream
from mbc_engine.text.document import Content, UnreadableFile, damage_is_unreadable, day_of_moment

if TYPE_CHECKING:
    from pypdf import PdfReader

MOST_BYTES = 512 << 20
# A line of at least this share of the page's longest is full: broken by the margin, not by the writer.
_FULL = 0.7


def read_pdf(stream: ByteStream) -> Iterator[Content]:
    """The document without its damaged pages; raises UnreadableFile at the end if there are any."""
    data = stream.read_all(MOST_BYTES)
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    with _quiet_log(), damage_is_unreadable():
        try:
            reader = PdfReader(io.BytesIO(data))
            if reader.is_encrypted and not reader.decrypt(""):
                raise UnreadableFile("is password-protected")
            num_pages = len(reader.pages)
        except DependencyError as error:
            raise UnreadableFile("uses an encryption that is not supported") from error
        texts = [_page_text(reader, number) for number in range(num_pages)]
        date = _pdf_date(reader)
    pages = [text for text in texts if text is not None]
    text = "\n\n".join(page for page in pages if page)
    if pages and not text:
        raise UnreadableFile("has no text; it may be a scan")
    if pages:
        yield Content(text, data, date)
    if damaged := num_pages - len(pages):
        raise UnreadableFile(f"is damaged: {damaged} of {num_pages} pages cannot be read")


def _page_text(reader: "PdfReader", number: int) -> str | None:
    with suppress(OSError, UnreadableFile), damage_is_unreadable():
        return _unwrapped(reader.pages[number].extract_text())
    return None


def _pdf_date(reader: "PdfReader") -> str | None:
    with suppress(OSError, UnreadableFile), damage_is_unreadable():
        return day_of_moment(reader.metadata.creation_date) if reader.metadata else None
    return None


def _unwrapped(page: str) -> str:
    """Join each full line of a page with the next, so that line breaks do not end sentences."""
    lines = [line.strip() for line in page.splitlines()]
    full = _FULL * max(map(len, lines), default=0)
    written: list[str] = []
    for line, following in zip(lines, [*lines, ""][1:], strict=True):
        runs_on = len(line) >= full and bool(line) and bool(following)
        if runs_on and line.endswith("-") and line[-2:-1].isalpha() and following[0].islower():
            written.append(line[:-1])
        else:
            written += (line, " " if runs_on else "\n")
    return "".join(written).strip()


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Silence pypdf, which logs every oddity that it works around."""
    logger = logging.getLogger("pypdf")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
