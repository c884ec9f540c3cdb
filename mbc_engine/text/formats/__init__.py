"""The formats that can be read, by file suffix, and the readers of rows: JSON Lines and CSV.

To add a format, write a function from a `ByteStream` to contents, and add a `Format` with it to `FORMATS`.

Each row of named fields is a document. Its text is in the field `text`, `content` or `body`, or a requested one;
`title`, `date` and `id` are read, too. CSV has a header and is separated by commas, semicolons or tabs.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

from mbc_engine.text.decoding import LINE_CHARACTERS, ByteStream, lines, pieces, storable
from mbc_engine.text.document import Content, Row, Skipped, UnreadableFile, day_of, with_title
from mbc_engine.text.formats.books import read_epub
from mbc_engine.text.formats.html import read_html
from mbc_engine.text.formats.mail import read_eml, read_mbox
from mbc_engine.text.formats.markdown import read_markdown
from mbc_engine.text.formats.markup import read_code, read_org, read_rst, read_tex
from mbc_engine.text.formats.opendocument import read_odt
from mbc_engine.text.formats.pdf import read_pdf
from mbc_engine.text.formats.rtf import read_rtf
from mbc_engine.text.formats.slides import read_pptx
from mbc_engine.text.formats.subtitles import read_subtitles
from mbc_engine.text.formats.word import read_docx

TEXT_FIELDS: Final = ("text", "content", "body")
# A field that may hold a row's text (None for the default), and the row read that way.
Candidate = tuple[str | None, Content]
_LONGEST_ID: Final = 200
_LONGEST_LIST: Final = 200
# Names reserved for rows without a usable id, and for pieces of long rows.
_TAKEN_NAME: Final = re.compile(r"row \d+|.*, part \d+", re.DOTALL)


def read_contents(
    items: Iterable[Content | Row | Skipped], text_column: str | None = None
) -> Iterator[Content | Skipped]:
    """Turn rows into documents; everything else passes through.

    A row is named by its id, or "row 12" if the id is missing, used by an earlier row, looks like "row 12" or
    "x, part 2", or cannot be stored. Its number and id are not part of its identity (unless its text holds them), so
    inserting a row above changes no other. Raises UnreadableFile if no row has the field `text_column`; for a table,
    at the first row.
    """
    lacking: list[int] = []
    columns = ""
    is_there = text_column is None
    for item, part in _named(items):
        if not isinstance(item, Row):
            yield item
        elif text_column is not None and not is_there and _key(item, text_column) is None:
            columns = columns or _listed(item.fields)
            lacking.append(item.number)
            if item.is_table:
                break
        else:
            is_there = True
            yield from (Skipped(str(number), "has no text") for number in lacking)
            lacking = []
            text = _text(item, text_column)
            yield _content(item, part, text) if text else Skipped(str(item.number), "has no text")
    if lacking:
        raise UnreadableFile(f"has no column named {text_column!r}; its columns are {columns}")


def read_candidates(items: Iterable[Content | Row | Skipped]) -> Iterator[tuple[str, Iterator[Candidate]] | Skipped]:
    """The name of each part, and the candidates for its document, the default first."""
    for item, part in _named(items):
        if isinstance(item, Skipped):
            yield item
        elif isinstance(item, Row):
            yield part, _candidates(item, part)
        elif item.text.strip():
            yield part, iter(((None, item),))


def _candidates(row: Row, part: str) -> Iterator[Candidate]:
    default = _default_column(row)
    for column in (None, *(name for name in row.fields if name != default)):
        if text := _text(row, column):
            yield column, _content(row, part, text)


def _named(items: Iterable[Content | Row | Skipped]) -> Iterator[tuple[Content | Row | Skipped, str]]:
    """Each item with its part's name, which does not depend on the field that holds the text."""
    taken: set[str] = set()
    for item in items:
        if isinstance(item, Row):
            id = item.fields.get("id")
            name = str(id) if isinstance(id, str | int) and not isinstance(id, bool) else ""
            if name in taken or not is_row_name(name):
                yield item, f"row {item.number}"
            else:
                taken.add(name)
                yield item, name
        else:
            yield item, item.part if isinstance(item, Content) else ""


def is_row_name(id: str) -> bool:
    """Whether a row can be named by this id."""
    return 0 < len(id) <= _LONGEST_ID and storable(id) == id and not _TAKEN_NAME.fullmatch(id)


def _listed(fields: Iterable[str]) -> str:
    names = "".join(letter if letter.isprintable() else "?" for letter in ", ".join(fields))
    return names if len(names) <= _LONGEST_LIST else f"{names[:_LONGEST_LIST]}…"


def _content(row: Row, part: str, text: str) -> Content:
    date = day_of(row.fields.get("date"))
    return Content(text, f"{date}\0{text}".encode(), date, part)  # texts contain no NUL, so none can imitate this


def _text(row: Row, column: str | None) -> str:
    if column is None and row.joined:
        return storable(row.joined)
    key = _key(row, _default_column(row) if column is None else column)
    text = "" if key is None else _as_text(row.fields[key])
    return with_title(_as_text(row.fields.get("title")), text) if text else ""


def _default_column(row: Row) -> str | None:
    return next((name for name in TEXT_FIELDS if _as_text(row.fields.get(name))), None)


def _key(row: Row, name: str | None) -> str | None:
    return next((key for key in (name, name.strip().lower()) if key in row.fields), None) if name is not None else None


def _as_text(value: object) -> str:
    return storable(value).strip() if isinstance(value, str) else ""


