"""HTML: what a browser shows of a page, as text with its headings; and also what opens at a click."""

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import takewhile
from typing import Final

from lxml import etree

from mbc_engine.text.decoding import ByteStream, decode, detect
from mbc_engine.text.document import Content, Heading, damage_is_unreadable, day_of, number_in, sections_of
from mbc_engine.text.tables import SpanningCell, spread_rows, table_lines

# Breaks between two texts, the weakest first, and how they are written.
_SPACE, _LINE, _PARAGRAPH = 1, 2, 3
_WRITTEN: Final = ("", " ", "\n", "\n\n")
_PARAGRAPHS: Final = (
    "address article aside blockquote body caption details div dl fieldset figcaption figure footer form h1 h2 h3 h4 "
    "h5 h6 header hr main ol p pre section summary table ul"
)
_BREAKS: Final = {
    **dict.fromkeys(_PARAGRAPHS.split(), _PARAGRAPH),
    **dict.fromkeys(("br", "button", "dt", "label", "legend", "li", "tr"), _LINE),
    **dict.fromkeys(("td", "th"), _SPACE),
}
_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_LEFT_OUT: Final = frozenset(
    ("canvas", "iframe", "nav", "noscript", "object", "rp", "rt", "script", "style", "svg", "template")
)
# Their ends may be left out, and parsers know where they are.
_WITHOUT_END: Final = frozenset(("dd", "dt", "li", "option", "p", "td", "th", "tr", "script", "style", "img", "input"))
_LABELLED: Final = re.compile(r"[^\W\d][\w/-]*(?: [\w/-]+){0,2}:\s")
_INVISIBLE: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_SIZE: Final = re.compile(r"font-size\s*:\s*([\d.]+)", re.IGNORECASE)
_NAMES: Final = re.compile(r"[.#][\w-]+")
_SELECTOR: Final = re.compile(r"\s*\w*([.#][\w-]+)\s*")
# Panels that a click opens, by their classes, and by attributes that name them.
_PANEL: Final = re.compile(r"accordion|collaps|panel|tab-pane|tabpanel|faq", re.IGNORECASE)
_OPENED: Final = re.compile(r"""\b(?:aria-controls|data-(?:bs-)?target)\s*=\s*["']?#?([\w:.-]{1,100})""", re.IGNORECASE)
_COOKIES: Final = re.compile(
    r"(?:cookie|consent|gdpr)s?[-_ ]?(?:banner|notice|bar|pop-?up|consent|dialog|modal|overlay|law|message|wall)"
    r"|onetrust|cookiebot|usercentrics|didomi|qc-cmp",
    re.IGNORECASE,
)
_EDIT_LINKS: Final = re.compile(r"(?:^|\s)mw-editsection(?:\s|$)")  # beside a wiki's headings
_BUTTONS: Final = ("button", "hidden", "image", "password", "reset", "submit")
_RAISED: Final = str.maketrans(
    "0123456789+-", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b"
)
_MOST_SPANNED: Final = 50
# After as many cells of a table, cells are not repeated where they span several.
_MOST_SPREAD: Final = 1 << 17
_LONGEST_CELL: Final = 1000
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
    data = stream.read_all()
    yield page_of(_decoded(data).strip()).content(data)


def page_of(markup: str) -> "Page":
    """A page, or a part of one, as it is shown. Raises UnreadableFile if it is damaged."""
    unclosed = markup.find("<!--", markup.rfind("-->") + 1)
    if unclosed >= 0 and _TAGS.search(markup, unclosed):  # it would hide the rest
        markup = markup[:unclosed] + markup[unclosed:].replace("<!--", "")
    page = Page(markup)
    if markup:
        with damage_is_unreadable():
            parser = etree.HTMLParser(target=page, encoding="utf-8", huge_tree=True)
            etree.fromstring(markup.encode("utf-8", "replace"), parser)
    return page


