"""Text with headings in other notations: plain, reStructuredText, Org, AsciiDoc, MediaWiki, and code.

The text stays as it was written, except that tables of Org, AsciiDoc and MediaWiki become rows.
"""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from mbc_engine.text.decoding import MOST_BYTES, ByteStream, decode_file, pieces, stream_of
from mbc_engine.text.document import (
    Content,
    Heading,
    day_of,
    sections_of,
)
from mbc_engine.text.formats.clippings import is_clippings, read_clippings
from mbc_engine.text.formats.subtitles import is_chat, read_chat
from mbc_engine.text.tables import SpanningCell, holds_values, spread_rows, table_lines

_CHAT_HEAD: Final = 1 << 12
_LONGEST_LINE: Final = 300
_LONGEST_HEADING: Final = 200


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text without their ends, and where they start."""
    start = 0
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1


# A short line between blank ones, or with a line of signs below.
_ALONE: Final = re.compile(
    r"(?:\A|\n[ \t]*\n)[ \t]*(?P<text>\S[^\n]{1,80})(?=\n[ \t]*(?:(?P<signs>([=~*_#-])\3{2,})[ \t]*)?(?:\n|\Z))"
)
_NUMBERED: Final = re.compile(
    r"(?:chapter|part|section|appendix|kapitel|teil|chapitre|partie|capítulo|parte)\s+(?:\d{1,3}|[IVXLC]{1,6}|[A-Z])\b"
    r"|(?P<number>(?:\d{1,2}\.)*\d{1,2})[.)]?[ \t]+[^\W\d_]",
    re.IGNORECASE,
)
_FEWEST_CAPITALS: Final = 4
# A heading of AsciiDoc or of a wiki: "== Closure ==".
_MARKED: Final = re.compile(
    r"(?:\A|\n[ \t]*\n)(?P<marks>\A=|={2,6}) (?P<text>[^\s=][^\n]{0,80}?)(?: +=+)?[ \t]*$", re.MULTILINE
)


def read_text(stream: ByteStream) -> Iterator[Content]:
    """The text in pieces, with its headings, if there are several: lines that are marked, or alone and in capitals, numbered or underlined.

    Of a chat, the messages, unless it is as large as logs that look like one; of a Kindle's clippings, each alone.
    """
    head = stream.peek()[:_CHAT_HEAD]
    if is_clippings(head):
        yield from read_clippings(stream)
        return
    if is_chat(head):
        rest, beginning = stream, io.BytesIO(stream.read(MOST_BYTES + 1))
        if beginning.getbuffer().nbytes <= MOST_BYTES:
            yield from read_chat(stream_of(beginning.getvalue()))
            return
        stream = ByteStream(lambda most: beginning.read(most) or rest.read(most))
    above, number = list[Heading](), 0
    for content in pieces(stream):
        headings = _text_headings(content.text)
        number += len(headings)
        if number > 1:
            yield replace(content, sections=sections_of([*above, *headings]))
        else:
            yield content
        for heading in headings:
            above = [outer for outer in above if outer.level < heading.level] + [heading._replace(start=0)]


def _text_headings(text: str) -> list[Heading]:
    headings = [
        Heading(match.start("marks"), len(match["marks"]), match["text"])
        for match in _MARKED.finditer(text)
        if any(map(str.isalpha, match["text"]))
    ]
    for match in _ALONE.finditer(text):
        line, signs = match["text"].rstrip(), match["signs"] or ""
        numbered = _NUMBERED.match(line)
        is_capital = line.isupper() and sum(map(str.isalpha, line)) >= _FEWEST_CAPITALS
        # A much shorter line of signs parts what is above it from what is below.
        is_heading = numbered or is_capital or (signs and 2 * len(signs) >= len(line))
        if is_heading and not line.startswith("=") and not line.endswith((".", ",", ";", "!", "?")):
            is_below = signs[:1] not in ("", "=", "#")
            level = 1 + (numbered["number"].count(".") if numbered and numbered["number"] else is_below)
            headings.append(Heading(match.start("text"), level, line))
    return sorted(headings)


_ADORNMENT: Final = re.compile(r"([=\-`:.'\"~^_*+#<>!$%&(),/;?@\[\\\]{|}])\1+[ \t]*$")
_DATE: Final = re.compile(
    r"^(?::(?:rev)?date:|\.\. date:|#\+date:)[ \t]*[\[<]?([^\]>\n]{4,60})", re.MULTILINE | re.IGNORECASE
)


def read_rst(stream: ByteStream) -> Iterator[Content]:
    """The text as it is, dated by its field `date`."""
    data = stream.read_all()
    text = decode_file(data)
    yield Content(text, data, _date(text), sections=sections_of(_rst_headings(text)))


def _date(text: str) -> str | None:
    match = _DATE.search(text)
    return day_of(match[1]) if match else None


def _rst_headings(text: str) -> Iterator[Heading]:
    """A line above a line of signs; the signs of each level are those of the first heading of it."""
    levels: list[tuple[str, bool]] = []
    before, last = (0, ""), (0, "")
    for start, line in _lines(text):
        signs = _ADORNMENT.match(line)
        title = last[1].strip()
        is_heading = signs and title and len(title) <= _LONGEST_HEADING and not _ADORNMENT.match(last[1])
        if is_heading and len(line.rstrip()) >= min(len(title), 4) and not last[1].startswith((".. ", "- ", "* ")):
            has_line_above = before[1].strip() == line.strip()
            if has_line_above or not before[1].strip():
                kind = line[0], has_line_above
                levels += [kind] * (kind not in levels)
                yield Heading(before[0] if has_line_above else last[0], levels.index(kind) + 1, title)
        before, last = last, (start, line)


_ORG_HEADING: Final = re.compile(
    r"(\*+)[ \t]+(?:(?:TODO|DONE|NEXT|WAITING)[ \t]+)?(?:\[#\w\][ \t]+)?(\S.*?)(?:[ \t]+:[\w@#%:]+:)?[ \t]*$"
)
_MOST_HEADERS: Final = 2
_ORG_TITLE: Final = re.compile(r"^#\+title:[ \t]*(\S.*)", re.MULTILINE | re.IGNORECASE)


def read_org(stream: ByteStream) -> Iterator[Content]:
    """The text with a line per row of a table, titled and dated by its `#+title` and `#+date`."""
    data = stream.read_all()
    text = _with_rows(decode_file(data))
    headings = (
        Heading(start, len(match[1]), match[2])
        for start, line in _lines(text)
        if line.startswith("*") and len(line) <= _LONGEST_LINE and (match := _ORG_HEADING.match(line))
    )
    title = _ORG_TITLE.search(text)
    yield Content(text, data, _date(text), title=title[1].strip() if title else "", sections=sections_of(headings))


def _with_rows(text: str) -> str:
    lines: list[str] = []
    rows: list[list[str]] = []
    num_above = 0  # the first rule
    for line in (*text.split("\n"), ""):
        if re.match(r"\s*\|-", line):
            num_above = num_above or len(rows)
        elif line.lstrip().startswith("|"):
            rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
        else:
            lines += table_lines(rows, _num_headers(rows, num_above))
            rows, num_above = [], 0
            lines.append(line)
    return "\n".join(lines[:-1])


def _num_headers(rows: Sequence[Sequence[str]], num_above: int) -> int | None:
    """How many rows name the columns, as those above a rule do unless they are data or many; None to tell by the rows."""
    below = rows[num_above:]
    are_data = num_above > _MOST_HEADERS or not below or any(holds_values(row, below) for row in rows[:num_above])
    return None if are_data else num_above or None


_ADOC_TABLE: Final = re.compile(
    r"^(?P<options>(?:\[[^\]\n]*\][ \t]*\n){0,3})(?P<title>\.[^\s.][^\n]*\n)?"
    r"\|={3,}[ \t]*\n(?P<body>(?:(?!\|={3,}[ \t]*$)[^\n]*\n)*)\|={3,}[ \t]*$",
    re.MULTILINE,
)
_ADOC_COLUMNS: Final = re.compile(r"cols=(?:\"([^\"]*)\"|'([^']*)'|([^,\]]*))")
# What may stand before a cell: how many columns and rows it spans, or how often it is repeated, and its style.
_ADOC_CELL: Final = re.compile(
    r"(?:(?:^|(?<=\s))(?:(\d{0,3})(?:\.(\d{1,3}))?[+*])?[<^>.]{0,3}[adehlmsv]?)?(?<!\\)\|",
    re.MULTILINE,
)


def read_asciidoc(stream: ByteStream) -> Iterator[Content]:
    """The text with a line per row of a table, titled by its first heading."""
    data = stream.read_all()
    text = _ADOC_TABLE.sub(_adoc_rows, decode_file(data))
    headings = _text_headings(text)
    title = headings[0].text if headings and text.startswith("= ") else ""
    yield Content(text, data, _date(text), title=title, sections=sections_of(headings))


def _adoc_rows(table: re.Match[str]) -> str:
    """A table's rows, whose cells stand on one line or on lines of their own; as it is if other signs part its cells."""
    options, body = table["options"], table["body"].strip("\n")
    first = body.partition("\n")[0]
    in_first = sum(cell.columns for cell in _adoc_cells(first))
    columns = next(filter(None, match.groups()), "") if (match := _ADOC_COLUMNS.search(options)) else ""
    repeated = (re.match(r"\s*(\d{1,3})\*", column) for column in re.split("[,;]", columns))
    number = re.fullmatch(r"\s*(\d{1,3})\s*", columns)
    width = int(number[1]) if number else sum(int(times[1]) if times else 1 for times in repeated)
    width = (width if columns else in_first) or 1
    is_implied = body.startswith(f"{first}\n\n") and in_first == width
    has_header = "noheader" not in options and ("header" in options or is_implied)
    lines = table_lines(spread_rows([_adoc_cells(body)], width), int(has_header))
    return (table["title"] or "") + "\n".join(lines) if lines else table[0]


