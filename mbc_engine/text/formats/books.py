"""EPUB: the chapters of a book in reading order, each read as the page it is."""

import posixpath
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote

from lxml.etree import _Element as Element

from mbc_engine.text.decoding import ByteStream, stream_of
from mbc_engine.text.document import Content, TextBuilder, UnreadableFile, damage_is_unreadable, day_of
from mbc_engine.text.formats.archives import Archive, local_name, read_archive
from mbc_engine.text.formats.html import read_html

_PAGES: Final = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")


def read_epub(stream: ByteStream) -> Iterator[Content]:
    """The book, dated by its date of publication; chapters that do not name themselves have the contents' titles."""
    with damage_is_unreadable():
        data, archive = read_archive(stream)
        container = archive.xml("META-INF/container.xml")
        path = next((file.get("full-path", "") for file in container.iter("{*}rootfile")), "")
        package = archive.xml(path)
        files = {item.get("id"): (_member(path, item.get("href", "")), item) for item in package.iter("{*}item")}
        titles = dict(_titles(archive, files.values()))
        written = [(local_name(element), " ".join((element.text or "").split())) for element in package.iter()]
        title = next((text for name, text in written if name == "title" and text), "")
        authors = ", ".join(text for name, text in written if name == "creator" and text)
        builder = TextBuilder()
        builder.add(f"{title} by {authors}" if title and authors else "")
        protected = archive.read("META-INF/encryption.xml") if "META-INF/encryption.xml" in archive.names else b""
        for reference in package.iter("{*}itemref"):
            name, item = files.pop(reference.get("idref"), ("", None))  # each is read once
            if item is None or item.get("media-type") not in _PAGES or name not in archive.names:
                continue
            if name.encode() in protected:
                raise UnreadableFile("is copy-protected")
            page = next(read_html(stream_of(archive.read(name))))
            builder.heading(1, titles.get(name, ""), is_shown=False)
            builder.include(page.text, page.sections)
    date = next((day for name, text in written if name == "date" and (day := day_of(text))), None)
    yield builder.content(data, date, title=title)


def _titles(archive: Archive, files: Iterable[tuple[str, Element]]) -> Iterator[tuple[str, str]]:
    """The titles of chapters by their files, from the table of contents of either version of EPUB."""
    for path, item in files:
        is_contents = item.get("media-type") == "application/x-dtbncx+xml" or "nav" in (item.get("properties") or "")
        if not is_contents or path not in archive.names:
            continue
        label = ""
        for element in archive.xml(path).iter():
            if local_name(element) == "text":
                label = "".join(element.itertext())
            elif local_name(element) in ("content", "a") and (target := element.get("src") or element.get("href")):
                title = "".join(element.itertext()) or label
                if "#" not in target:
                    yield _member(path, target), " ".join(title.split())


def _member(base: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), unquote(target.partition("#")[0])))
