"""Manual pages, in roff's macros `man` and `mdoc`, as a terminal shows them."""

import re
from bisect import bisect
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from mbc_engine.text.decoding import ByteStream, decode_file
from mbc_engine.text.document import Content, TextBuilder
from mbc_engine.text.language import word_set
from mbc_engine.text.tables import table_lines

_HEADINGS: Final = {"SH": 1, "Sh": 1, "SS": 2, "Ss": 2}
_UNPRINTED: Final = word_set("Bk Dd Ek El IX Os PD RE RS Sm Xc")  # as those in small letters
_NEW_LINES: Final = word_set("br sp nf fi Bd Bl Ed El RS RE EX EE")
# From where on the ends of lines are kept, and until where.
_LITERAL: Final = {"nf": True, "EX": True, "fi": False, "EE": False, "Ed": False}
_REQUEST: Final = re.compile(r"[.'][ \t]*(\S+?)(?:[ \t]+(.*)|(?=\\\{|\\\")(.*)|)")
_COMMENTS: Final = ('.\\"', "'\\\"")
_DEFINITIONS: Final = word_set("de de1 am am1 ig")
_CONDITION: Final = re.compile(r"(.*?)(?:[ \t]+|(?=\\\{)|\Z)(.*)")
_LONGEST: Final = 10_000  # characters of a line with a condition
_ESCAPE: Final = re.compile(
    r"\\(?:f(?:\[\w*\]|\(..|.)|s[-+]?\d|[hlLovwx]'[^'\n]*'|\*(?:\[(?P<text>[^\]\n]*)\]|\((?P<string>..)|.)"
    r"|\((?P<two>..)|\[(?P<name>[^\]\n]*)\]|(?P<one>.))"
)
# What names of signs stand for; other letters behind a backslash are themselves.
_SIGNS: Final = {
    **dict(zip(("em", "en", "bu", "lq", "rq", "oq", "cq"), "\u2014\u2013\u2022\u201c\u201d\u2018\u2019", strict=True)),
    **dict(zip(("aq", "dq", "hy", "mi", "ha", "ti", "rs", "e", "~", "0"), "'\"--^~\\\\  ", strict=True)),
    **dict.fromkeys("&|^/,%c:", ""),
}
# Texts that pages are given by roff, or define themselves for roff and other printers.
_STRINGS: Final = {"Aq": "'", "lq": "\u201c", "rq": "\u201d", 'L"': "\u201c", 'R"': "\u201d", "--": "\u2014"}
_ARGUMENT: Final = re.compile(r'"((?:[^"]|"")*)"?|(\S+)')
_MDOC: Final = word_set("Fl Ar Op Nm Pa Ev Cm Dv Li Xr Sy Em No Ns Oo Oc Ql Sq Dq Pq Va Ic Xo")
_REFERENCE: Final = re.compile(r"\bXr (\S+) (\d\w*)")  # to another page
_END_OF_TABLE: Final = (".TE", ".SH", ".Sh")
_BEFORE_CLOSING: Final = re.compile(r" (?=[.,:;?!)\]](?: |\Z))")


def read_roff(stream: ByteStream) -> Iterator[Content]:
    """A manual page with its sections, titled by its `.TH` or `.Dt`."""
    data = stream.read_all()
    text, title, name, gap, is_tag, is_literal = TextBuilder(), "", "", "\n\n", False, False
    lines = deque(_shown(decode_file(data).split("\n")))
    while lines:
        command, printed = _printed(lines.popleft())
        is_literal = "-literal" in printed if command == "Bd" else _LITERAL.get(command, is_literal)
        if command == "Nm":  # without a name, the page's
            name = name or printed.rstrip(".,:; ")
            printed = printed if printed[:1].isalnum() else f"{name}{printed}"
        if level := _HEADINGS.get(command):
            text.heading(level, printed)
            gap = "\n\n"
        elif command in ("TH", "Dt"):
            page, _, rest = printed.partition(" ")
            title = f"{page}({rest.partition(' ')[0]})"
        elif command == "TS":
            table = list[str]()
            while lines and lines[0][:3] not in _END_OF_TABLE:
                table.append(lines.popleft())
            text.add_lines(table_lines(_rows(table)), gap)
            gap = "\n\n"
        elif command in ("IP", "TP", "It"):  # the next line is the text of an item, or first its name
            is_tag = command == "TP"
            text.add("" if is_tag else printed)
            gap = "\n" if printed and not is_tag else "\n\n"
        elif command.islower() or command in _UNPRINTED | _NEW_LINES:
            gap = "\n" if command in _NEW_LINES and gap == " " else gap
        elif printed:
            text.add(printed, gap)
            gap, is_tag = "\n" if is_tag or is_literal else " ", False
        else:
            gap = "\n\n"
    yield text.content(data, title=title)