def _adoc_cells(text: str) -> Iterator[SpanningCell]:
    _, *parts = _ADOC_CELL.split(text)
    for columns, rows, cell in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        yield SpanningCell(cell.strip().replace("\\|", "|"), int(columns or 1), int(rows or 1))


_WIKI_TABLE: Final = re.compile(r"^\{\|[^\n]*\n(?P<body>(?:(?!\{\||\|\}).*\n)*)\|\}", re.MULTILINE)
_WIKI_CELLS: Final = re.compile(r"^([|!])(?![-+}])", re.MULTILINE)
_WIKI_ATTRIBUTES: Final = re.compile(r"\A[^|=\[\]{}\n]*=[^|\[\]{}\n]*\|(?!\|)")
_WIKI_SPAN: Final = re.compile(r"\b(col|row)span\s*=\s*[\"']?\s*(\d{1,3})", re.IGNORECASE)
_WIKI_LINK: Final = re.compile(r"\[\[(?:([^\[\]|\n]{0,400})\|)?([^\[\]|\n]{0,400})\]\]|'{2,5}")


def read_wiki(stream: ByteStream) -> Iterator[Content]:
    """A page of MediaWiki with a line per row of a table, and of links the words that are shown."""
    data = stream.read_all()
    text = _WIKI_TABLE.sub(_wiki_rows, _WIKI_LINK.sub(lambda link: link[2] or link[1] or "", decode_file(data)))
    yield Content(text, data, sections=sections_of(_text_headings(text)))


