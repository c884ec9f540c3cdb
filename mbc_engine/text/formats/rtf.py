"""Rich Text Format: the text with its tables, notes and page headers; deleted and hidden text is left out."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from mbc_engine.text.decoding import ByteStream, storable
from mbc_engine.text.document import Content, TextBuilder, damage_is_unreadable, day_of, tidy
from mbc_engine.text.language import word_set
from mbc_engine.text.tables import table_lines

_TOKEN: Final = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})?[ ]?|\\'([0-9a-fA-F]{2})|\\(.)|([{}])|([^\\{}\r\n]+)|[\r\n]+|\\", re.DOTALL
)
_SIGNS: Final = {
    **dict.fromkeys(("tab", "emspace", "enspace"), " "),
    **dict.fromkeys(("line", "lbr", "page", "softline"), "\n"),
    "emdash": "—",
    "endash": "\u2013",
    "bullet": "•",
    "ldblquote": "“",
    "rdblquote": "”",
    "lquote": "\u2018",
    "rquote": "\u2019",
}
# Destinations that hold no text of the document.
_LEFT_OUT: Final = word_set(
    "colortbl listtable listoverridetable revtbl rsidtbl generator themedata datastore latentstyles xmlnstbl filetbl "
    "fldinst nonshppict objdata objclass bkmkstart bkmkend pntxta pntxtb pnseclvl private template ftnsep ftnsepc "
    "aftnsep aftnsepc tc xe sp pgdsctbl formfield datafield blipuid mmathPr userprops xmlopen atnid atndate atnref "
    "atrfstart atrfend annotationref"
)
_DESTINATIONS: Final = {
    **dict.fromkeys((*_LEFT_OUT, "pict", "object"), "skip"),
    **{name: name for name in ("fonttbl", "stylesheet", "title", "creatim", "revtim", "info")},
    **dict.fromkeys(("shppict", "shpinst", "shp", "result"), ""),
    "atnauthor": "author",
    "footnote": "note",
    "annotation": "comment",
    "shptxt": "box",
    **dict.fromkeys(("header", "headerf", "headerl", "headerr", "footer", "footerf", "footerl", "footerr"), "page"),
}
_HEADING: Final = re.compile(r"heading (\d)")
# Code pages by the character sets of fonts.
_CHARSETS: Final = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gbk", 136: "big5", 161: "cp1253", 162: "cp1254",
    163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip
_DEEPEST: Final = 1000


@dataclass
class _Flow:
    """A text that is put together: the document, a note, a page's header."""

    builder: TextBuilder = field(default_factory=TextBuilder)
    written: list[str] = field(default_factory=list)  # of the paragraph or cell
    cells: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Group:
    flow: _Flow
    destination: str = ""  # "" for the text of a flow, "skip" for nothing
    is_hidden: bool = False
    encoding: str = ""  # of the font
    fallbacks: int = 1  # characters that stand for one of Unicode, for old programs


def read_rtf(stream: ByteStream) -> Iterator[Content]:
    """The document, dated by its properties: last revised, else created."""
    data = stream.read_all()
    with damage_is_unreadable():
        document = _Rtf(data)
        builder = document.finish()
    title = " ".join(storable("".join(document.title)).split())
    yield builder.content(data, document.date, title=title, losses=document.losses)