class _Flow:
    """Text as it is laid out: white space in it becomes single spaces, and the strongest of several breaks counts."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.length = 0
        self._pending = 0
        self._definition = 0  # where it begins in what is written
        self._is_marked = False  # whether the text of an item has yet to follow its mark

    def break_off(self, gap: int) -> None:
        self._pending = max(gap, self._pending) if not self._is_marked else 0

    def begin_item(self, mark: str) -> None:
        """The mark of an item, from which nothing parts its text."""
        self.end_item()
        self.break_off(_LINE)
        self.write_exactly(mark)
        self._is_marked = True

    def end_item(self) -> None:
        self._is_marked = False

    def write(self, text: str) -> None:
        if text[:1].isspace():
            self.break_off(_SPACE)
        if words := text.split():
            self.write_exactly(" ".join(words))
            if text[-1].isspace():
                self.break_off(_SPACE)

    def write_exactly(self, text: str) -> None:
        for piece in (_WRITTEN[self._pending if self.written else 0], text):
            if piece:
                self.written.append(piece)
                self.length += len(piece)
        self._pending, self._is_marked = 0, False

    def attach(self, text: str) -> None:
        """Write right behind what was written."""
        self._pending, pending = 0, self._pending
        self.write_exactly(text)
        self._pending = pending

    def begin_definition(self) -> None:
        """In the line of its term, unless `part_term` follows."""
        self.break_off(_SPACE)
        self._definition = len(self.written)

    def part_term(self) -> None:
        """Begin a line with the first definition of a term if it has a label of its own."""
        gap, *begun = self.written[self._definition : self._definition + 9] or [""]
        if gap == _WRITTEN[_SPACE] and _LABELLED.match("".join(begun)):
            self.written[self._definition] = _WRITTEN[_LINE]

    @property
    def start(self) -> int:
        """Where the next text begins."""
        return self.length + (len(_WRITTEN[self._pending]) if self.written else 0)

    def last(self) -> str:
        """The last character of the line, "" at its beginning."""
        return "" if not self.written or self._pending > _SPACE else self.written[-1][-1:]

    def since(self, start: int) -> str:
        """What was written from an index on."""
        parts, length = list[str](), self.length
        for piece in reversed(self.written):
            if length <= start:
                break
            length -= len(piece)
            parts.append(piece)
        return "".join(reversed(parts))[max(0, start - length) :].strip()

    def text(self) -> str:
        return "".join(self.written).strip()


class _Table:
    """The rows of a table, while it is read."""

    def __init__(self, around: _Flow) -> None:
        self._around = around
        self._cells = 0  # with those that others span
        self._rows: list[list[SpanningCell]] = []
        self._are_headers: list[bool] = []  # of each row, whether all of its cells are
        self.is_layout = False
        self.flow: _Flow | None = None  # of the cell that is open
        self._is_header = False
        self._columns = self._lines = 1

    @property
    def out(self) -> _Flow:
        """Where its text goes: what is in no cell, before the table."""
        return self.flow or self._around

    def begin_row(self) -> None:
        self.end_cell()
        self._rows.append([])
        self._are_headers.append(True)

    def begin_cell(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.end_cell()
        if not self._rows:
            self.begin_row()
        self.flow, self._is_header = _Flow(), tag == "th"
        self._columns = self._lines = 1
        if self._cells < _MOST_SPREAD:
            spans = (max(1, number_in(attributes.get(name), 1)) for name in ("colspan", "rowspan"))
            self._columns, self._lines = (min(_MOST_SPANNED, span) for span in spans)

    def end_cell(self) -> None:
        if self.flow is None:
            return
        text, self.flow = self.flow.text(), None
        self.is_layout = self.is_layout or len(text) > _LONGEST_CELL
        self._are_headers[-1] = self._are_headers[-1] and self._is_header
        self._cells += self._columns * self._lines
        self._rows[-1].append(SpanningCell(text, self._columns, self._lines))

    def lines(self) -> list[str]:
        self.end_cell()
        spread = [*zip(spread_rows(self._rows), self._are_headers, strict=True)]
        rows = [row for row, _ in spread if any(row)]
        width = max(map(len, rows), default=0)
        if self.is_layout or width < 2:
            return [cell for row in rows for cell in dict.fromkeys(row) if cell]
        num_headers = sum(1 for _ in takewhile(bool, (is_header for row, is_header in spread if any(row))))
        # Without marked headers, two columns are names and values more often than not.
        return table_lines(rows, num_headers or (0 if width == 2 else None))


class Page:
    """Target of lxml's parser. A tree would take fifty times the memory, and end at the first `</html>`."""

    def __init__(self, markup: str) -> None:
        self._markup = markup
        self._flow = _Flow()
        self._tables: list[_Table] = []
        self._title = _Flow()
        self._dates: dict[str, str] = {}
        self._open: Counter[str] = Counter()
        self._left_out: tuple[str, int] | None = None  # a tag, and how many were open before
        self._sizes: list[tuple[str, int, bool]] = []  # elements whose letters may have no size, as in `_left_out`
        self._opens_next = False
        self._lists: list[int | None] = []  # numbers of the next items, None where they have dots
        self._headings: list[Heading] = []
        self._heading: int | None = None  # where it begins
        self._links: list[tuple[int, str]] = []
        self._is_list_of_links = "<!DOCTYPE NETSCAPE-Bookmark" in markup[:200]  # as browsers export them
        self._is_chosen = self._after_term = False

    @cached_property
    def _opened(self) -> set[str]:
        return {*_OPENED.findall(self._markup)}

    @cached_property
    def _unseen(self) -> set[str]:
        """The classes, as ".name", and ids, as "#name", that the page's own style sheets hide whatever happens."""
        hidden, shown = set[str](), set[str]()
        for selectors, declared in _rules(self._markup):
            if _INVISIBLE.search(declared):
                hidden.update(match[1] for selector in selectors.split(",") if (match := _SELECTOR.fullmatch(selector)))
            elif "display" in declared or "visibility" in declared:
                shown.update(name for selector in selectors.split(",") for name in _NAMES.findall(selector))
        names = hidden - shown
        scripts = " ".join(part.partition("</script")[0] for part in self._markup.split("<script")[1:]) if names else ""
        return {name for name in names if name[1:] not in scripts}

    @cached_property
    def _unclosed(self) -> set[str]:
        """The tags that are opened more often than closed."""
        tags: Counter[str] = Counter()
        for match in _TAGS.finditer(_without_scripts(self._markup)):
            tags[match[2].lower()] += -1 if match[1] else 1
        return {tag for tag, times in tags.items() if times > 0} - _WITHOUT_END

    @property
    def _out(self) -> _Flow:
        return self._tables[-1].out if self._tables else self._flow

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        before = self._open[tag]
        self._open[tag] += 1
        if self._left_out:
            return
        if self._is_left_out(tag, attributes):
            self._left_out = tag, before
            if tag == "nav" or tag in _BREAKS:
                self._out.break_off(_PARAGRAPH)
            return
        size = _SIZE.search(attributes.get("style", ""))
        if size or (self._sizes and "class" in attributes):  # a class may have any size
            self._sizes.append((tag, before, size is not None and not size[1].strip("0.")))
        self._opens_next = "aria-expanded" in attributes or (self._opens_next and tag != "button")
        out = self._out
        if tag in _BREAKS and not (tag in ("td", "th", "tr") and self._tables):
            out.break_off(_BREAKS[tag])
        if tag in _HEADINGS and not self._tables:
            self._heading = out.start
        else:
            self._begin(tag, attributes)

    def _begin(self, tag: str, attributes: Mapping[str, str]) -> None:  # noqa: C901, PLR0912 - a case per tag
        out, table = self._out, self._tables[-1] if self._tables else None
        match tag:
            case "meta":
                name = attributes.get("property") or attributes.get("name") or attributes.get("itemprop") or ""
                self._dates.setdefault(name.lower(), attributes.get("content", ""))
            case "time":
                self._dates.setdefault("<time>", attributes.get("datetime", ""))
            case "table":
                if table:
                    table.is_layout = True
                self._tables.append(_Table(out))
            case "tr" if table:
                table.begin_row()
            case "td" | "th" if table:
                table.begin_cell(tag, attributes)
            case "ol" | "ul" | "menu":
                start = attributes.get("start", "1").strip()
                first = -number_in(start[1:], -1) if start.startswith("-") else number_in(start, 1)
                self._lists.append(first if tag == "ol" else None)
            case "li":
                self._begin_item(attributes)
            case "dd":
                if self._after_term:
                    out.begin_definition()
                else:
                    out.part_term()
                    out.break_off(_LINE)
                self._after_term = False
            case "a":
                self._links = [(out.start, attributes.get("href", ""))]  # they are never in each other
            case "img" | "area":
                self._write_apart(attributes.get("alt", ""))
            case "input" | "en-todo":  # as notes of Evernote's have
                self._begin_field(tag, attributes)
            case "option":
                self._is_chosen = "selected" in attributes
            case "textarea":
                self._write_value("")
            case "del" | "s" | "strike":
                out.write_exactly("~~")

    def _is_left_out(self, tag: str, attributes: Mapping[str, str]) -> bool:
        if tag in ("body", "html", "main", "head"):
            return False
        if tag in _LEFT_OUT:
            return tag not in self._unclosed
        named = f"{attributes.get('id', '')} {attributes.get('class', '')}"
        is_apart = attributes.get("role") == "navigation" or bool(_COOKIES.search(named) or _EDIT_LINKS.search(named))
        is_hidden = (
            ("hidden" in attributes and attributes["hidden"] != "until-found")
            or attributes.get("aria-hidden", "").lower() == "true"
            or bool(_INVISIBLE.search(attributes.get("style", "")))
            or not self._unseen.isdisjoint(
                (f"#{attributes.get('id')}", *map(".{}".format, attributes.get("class", "").split()))
            )
        )
        if is_hidden and not is_apart:
            opens, self._opens_next = self._opens_next, False
            is_panel = attributes.get("role") == "tabpanel" or bool(_PANEL.search(named))
            is_hidden = not (opens or is_panel or attributes.get("id") in self._opened)
        return (is_apart or is_hidden) and tag not in self._unclosed

    def _begin_item(self, attributes: Mapping[str, str]) -> None:
        number = self._lists[-1] if self._lists else None
        if number is None:
            self._out.begin_item("- ")
            return
        number = number_in(attributes.get("value"), number)
        self._lists[-1] = number + 1
        self._out.begin_item(f"{number}. ")

    def _begin_field(self, tag: str, attributes: Mapping[str, str]) -> None:
        kind = attributes.get("type", "text" if tag == "input" else "checkbox").lower()
        if kind in ("checkbox", "radio"):
            is_checked = "checked" in attributes if tag == "input" else attributes.get("checked", "false") != "false"
            self._write_apart("[x]" if is_checked else "[ ]")
        elif kind not in _BUTTONS and (value := attributes.get("value", "")):
            self._write_value(value)

    def _write_value(self, value: str) -> None:
        """A value after what it is of."""
        out = self._out
        if out.last().isalnum():
            out.attach(":")
        out.break_off(_SPACE)
        self._write_apart(value)

    def _write_apart(self, text: str) -> None:
        if text.strip():
            self._out.break_off(_SPACE)
            self._out.write(text)
            self._out.break_off(_SPACE)

    def end(self, tag: str) -> None:  # noqa: C901, PLR0912 - a case per tag
        self._open[tag] -= 1
        if self._left_out:
            if self._left_out == (tag, self._open[tag]):
                self._left_out = None
            return
        if self._sizes and self._sizes[-1][:2] == (tag, self._open[tag]):
            self._sizes.pop()
        out = self._out
        if tag == "table" and self._tables:
            self._end_table()
            out = self._out
        elif tag in ("td", "th") and self._tables:
            self._tables[-1].end_cell()
        elif tag == "li":
            out.end_item()
        elif tag in ("ol", "ul", "menu") and self._lists:
            self._lists.pop()
        elif tag == "a" and self._links:
            start, link = self._links.pop()
            kind, _, address = link.partition("?")[0].partition(":")
            # The address of a person, which the text may lack.
            if kind.lower() in ("mailto", "tel") and address and address not in out.since(start):
                out.write(f" ({address})")
            elif self._is_list_of_links and kind in ("http", "https"):
                out.write(f" ({link})")
        elif tag in ("dt", "del", "s", "strike"):
            self._after_term = tag == "dt"
            out.attach("~~" if tag != "dt" else ":" if out.last().isalnum() else "")
        elif tag in _HEADINGS and self._heading is not None:
            self._end_heading(1 + self._open["dl"] if self._is_list_of_links else _HEADINGS[tag])
        elif tag == "dl" and self._is_list_of_links:  # a folder
            self._headings.append(Heading(out.start, 1 + self._open["dl"], ""))
        if tag in _BREAKS and tag != "dt" and not (tag in ("td", "th", "tr") and self._tables):
            out.break_off(_BREAKS[tag])

    def _end_heading(self, level: int) -> None:
        start, self._heading = self._heading or 0, None
        if text := " ".join(self._flow.since(start).split()):
            self._headings.append(Heading(start, level, text))

    def _end_table(self) -> None:
        table = self._tables.pop()
        lines = table.lines()
        out, gap = self._out, _PARAGRAPH if table.is_layout else _LINE
        for line in lines:
            out.break_off(gap)
            out.write_exactly(line)
        out.break_off(_PARAGRAPH)

    def data(self, text: str) -> None:
        in_choice = self._open["select"] > 0 and "select" not in self._unclosed
        if self._left_out or (in_choice and not self._is_chosen) or (self._sizes and self._sizes[-1][2]):
            return
        out = self._out
        if self._open["title"] > 0:
            self._title.write(text)
        elif in_choice:
            self._is_chosen = False
            self._write_value(text)
        elif self._open["pre"] > 0 or self._open["textarea"] > 0:
            if text.strip():
                out.write_exactly(text.rstrip("\n") if self._open["pre"] > 0 else text.strip())
                if text.endswith("\n"):
                    out.break_off(_LINE)
            elif "\n" in text:
                out.break_off(_LINE)
        elif self._open["sup"] > 0 and text.strip().lstrip("+-").isdecimal() and out.last().strip():
            out.write(text.translate(_RAISED))
        else:
            out.write(text)

    def close(self) -> None:
        while self._tables:
            self._end_table()

    def content(self, data: bytes) -> Content:
        """The page as a document that is identified by `data`; one without any text has that of its title."""
        text, title = self._flow.text(), self._title.text()
        days = (day_of(self._dates.get(name)) for name in (*_DATES, "<time>"))
        date = next((day for day in days if day), None)
        sections = sections_of(heading for heading in self._headings if heading.start < len(text))
        return Content(text or title, data, date, title=title, sections=sections)


