"""Markdown as markdown-it-py parses it (CommonMark with tables): what a reader of the page sees, line by line.

Front matter and code stay as they are written, tables become a line per row, and links out of the notes keep their
addresses. Comments of properties stay too, since pages made from them show these; other comments go, and so do
definitions of links within the notes. Notes of Obsidian and its like also have links and tasks of their own.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from mbc_engine.text.decoding import ByteStream, decode_file
from mbc_engine.text.document import Content, Heading, Place, counted, day_of, sections_of
from mbc_engine.text.tables import table_lines

# Parsing takes time and memory in proportion to a stretch of this many characters, cut between paragraphs.
_STRETCH: Final = 1 << 18
# A longer paragraph, as of data, is kept as it is written.
_LONGEST_PARAGRAPH: Final = 1 << 14
_LONGEST_ADDRESS: Final = 200

_FRONT_MATTER: Final = re.compile(
    r"(?:---[ \t]*\n(.*?\n)(?:---|\.\.\.)|\+\+\+[ \t]*\n(.*?\n)\+\+\+)[ \t]*(?:\n|\Z)", re.DOTALL
)
_LONGEST_FRONT_MATTER: Final = 1 << 16
# A line of a property, in YAML or TOML, its name perhaps in quotes; a text on the lines below it is indented.
_PROPERTY: Final = re.compile(
    r"^[\"']?(\w[\w -]{0,40}?)[\"']?[ \t]*[:=][ \t]*(?:[>|][+-]?[ \t]*\n[ \t]+)?([^\n]*)$", re.MULTILINE
)
_DATES: Final = (
    *("date", "day", "created", "created_at", "date_created", "date created", "creation_date", "publishdate"),
    *("published", "pubdate", "updated", "updated_at", "modified", "lastmod", "last_modified", "date modified"),
)
# Base64, as of pictures in exports of Google Docs and of drawings in Excalidraw.
_EMBEDDED: Final = re.compile(
    r"(?:data:[\w/+.-]{1,80}(?:;[\w=-]{1,40}){0,3};base64,|(?<![A-Za-z\d+/]))[A-Za-z\d+/]{200,}+={0,2}", re.ASCII
)
# Sequences of genes and proteins have fewer different letters.
_FEWEST_LETTERS: Final = 32
# Tokens of what is shown.
_SHOWN: Final = frozenset(("inline", "html_block", "table_open", "hr", "fence", "code_block"))
_FENCE: Final = re.compile(r"[ >]*(`{3,}|~{3,})")


def read_markdown(stream: ByteStream) -> Iterator[Content]:
    """The text, with the title and the date of its front matter."""
    data = stream.read_all()
    text, embedded = without_embedded_files(decode_file(data))
    properties, start = dict[str, str](), 0
    page = _Page()
    if (match := _FRONT_MATTER.match(text[:_LONGEST_FRONT_MATTER])) and (inner := match[1] or match[2]):
        for name, value in _PROPERTY.findall(inner):
            properties.setdefault(name.lower(), value.partition(" #")[0].strip().strip("\"'"))
        page.add_lines([*inner.rstrip("\n").split("\n"), ""], 1)
        start = match.end()
    page.add(text[start:], text.count("\n", 0, start))
    date = next((day for name in _DATES if (day := day_of(properties.get(name)))), None)
    title = properties.get("title", "")
    about = title, sections_of(page.headings), counted({"embedded file": embedded}), tuple(page.places)
    yield Content(page.text(), text.encode() if embedded else data, date, "", None, *about)


def without_embedded_files(text: str) -> tuple[str, int]:
    """A text without what stands in it in base64, on the same lines, and how many addresses or lines that was."""
    found = 0

    def left(match: re.Match[str]) -> str:
        nonlocal found
        is_data = len({*match[0]}) >= _FEWEST_LETTERS
        found += is_data
        return "" if is_data else match[0]

    return _EMBEDDED.sub(left, text), found


class _Page:
    """The lines of a page as they are shown, and where in the file they stand."""

    def __init__(self) -> None:
        self._written: list[str] = []
        self._length = 0
        self._is_blank = True  # the last line
        self._next_line = -1
        self._references: dict[str, object] = {}  # the addresses of links by their labels
        self.headings: list[Heading] = []
        self.places: list[Place] = []

    def text(self) -> str:
        return "".join(self._written).rstrip("\n")

    def add_lines(self, lines: Sequence[str], first: int) -> None:
        """Write lines of the file, of which the first has this index."""
        for index, line in enumerate(lines, first):
            self._write(line, index)

    def _write(self, shown: str, line: int) -> None:
        shown = shown.rstrip()
        if not shown and self._is_blank:
            return
        self._is_blank = not shown
        if line != self._next_line:
            self.places.append(Place(self._length, line=line + 1))
        self._next_line = line + 1 + shown.count("\n")
        self._written += (shown, "\n")
        self._length += len(shown) + 1

    def add(self, text: str, first: int) -> None:
        """Write a text that begins at the line of this index."""
        for stretch in _stretches(text):
            self._add_stretch(stretch.removesuffix("\n").split("\n"), first)
            first += stretch.count("\n")

    def _add_stretch(self, lines: list[str], first: int) -> None:
        tokens, done = _PARSER.parse("\n".join(lines), self._references), 0
        for line in self._defined_links():
            lines[line] = ""
        for index, token in enumerate(tokens):
            if token.map is None or token.type not in _SHOWN:
                continue
            start, end = token.map
            if start < done:  # in a table
                continue
            self.add_lines([_unquoted(line) for line in lines[done:start]], first + done)
            written = lines[start:end]
            if token.type == "table_open":
                for line, row in self._table_rows(tokens[index:]):
                    self._write(row, first + line)
                self._write("", first + end)
            elif token.type == "html_block":
                self.add_lines(_html_lines(written), first + start)
            elif token.type == "inline":
                self._add_inline(tokens[index - 1], token, written, first)
            elif token.type != "hr":
                self.add_lines([_unquoted(line) for line in written], first + start)
            else:
                self._write("", first + start)
            opening = tokens[index - 1] if token.type == "inline" else token
            done = max(end, opening.map[1] if opening.map else 0)
        self.add_lines([_unquoted(line) for line in lines[done:]], first + done)
        self._write("", first + len(lines))

    def _defined_links(self) -> Iterator[int]:
        """The lines of the stretch just parsed that only say where links lead that readers do not see.

        One that leads to no file or heading is a note like `[^1]: Ibid.`, or a line that only looks like one, `[Ada]: Hi`.
        """
        defined: dict[str, dict[str, Any]] = self._references.get("references", {})  # type: ignore[assignment]
        for label, link in defined.items():
            address = unquote(link["href"])
            is_place = not address or (_PLACE.search(address) and not label.startswith("^"))
            if is_place and not _is_worth_keeping(address, ""):
                yield from range(*link["map"])
            link["map"] = (0, 0)  # the next stretch has other lines

    def _add_inline(self, opening: Token, token: Token, written: list[str], first: int) -> None:
        assert token.map
        line, contents = first + token.map[0], token.content.split("\n")
        shown = _inline(token.content, self._references).split("\n")
        if opening.type == "heading_open":
            heading = " ".join(" ".join(shown).split())
            self._write("", line)
            self.headings.append(Heading(self._length, int(opening.tag[1:]), heading))
            self._write(heading, line)
            self._write("", line + 1)
            return
        # What comes before the content of each line: marks of lists and tasks, and indentation.
        marks = [mark[: len(mark) - len(content)] for mark, content in zip(written, contents, strict=False)]
        for index, text in enumerate(shown):
            self._write(_unquoted(marks[index] if index < len(marks) else "") + text, line + index)

    def _table_rows(self, tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
        """The rows of the table that begins with the first token, with the indices of their lines."""
        rows: list[list[str]] = []
        lines: list[int] = []
        for token in tokens:
            if token.type == "table_close":
                break
            if token.type == "tr_open" and token.map:
                rows.append([])
                lines.append(token.map[0])
            elif token.type == "inline":
                rows[-1].append(_inline(token.content, self._references))
        filled = [(line, row) for line, row in zip(lines, rows, strict=True) if any(map(str.strip, row))]
        written = table_lines((row for _, row in filled), int(bool(filled) and filled[0][1] is rows[0]))
        # All but the header have a line each.
        below = filled[len(filled) - len(written) :]
        yield from ((line, shown) for (line, _), shown in zip(below, written, strict=True))


def _unquoted(line: str) -> str:
    """A line without the marks of a quotation."""
    return re.sub(r"^[ \t]*(?:>[ \t]?)+", "", line)


def _stretches(text: str) -> Iterator[str]:
    """The text in parts that end at blank lines outside code."""
    start, fence = 0, ""
    position = 0
    while len(text) - start > _STRETCH and (end := text.find("\n", position)) >= 0:
        line = text[position : min(end, position + 99)]
        if match := _FENCE.match(line):
            if not fence:
                fence = match[1]
            elif match[1].startswith(fence):
                fence = ""
        if not fence and not line.strip() and end - start > _STRETCH:
            yield text[start : end + 1]
            start = end + 1
        position = end + 1
    yield text[start:]


_NOTE_LINK: Final = re.compile(r"!?\[\[([^\[\]\n]{1,400})\]\](?!\()")


def _note_link(state: StateInline, silent: bool) -> bool:
    """`[[target|shown]]`, and `![[picture.png]]` for what is shown in place."""
    if state.src[state.pos] not in "![" or not (match := _NOTE_LINK.match(state.src, state.pos)):
        return False
    target, _, shown = match[1].replace("\\|", "|").partition("|")
    is_picture = match[0].startswith("!")
    label = "" if is_picture and shown.strip("0123456789x") == "" else shown.strip()
    name = target.strip().rpartition("/")[2]
    if not silent:
        state.push("text", "", 0).content = (
            f"{label} ({name})" if label and label.casefold() != name.casefold() else name
        )
    state.pos = match.end()
    return True


_PARSER: Final = MarkdownIt("commonmark", {"maxNesting": 20}).enable(["table", "strikethrough"]).disable("inline")
_PARSER.inline.ruler.before("link", "note_link", _note_link)


def _inline(content: str, references: dict[str, object]) -> str:  # noqa: C901 - a case per kind of token
    """The text of a paragraph without marks of emphasis and comments; a link keeps its address."""
    if len(content) > _LONGEST_PARAGRAPH:
        return content
    tokens: list[Token] = []
    _PARSER.inline.parse(content, _PARSER, references, tokens)
    written: list[str] = []
    links: list[tuple[int, str]] = []
    for index, token in enumerate(tokens):
        match token.type:
            case "softbreak" | "hardbreak":
                written.append("\n")
            case "em_open" | "em_close" | "strong_open" | "strong_close" | "s_open" | "s_close":
                if token.markup == "~~" or (token.markup == "*" and _is_in_word(tokens, index)):
                    written.append(token.markup)
            case "link_open":
                links.append((len(written), unquote(str(token.attrs.get("href", "")))))
            case "link_close" if links:
                start, address = links.pop()
                if _is_worth_keeping(address, "".join(written[start:])):
                    written.append(f" ({address.removeprefix('mailto:')})")
            case "image":
                name = unquote(str(token.attrs.get("src", ""))).rpartition("/")[2]
                written.append(token.content or (name if len(name) <= _LONGEST_ADDRESS else ""))
            case "html_inline":
                written.append(_html_inline(token.content))
            case _:
                written.append(token.content)
    return "".join(written)


def _is_in_word(tokens: Sequence[Token], index: int) -> bool:
    """Whether a mark of emphasis stands between letters or digits, where it is often a sign: 5*3*2."""
    before = tokens[index - 1].content[-1:] if index else ""
    after = tokens[index + 1].content[:1] if index + 1 < len(tokens) else ""
    return (before + after).isalnum() and len(before + after) > 1


def _is_worth_keeping(address: str, label: str) -> bool:
    """Whether an address is of the world outside; readers do not see which file of theirs a link leads to."""
    bare = re.sub("^(?:mailto:|tel:|https?://)", "", address).rstrip("/")
    is_outside = bare != address.rstrip("/") or address.startswith("www.")
    return is_outside and bool(bare) and len(address) <= _LONGEST_ADDRESS and bare not in label


_PLACE: Final = re.compile(r"[/#]|^data:|\.[A-Za-z]\w*$")  # in the notes
_TAG: Final = re.compile(r"</?([A-Za-z][\w:-]*)")
_ALT: Final = re.compile(r"""\balt\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)


