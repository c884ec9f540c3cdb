"""HTML: title and visible text, with a break where a browser makes one."""

import codecs
import re
from collections.abc import Iterator, Mapping

from mbc_engine.text.decoding import ByteStream, decode, detect
from mbc_engine.text.document import (
    CELL,
    LINE,
    PARAGRAPH,
    Content,
    damage_is_unreadable,
    day_of,
    lay_out,
    with_title,
)

MOST_HTML_BYTES = 64 << 20

_PARAGRAPHS = (
    "address article aside blockquote body caption details div dl fieldset figcaption figure footer form h1 h2 h3 h4 "
    "h5 h6 header hr main ol p pre section summary table ul"
)
_HTML_BREAKS = {
    **dict.fromkeys(_PARAGRAPHS.split(), PARAGRAPH),
    **dict.fromkeys(("br", "dd", "dt", "legend", "li", "tr"), LINE),
    **dict.fromkeys(("td", "th"), CELL),
}
_HTML_LEFT_OUT = frozenset(
    ("button", "canvas", "iframe", "nav", "noscript", "object", "script", "select", "style", "svg", "template")
)
# The names, properties and item properties of meta elements with a date, the most specific first.
_DATES = (
    *("article:published_time", "datepublished", "citation_publication_date", "citation_date", "dc.date.issued"),
    *("dcterms.issued", "dcterms.created", "dc.date.created", "dc.date", "dcterms.date", "pubdate", "publish-date"),
    *("date", "datecreated", "article:modified_time", "datemodified", "last-modified"),
)
_DECLARED = re.compile(
    rb"""<(?:meta\b[^>]{0,500}?charset|\?xml\b[^>]{0,500}?encoding)\s*=\s*["']?\s*([\w.:-]{2,40})""", re.IGNORECASE
)
# What browsers decode these names as (WHATWG Encoding).
_MEANT = {
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "iso8859-9": "cp1254",
    "utf-16": "utf-8",
}
_TRUSTED = re.compile(
    r"utf-8|cp125\d|cp866|cp874|cp932|cp949|iso8859-\d+|koi8-[ru]|mac-\w+|gb18030|big5|euc_jp|iso2022_jp"
)


def read_html(stream: ByteStream) -> Iterator[Content]:
    """The page as one document, dated by its meta or time elements."""
    data = stream.read_all(MOST_HTML_BYTES)
    from lxml import etree

    page = _Page()
    if text := _decoded(data).strip():
        with damage_is_unreadable():
            parser = etree.HTMLParser(target=page, encoding="utf-8", huge_tree=True)
            etree.fromstring(text.encode(), parser)
    yield Content(page.text(), data, page.date())


class _Page:
    """Target of lxml's parser. A tree would take fifty times the memory, and end at the first `</html>`."""

    def __init__(self) -> None:
        self._pieces: list[str | int] = []
        self._title: list[str] = []
        self._dates: dict[str, str] = {}
        self._left_out = self._titles = self._preformatted = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._count(tag, 1)
        if tag in _HTML_BREAKS:
            self._pieces.append(_HTML_BREAKS[tag])
        elif tag == "meta":
            name = attributes.get("property") or attributes.get("name") or attributes.get("itemprop") or ""
            self._dates.setdefault(name.lower(), attributes.get("content", ""))
        elif tag == "time" and not self._left_out:
            self._dates.setdefault("<time>", attributes.get("datetime", ""))

    def end(self, tag: str) -> None:
        self._count(tag, -1)
        if tag in _HTML_BREAKS:
            self._pieces.append(_HTML_BREAKS[tag])

    def data(self, text: str) -> None:
        if self._left_out:
            return
        if self._titles:
            self._title.append(text)
        elif self._preformatted:
            for line in text.splitlines(keepends=True):
                self._pieces += (line, LINE) if line.endswith("\n") else (line,)
        else:
            self._pieces.append(text)

    def close(self) -> None: ...

    def _count(self, tag: str, step: int) -> None:
        self._left_out += step * (tag in _HTML_LEFT_OUT)
        self._titles += step * (tag == "title")
        self._preformatted += step * (tag == "pre")

    def text(self) -> str:
        return with_title(lay_out(self._title), lay_out(self._pieces))

    def date(self) -> str | None:
        days = (day_of(self._dates.get(name)) for name in (*_DATES, "<time>"))
        return next((day for day in days if day), None)


def _decoded(data: bytes) -> str:
    encoding = detect(data, is_whole=True)
    # If the bytes are UTF-8, any other declaration is wrong; ASCII may be Japan's seven-bit ISO-2022-JP.
    if not encoding.startswith("utf"):
        encoding = _declared(data[:4096]) or encoding
    return decode(data, encoding).removeprefix("\ufeff")


def _declared(head: bytes) -> str | None:
    match = _DECLARED.search(head)
    try:
        name = codecs.lookup(match[1].decode("ascii")).name if match else ""
    except (LookupError, ValueError):
        return None
    name = _MEANT.get(name, name)
    # Python also has codecs that no page uses, and slow ones.
    return name if _TRUSTED.fullmatch(name) else None
