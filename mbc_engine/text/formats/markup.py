"""HTML (title and visible text, a break where a browser makes one), Markdown (no front matter, no comments), text."""

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from mbc_engine.text.decoding import ByteStream, decode, detect, pieces
from mbc_engine.text.document import (
    CELL,
    LINE,
    PARAGRAPH,
    Content,
    UnreadableFile,
    damage_is_unreadable,
    day_of,
    lay_out,
    with_title,
)

MOST_BYTES = 64 << 20

_PARAGRAPHS = (
    "address article aside blockquote body caption details div dl fieldset figcaption figure footer form h1 h2 h3 h4 "
    "h5 h6 header hr main ol p pre section summary table ul"
)
_BREAKS = {
    **dict.fromkeys(_PARAGRAPHS.split(), PARAGRAPH),
    **dict.fromkeys(("br", "dd", "dt", "legend", "li", "tr"), LINE),
    **dict.fromkeys(("td", "th"), CELL),
}
_LEFT_OUT = frozenset(
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
# What browsers take these names for (WHATWG Encoding).
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
    data = stream.read_whole(MOST_BYTES)
    from lxml import etree

    page = _Page()
    if text := _decoded(data).strip():
        with damage_is_unreadable():
            parser = etree.HTMLParser(target=page, encoding="utf-8", huge_tree=True)
            etree.fromstring(text.encode(), parser)
    yield Content(page.text(), data, page.date())


class _Page:
    """Called by lxml's parser. A tree would take fifty times the memory, and end at the first `</html>`."""

    def __init__(self) -> None:
        self._pieces: list[str | int] = []
        self._title: list[str] = []
        self._dates: dict[str, str] = {}
        self._left_out = self._titles = self._preformatted = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._count(tag, 1)
        if tag in _BREAKS:
            self._pieces.append(_BREAKS[tag])
        elif tag == "meta":
            name = attributes.get("property") or attributes.get("name") or attributes.get("itemprop") or ""
            self._dates.setdefault(name.lower(), attributes.get("content", ""))
        elif tag == "time" and not self._left_out:
            self._dates.setdefault("<time>", attributes.get("datetime", ""))

    def end(self, tag: str) -> None:
        self._count(tag, -1)
        if tag in _BREAKS:
            self._pieces.append(_BREAKS[tag])

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
        self._left_out += step * (tag in _LEFT_OUT)
        self._titles += step * (tag == "title")
        self._preformatted += step * (tag == "pre")

    def text(self) -> str:
        return with_title(lay_out(self._title), lay_out(self._pieces))

    def date(self) -> str | None:
        days = (day_of(self._dates.get(name)) for name in (*_DATES, "<time>"))
        return next((day for day in days if day), None)


def _decoded(data: bytes) -> str:
    encoding = detect(data, is_whole=True)
    # Where the bytes are UTF-8, any other declaration is wrong; ASCII may be the seven-bit code of Japan.
    if not encoding.startswith("utf"):
        encoding = _declared(data[:4096]) or encoding
    text = decode(data, encoding).removeprefix("\ufeff")
    if "\0" in text:
        raise UnreadableFile("looks binary")
    return text


def _declared(head: bytes) -> str | None:
    found = _DECLARED.search(head)
    try:
        name = codecs.lookup(found[1].decode("ascii")).name if found else ""
    except (LookupError, ValueError):
        return None
    name = _MEANT.get(name, name)
    # Python has codecs that no page is in, and slow ones.
    return name if _TRUSTED.fullmatch(name) else None


# After a first line of dashes, only a key makes front matter; else it is a horizontal rule.
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?=[\w-]+[ \t]*:)(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_DATE = re.compile(r"^date[ \t]*:[ \t]*([^\n#]+)", re.MULTILINE)


def read_markdown(stream: ByteStream) -> Iterator[Content]:
    """The text in pieces if it is long; all of them have the date of the front matter."""
    written: str | None = None
    for number, piece in enumerate(pieces(stream)):
        text = piece.text
        if number == 0 and (front_matter := _FRONT_MATTER.match(text)):
            text = text[front_matter.end() :]
            if found := _DATE.search(front_matter[1]):
                written = day_of(found[1].strip().strip("\"'"))
        yield replace(piece, text=_without_comments(text), date=written)


def _without_comments(text: str) -> str:
    # A regular expression would take quadratic time on many unclosed comments.
    kept, position = list[str](), 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        kept.append(text[position:start])
        position = end + 3
    return "".join([*kept, text[position:]])


def read_text(stream: ByteStream) -> Iterator[Content]:
    """The text as it stands, in pieces if it is long."""
    return pieces(stream)