def _html_inline(tag: str) -> str:
    if not (match := _TAG.match(tag)):
        return ""
    name = match[1].lower()
    if name == "br":
        return "\n"
    if name == "img" and (alt := _ALT.search(tag)):
        return alt[1] or alt[2] or ""
    # What is no tag of HTML is a placeholder, as in `mbc ask <question>`.
    return "" if name in _html_tags() else tag


@cache
def _html_tags() -> frozenset[str]:
    from lxml.html import defs

    return frozenset(defs.tags) - {"html", "head", "body"}


# Lines of YAML between those of a comment: "added: v1.2.0", also of lists and lists of properties.
_COMMENTED_PROPERTIES: Final = re.compile(
    r"[ \t]*<!--[ \t]*(?:YAML)?\n(?P<lines>\w[\w-]*:(?: [^\n]*)?\n(?:(?:[ \t]+\S[^\n]*|\w[\w-]*:(?: [^\n]*)?)\n)*)[ \t]*-->\s*"
)


def _html_lines(lines: list[str]) -> list[str]:
    """The text of a block of HTML; as it is written if it is none, or holds a comment without an end."""
    from mbc_engine.text.formats.html import page_of

    text = "\n".join(lines)
    if commented := _COMMENTED_PROPERTIES.fullmatch(text):
        return ["", *commented["lines"].split("\n")]
    if "<!--" not in text and (match := _TAG.match(text.lstrip())) and match[1].lower() not in _html_tags():
        return lines
    unclosed = text.find("<!--", text.rfind("-->") + 1)
    rest = text[unclosed:] if unclosed >= 0 else ""
    shown = page_of(text.removesuffix(rest)).content(b"").text
    return [*shown.split("\n"), *rest.split("\n")] if rest else shown.split("\n")