def _wiki_rows(table: re.Match[str]) -> str:
    rows, caption, num_headers = list[list[SpanningCell]](), "", 0
    for row in re.split(r"^\|-[^\n]*\n", table["body"], flags=re.MULTILINE):
        before, *parts = _WIKI_CELLS.split(row)
        above, _, named = before.partition("|+")
        caption = caption or _WIKI_ATTRIBUTES.sub("", named).strip()
        rows += [[SpanningCell(above)]] if above.strip() else []  # as templates that make rows
        signs = parts[::2]
        rows += [[*chain.from_iterable(map(_wiki_cells, signs, parts[1::2]))]] if signs else []
        num_headers += bool(signs) and len(rows) == num_headers + 1 and "|" not in signs
    return "\n".join(filter(None, (caption, *table_lines(spread_rows(rows), num_headers or None))))


def _wiki_cells(sign: str, text: str) -> Iterator[SpanningCell]:
    """The cells of a line that begins with this sign."""
    for cell in re.split(r"\|\||!!" if sign == "!" else r"\|\|", text):
        attributes = _WIKI_ATTRIBUTES.match(cell)
        spans = {name.lower(): int(number) for name, number in _WIKI_SPAN.findall(attributes[0] if attributes else "")}
        shown = cell[attributes.end() :] if attributes else cell
        yield SpanningCell(shown.strip(), max(1, spans.get("col", 1)), max(1, spans.get("row", 1)))