class _Rtf:
    def __init__(self, data: bytes) -> None:
        self.losses: Counter[str] = Counter()
        self.date: str | None = None
        self._main = _Flow()
        self._pages: dict[str, list[_Flow]] = {"header": [], "footer": []}
        self._group, self._groups = _Group(self._main), list[_Group]()
        self.title: list[str] = []
        self._encoding = "cp1252"
        self._fonts: dict[int, str] = {}
        self._font = self._style = 0
        self._styles: dict[int, list[str]] = {}
        self._level = 0  # of the heading that the paragraph is
        self._in_table = False
        self._bytes = b""  # not yet decoded, as a character may have two
        self._to_skip = 0
        self._author = ""
        self._parts: dict[str, int] = {}  # of a date
        position = 0
        while match := _TOKEN.match(data, position):
            position = match.end()
            word, number, code, sign, brace, text = match.groups()
            if word:
                if word == b"bin":
                    position += max(0, int(number or 0))
                self._control(word.decode("ascii"), int(number) if number else None)
            elif code:
                self._add_bytes(bytes.fromhex(code.decode("ascii")))
            elif brace:
                self._decode()
                self._open() if brace == b"{" else self._close()
            elif sign:
                self._sign(sign.decode("latin-1"))
            elif text:
                self._add_bytes(text)
        self._decode()

    def finish(self) -> TextBuilder:
        self._end_paragraph(self._main)
        self._end_table(self._main)
        whole = TextBuilder()
        self._add_pages(whole, "header")
        main = self._main.builder.content(b"")
        whole.include(main.text, main.sections)
        whole.heading(1, "")
        self._add_pages(whole, "footer")
        return whole

    def _add_pages(self, builder: TextBuilder, kind: str) -> None:
        for text in dict.fromkeys(_text_of(flow) for flow in self._pages[kind]):
            builder.add(text)

    def _open(self) -> None:
        self._groups.append(self._group)
        if len(self._groups) > _DEEPEST:
            raise ValueError("groups are nested too deeply")

    def _close(self) -> None:
        closed = self._group
        self._group = self._groups.pop() if self._groups else _Group(self._main)
        self._to_skip = 0
        if closed.destination in ("creatim", "revtim") and self._group.destination != closed.destination:
            parts = [self._parts.get(name, 0) for name in ("yr", "mo", "dy")]
            day = day_of("{:04}-{:02}-{:02}".format(*parts))
            self.date = day if closed.destination == "revtim" and day else self.date or day
        if closed.flow is not self._group.flow and (text := _text_of(closed.flow)):
            author = f" by {self._author}" if self._author else ""
            labels = {"note": "Footnote: ", "comment": f"Comment{author}: ", "box": ""}
            if closed.destination in labels:
                self._group.flow.notes.append(labels[closed.destination] + text)

    def _sign(self, sign: str) -> None:
        self._decode()
        if sign == "*":
            self._group = replace(self._group, destination=self._group.destination or "skip")
        elif sign in "~_\\{}":
            self._add({"~": " ", "_": "-"}.get(sign, sign))
        elif sign in "\r\n":
            self._break()

    def _control(self, word: str, number: int | None) -> None:
        self._decode()
        if word in _SIGNS:
            self._add(_SIGNS[word])
        elif word in _DESTINATIONS:
            self._begin(word, _DESTINATIONS[word])
        elif word in ("v", "deleted", "plain"):
            self._group = replace(self._group, is_hidden=word != "plain" and number != 0)
        else:
            self._command(word, number or 0)

    def _command(self, word: str, number: int) -> None:  # noqa: C901, PLR0912 - a case per command
        match word:
            case "u":
                self._add(chr(number % 65536))
                self._to_skip = self._group.fallbacks
            case "uc":
                self._group = replace(self._group, fallbacks=min(max(number, 0), 8))
            case "ansicpg":
                self._encoding = {65001: "utf-8", 10000: "mac_roman", 0: "cp1252"}.get(number, f"cp{number}")
            case "mac" | "pc" | "pca":
                self._encoding = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}[word]
            case "f":
                self._font = number
                self._group = replace(self._group, encoding=self._fonts.get(number, ""))
            case "fcharset" if self._group.destination == "fonttbl":
                self._fonts[self._font] = _CHARSETS.get(number, "")
            case "yr" | "mo" | "dy":
                self._parts[word] = min(max(number, 0), 9999)
            case "pard":
                self._level, self._in_table = 0, False
            case "s":
                self._style = number
                if self._group.destination != "stylesheet":
                    heading = _HEADING.match("".join(self._styles.get(number, [])).strip().lower())
                    self._level = int(heading[1]) if heading else self._level
            case "outlinelevel":
                self._level = min(max(number, 0) + 1, 9)
            case "intbl" | "trowd":
                self._in_table = True
            case "par" | "sect":
                self._break()
            case "cell" | "nestcell":
                flow = self._group.flow
                flow.cells.append(tidy(storable("".join(flow.written))))
                flow.written = []
            case "row" | "nestrow":
                flow = self._group.flow
                flow.rows.append(flow.cells)
                flow.cells, self._in_table = [], False

    def _begin(self, word: str, destination: str) -> None:
        group = self._group
        if word in ("pict", "object") and group.destination != "skip":
            self.losses["picture" if word == "pict" else "embedded file"] += 1
        if destination in ("note", "comment", "box", "page"):
            group = replace(group, flow=_Flow())
        if destination == "page":
            self._pages[word[:6]].append(group.flow)
        elif destination == "author":
            self._author = ""
        self._parts = {}
        self._group = replace(group, destination=destination)

    def _break(self) -> None:
        if self._in_table and self._group.flow is self._main:
            self._main.written.append("\n")
        else:
            self._end_paragraph(self._group.flow)

    def _end_paragraph(self, flow: _Flow) -> None:
        text, notes = tidy(storable("".join(flow.written))), flow.notes
        flow.written, flow.notes = [], []
        if text:
            self._end_table(flow)
        if text and self._level and flow is self._main:
            flow.builder.heading(self._level, text)
        else:
            flow.builder.add(text)
        flow.builder.add_lines(notes, "\n")

    def _end_table(self, flow: _Flow) -> None:
        flow.builder.add_lines(table_lines(flow.rows))
        flow.rows = []

    def _add_bytes(self, data: bytes) -> None:
        skipped = min(self._to_skip, len(data))
        self._to_skip -= skipped
        self._bytes += data[skipped:]

    def _decode(self) -> None:
        data, self._bytes = self._bytes, b""
        if data:
            try:
                text = data.decode(self._group.encoding or self._encoding, "replace")
            except LookupError:
                text = data.decode("cp1252", "replace")
            self._add(text)

    def _add(self, text: str) -> None:
        group = self._group
        if group.destination == "title":
            self.title.append(text)
        elif group.destination == "stylesheet":
            self._styles.setdefault(self._style, []).append(text.rstrip(";"))
        elif group.destination == "author":
            self._author += text
        elif group.destination in ("", "note", "comment", "box", "page") and not group.is_hidden:
            group.flow.written.append(text)


def _text_of(flow: _Flow) -> str:
    """The text of a note or a page's header, to its end."""
    flow.builder.add_lines((*table_lines(flow.rows), tidy(storable("".join(flow.written))), *flow.notes), "\n")
    flow.rows, flow.written, flow.notes = [], [], []
    return flow.builder.text()