_TAGS: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)\b")


def _rules(markup: str) -> Iterator[tuple[str, str]]:
    """Selectors and declarations in the style sheets of a page, without those for some screens or for print."""
    for part in re.split(r"<style\b[^>]{0,500}>", markup, flags=re.IGNORECASE)[1:]:
        sheet = re.sub(r"(?s)/\*.{0,2000}?\*/", "", part.partition("</")[0])
        pieces, depth, selectors = re.split("([{}])", sheet), 0, ""
        for text, brace in zip(pieces[::2], pieces[1::2], strict=False):
            if brace == "{":
                selectors = "@" if depth else text.rpartition(";")[2]
            elif depth == 1 and "@" not in selectors:
                yield selectors, text
            depth = depth + 1 if brace == "{" else max(0, depth - 1)


def _without_scripts(markup: str) -> str:
    """The markup without scripts, styles and comments; an expression would take quadratic time on unclosed ones."""
    # Of ASCII letters only, as others may change the length.
    lower = re.sub("[A-Z]+", lambda letters: letters[0].lower(), markup)
    parts, position = list[str](), 0
    for match in re.finditer(r"<(script|style)\b|<!--", markup, re.IGNORECASE):
        if match.start() < position:
            continue
        closing = f"</{match[1].lower()}" if match[1] else "-->"
        parts.append(markup[position : match.start()])
        position = lower.find(closing, match.end())
        if position < 0:
            return "".join(parts)
    return "".join([*parts, markup[position:]])


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