def _shown(lines: Sequence[str]) -> Iterator[str]:
    """The lines without definitions, and of those with a condition what a terminal shows; all if braces do not match."""
    lines = [line for line in lines if not line.startswith(_COMMENTS)]
    shows_all = sum(line.count("\\{") - line.count("\\}") for line in lines) != 0
    ends: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        if line.startswith("."):
            ends.setdefault("." if line.startswith("..") else line[1:].strip(), []).append(number)
    blocks, hidden, holds, at = list[bool](), 0, False, 0
    while at < len(lines):
        line, at = lines[at], at + 1
        command, rest = _request(line)
        if command in _DEFINITIONS:
            name = rest.split()[int(command != "ig") :]
            closing = ends.get(name[0] if name else ".", [])
            at = next(iter(closing[bisect(closing, at - 1) :]), at - 1) + 1
            continue
        shown = line
        while command in ("if", "ie", "el") and len(line) < _LONGEST:
            condition, body = ("", rest) if command == "el" else _CONDITION.fullmatch(rest).groups()  # type: ignore[union-attr]
            holds = shows_all or (not holds if command == "el" else condition in ("n", "!t"))
            if body.startswith("\\{"):
                blocks.append(holds)
                hidden += not holds
                shown = body[2:].removeprefix("\\").strip()
            else:
                shown = body if holds else ""
            command, rest = _request(shown)
        text = shown.replace("\\}", "").strip() if "\\}" in line else shown
        if not hidden and (text not in ("", ".", "'") or not line):
            yield text
        for _ in range(min(line.count("\\}"), len(blocks))):
            holds = blocks.pop()
            hidden -= not holds


def _request(line: str) -> tuple[str, str]:
    """The name of a line's command, "" if it has none, and what follows."""
    request = _REQUEST.fullmatch(line)
    return (request[1], request[2] or request[3] or "") if request else ("", "")


def _rows(lines: Sequence[str]) -> Iterator[list[str]]:
    """The cells of a table, behind its options and the format of its columns, which ends with a full stop."""
    separator, is_format = "\t", any(line.rstrip().endswith(".") for line in lines)
    row, depth = list[str](), 0
    for line in lines:
        if is_format:
            named = re.search(r"\btab ?\((.)\)", line)
            separator = named[1] if named else separator
            is_format = not line.rstrip().endswith(".")
            continue
        if line.startswith(".T&"):
            is_format = True
            continue
        if not depth and (line.startswith(".") or not line.strip("_=")):
            continue
        row.append(line if not depth or line.startswith("T}") else f" {_printed(line)[1]}")
        depth += line.count("T{") - line.count("T}")
        if depth <= 0:
            yield _cells("".join(row), separator)
            row, depth = [], 0
    if row:
        yield _cells("".join(row), separator)


def _cells(row: str, separator: str) -> list[str]:
    cells = row.replace("T{", "").replace("T}", "").split(separator)
    return [_ESCAPE.sub(_sign, cell).strip() if cell.strip("_=") else "" for cell in cells]


def _printed(line: str) -> tuple[str, str]:
    """The command of a line, "" if it has none, and what is printed of it."""
    if line[:1] not in (".", "'"):
        return "", _ESCAPE.sub(_sign, line).strip()
    command, rest = _request(line)
    if not command or command.startswith("\\"):  # a comment
        return "ig", ""
    is_mdoc = command[1:2].islower() and not command.islower()
    rest = _REFERENCE.sub(r"Xr \1(\2)", f"{command} {rest}").partition(" ")[2] if is_mdoc else rest
    arguments = [_ESCAPE.sub(_sign, match[1] or match[2] or "") for match in _ARGUMENT.finditer(rest)]
    if len(command) == 2 and set(command) <= set("BIR"):  # in two types by turns
        return command, "".join(arguments).strip()
    if not is_mdoc:
        return command, " ".join(arguments[:1] if command == "IP" else arguments).strip()
    pairs = zip([command, *arguments], arguments, strict=False)  # a flag has a hyphen
    words = [f"-{word}" if before == "Fl" else word for before, word in pairs if word not in _MDOC]
    return command, _BEFORE_CLOSING.sub("", " ".join(words).strip())


def _sign(match: re.Match[str]) -> str:
    if string := match["text"] or match["string"]:
        return _STRINGS.get(string, "")
    return _SIGNS.get(match["two"] or match["name"] or match["one"] or "", match["one"] or "")