# Definitions by their keyword, in most languages; in C and its like, by their shape.
_WORDS: Final = (
    "abstract async companion const constexpr data default export extern final inline internal local open override "
    "partial private protected pub public sealed static suspend unsafe virtual"
)
_KEYWORDS: Final = (
    "class contract def defmodule defn defp enum extension fn func fun function impl interface message module mod "
    "namespace object procedure proc protocol record service struct sub subroutine trait type union"
)
_DEFINITION: Final = re.compile(
    rf"([ \t]*)(?:(?:{_WORDS.replace(' ', '|')})(?:\([\w: ]*\))?[ \t]+)*"
    rf"(?:(?:{_KEYWORDS.replace(' ', '|')})\*?[ \t]+(?:\([^()]*\)[ \t]*)?([\w.:~$]+)"
    r"|(?:const|let|var)[ \t]+([\w$]+)[ \t]*=[ \t]*(?:async[ \t]*)?(?:function\b|\([^()]*\)[ \t]*=>|\w+[ \t]*=>))"
)
_CREATED: Final = re.compile(
    r"([ \t]*)create[ \t]+(?:or[ \t]+replace[ \t]+)?(?:temp(?:orary)?[ \t]+)?(?:table|view|function|procedure|trigger|type)"
    r"[ \t]+(?:if[ \t]+not[ \t]+exists[ \t]+)?([\w.\"`\[\]]+)",
    re.IGNORECASE,
)
_C_FUNCTION: Final = re.compile(
    r"([ \t]*)(?:[\w<>\[\]:*&,~.@]+[ \t]+){0,5}[*&]*([\w$:~]+)[ \t]*\([^;{}]*\)[^;{}()=]*\{?[ \t]*$"
)
_STATEMENT: Final = re.compile(
    r"\s*(?:if|else|for|foreach|while|until|switch|match|case|do|return|catch|try|with|throw|new|await|yield|elif|"
    r"except|unless|using|lock|synchronized|assert|print|echo|import|from|and|or|not|in)\b"
)
_CLOSING: Final = re.compile(r"\s*(?:[})\]]|end\b|fi\b|done\b|esac\b|//|#|/\*|\*|--|$)")
_ABOVE: Final = re.compile(r"[ \t]*(?:@|#(?!include|define|if|endif)|//|/\*|\*|--|;;|\[\w)")


def read_code(stream: ByteStream) -> Iterator[Content]:
    """The text as it is, with the names of the definitions around."""
    data = stream.read_all()
    text = decode_file(data)
    yield Content(text, data, sections=sections_of(_definitions(text)))


def _definitions(text: str) -> Iterator[Heading]:
    """Definitions, from the comments above them on, by how far they are indented; and what is not in one, likewise."""
    open_at: list[int] = []
    lead: int | None = None  # where the comments above the next line begin
    goes_on = False  # whether the next line belongs to the definition above it, however far in it is
    lines = list(_lines(text))
    for number, (start, line) in enumerate(lines):
        if not line.strip() or len(line) > _LONGEST_LINE:
            lead, goes_on = None, False
            continue
        indent = len(line) - len(line.lstrip())
        goes_on = goes_on and indent == open_at[-1]
        following = lines[number + 1][1] if number + 1 < len(lines) else ""
        name = _defined(line, following)
        if name:
            open_at = [outer for outer in open_at if outer < indent]
            open_at.append(indent)
            goes_on = not line.rstrip().endswith((";", "}"))
            yield Heading(start if lead is None else lead, indent + 1, name)
        elif _ABOVE.match(line):
            lead = start if lead is None else lead
            continue
        elif not goes_on and open_at and indent <= open_at[-1] and not _CLOSING.match(line) and line.strip() != "{":
            open_at = [outer for outer in open_at if outer < indent]
            yield Heading(start if lead is None else lead, indent + 1, "")
        lead = None


def _defined(line: str, following: str) -> str:
    """The name that a line defines, or ""."""
    if match := _DEFINITION.match(line):
        return (match[2] or match[3]).rstrip(":")
    if match := _CREATED.match(line):
        return match[2]
    is_shaped = line.rstrip().endswith("{") or following.strip() == "{"
    match = _C_FUNCTION.match(line) if is_shaped and "(" in line and not _STATEMENT.match(line) else None
    return match[2] if match else ""