def read_csv(stream: ByteStream) -> Iterator[Row | Skipped]:
    """The non-blank rows, with column names in lower case.

    In a table without a text column, a row's text is all its cells, one `Name: value` per line.
    """
    # The limit is process-wide, and by default too small for a long text.
    csv.field_size_limit(max(csv.field_size_limit(), LINE_CHARACTERS))
    written = _short_lines(stream)
    first = next((line for line in written if line.strip()), None)
    if first is None:
        return
    separator = _separator(first)
    table = _parsed(chain([first], written), separator)
    header = next(table)
    if isinstance(header, csv.Error):
        raise UnreadableFile(f"has a broken header: {header}")
    columns = [name.strip() for name in header]
    names = [name.lower() for name in columns]
    if twice := [name for name in TEXT_FIELDS if names.count(name) > 1]:
        raise UnreadableFile(f"has two columns named {twice[0]}")
    has_text = bool({*TEXT_FIELDS} & {*names})
    for number, cells in enumerate(table, 1):
        if isinstance(cells, csv.Error):
            yield Skipped(str(number), f"is broken: {cells}")
        elif any(cells[len(names) :]):
            yield Skipped(str(number), "has more cells than the header")
        elif any(cell.strip() for cell in cells):
            joined = "" if has_text else _joined(columns, cells)
            fields = dict.fromkeys(names, "") | dict(zip(names, cells, strict=False))
            yield Row(number, fields, joined, is_table=True)


def _separator(header: str) -> str:

    def rank(separator: str) -> tuple[bool, int]:
        cells = next(_parsed([header], separator), [])
        names = [] if isinstance(cells, csv.Error) else [name.strip().lower() for name in cells]
        return bool({*TEXT_FIELDS} & {*names}), len(names)

    return max(("\t", ",", ";"), key=rank)  # the first wins a tie, as a name rarely contains a tab


def _joined(columns: Iterable[str], cells: Iterable[str]) -> str:
    filled = ((name, cell.strip()) for name, cell in zip(columns, cells, strict=False) if cell.strip())
    return "\n".join(f"{name}: {cell}" if name else cell for name, cell in filled)


def _parsed(written: Iterable[str], separator: str) -> Iterator[list[str] | csv.Error]:
    reader = csv.reader(written, delimiter=separator)
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield error


def _short_lines(stream: ByteStream) -> Iterator[str]:
    for line in lines(stream, ""):
        if line is None:
            raise UnreadableFile(f"has a line longer than {LINE_CHARACTERS >> 20} MB")
        yield line


def read_jsonl(stream: ByteStream) -> Iterator[Row | Skipped]:
    """The rows; blank lines are skipped."""
    for number, line in enumerate(lines(stream, "\n"), 1):
        if line is None:
            yield Skipped(str(number), f"is longer than {LINE_CHARACTERS >> 20} MB")
        elif line.strip():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                yield Skipped(str(number), "is not JSON")
                continue
            yield Row(number, value) if isinstance(value, dict) else Skipped(str(number), "is not a JSON object")


@dataclass(frozen=True)
class Format:
    """How to read a kind of file."""

    name: str  # part of the digests, as the same bytes are different texts in different formats
    # From bytes to contents, lazily. A row that is not a document is `Skipped`, with its number as the source. Raises
    # UnreadableFile if the file, or the rest of it, cannot be read.
    read: Callable[[ByteStream], Iterator[Content | Row | Skipped]]
    suffixes: tuple[str, ...]
    may_be_compressed: bool = True


TEXT = Format("text", pieces, (".txt", ".text", ".log", ".cfg", ".conf", ".ini", ".properties", ".bib", ".ics", ".vcf"))
_CODE = (
    "py pyi js mjs cjs jsx ts tsx java kt kts scala groovy gradle c h cc cpp cxx hh hpp cs go rs rb php swift m pl pm r jl "
    "lua sh bash zsh fish ps1 bat cmd sql hs ml ex exs erl clj lisp el vim dart f90 pas vb asm s css scss less vue svelte "
    "tf proto graphql cmake mk nix zig nim sol tcl diff patch"
)
FORMATS = (
    TEXT,
    Format("markdown", read_markdown, (".md", ".markdown")),
    Format("html", read_html, (".html", ".htm", ".xhtml")),
    Format("pdf", read_pdf, (".pdf",), may_be_compressed=False),
    Format("docx", read_docx, (".docx", ".docm", ".dotx"), may_be_compressed=False),
    Format("pptx", read_pptx, (".pptx", ".pptm", ".ppsx", ".potx"), may_be_compressed=False),
    Format("odt", read_odt, (".odt", ".odp", ".ott"), may_be_compressed=False),
    Format("rtf", read_rtf, (".rtf",)),
    Format("epub", read_epub, (".epub",), may_be_compressed=False),
    Format("eml", read_eml, (".eml", ".mht", ".mhtml")),
    Format("mbox", read_mbox, (".mbox",)),
    Format("rst", read_rst, (".rst", ".rest")),
    Format("org", read_org, (".org",)),
    Format("tex", read_tex, (".tex", ".ltx")),
    Format("code", read_code, tuple(f".{suffix}" for suffix in _CODE.split())),
    Format("subtitles", read_subtitles, (".srt", ".vtt")),
    # The same name: a row is the same document in either format.
    Format("row", read_jsonl, (".jsonl", ".ndjson")),
    Format("row", read_csv, (".csv", ".tsv")),
)
SUFFIXES: Mapping[str, Format] = {suffix: format for format in FORMATS for suffix in format.suffixes}
