"""Manual pages, in roff's macros `man` and `mdoc`, as a terminal shows them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final

from mbc_engine.text.decoding import ByteStream, decode_file
from mbc_engine.text.document import Content, TextBuilder
from mbc_engine.text.language import word_set
from mbc_engine.text.tables import table_lines

_HEADINGS: Final = {"SH": 1, "Sh": 1, "SS": 2, "Ss": 2}
_UNPRINTED: Final = word_set("Bk Dd Ek El IX Os PD RE RS Sm Xc")  # as those in small letters
_NEW_LINES: Final = word_set("br sp nf fi Bd Bl Ed El RS RE EX EE")
# From where on lines stay as they are, and until where.
_LITERAL: Final = {**dict.fromkeys(("nf", "EX", "Bd"), True), **dict.fromkeys(("fi", "EE", "Ed"), False)}
_REQUEST: Final = re.compile(r"[.'][ \t]*(\w+)[ \t]*(.*)")
_ESCAPE: Final = re.compile(
    r"\\(?:f(?:\[\w*\]|\(..|.)|s[-+]?\d|[hlLovwx]'[^'\n]*'|\*(?:\[[^\]\n]*\]|\(..|.)"
    r"|\((?P<two>..)|\[(?P<name>[^\]\n]*)\]|(?P<one>.))"
)
# What names of signs stand for; other letters behind a backslash are themselves.
_SIGNS: Final = {
    **dict(zip(("em", "en", "bu", "lq", "rq", "oq", "cq"), "\u2014\u2013\u2022\u201c\u201d\u2018\u2019", strict=True)),
    **dict(zip(("aq", "dq", "hy", "mi", "ha", "ti", "rs", "e", "~", "0"), "'\"--^~\\\\  ", strict=True)),
    **dict.fromkeys("&|^/,%c:", ""),
}
_ARGUMENT: Final = re.compile(r'"((?:[^"]|"")*)"?|(\S+)')
_MDOC: Final = word_set("Fl Ar Op Nm Pa Ev Cm Dv Li Xr Sy Em No Ns Oo Oc Ql Sq Dq Pq Va Ic Xo")
_REFERENCE: Final = re.compile(r"\bXr (\S+) (\d\w*)")  # to another page
_BEFORE_CLOSING: Final = re.compile(r" (?=[.,:;?!)\]](?: |\Z))")


def read_roff(stream: ByteStream) -> Iterator[Content]:
    """A manual page with its sections, titled by its `.TH` or `.Dt`."""
    data = stream.read_all()
    text, title, name, gap, is_tag, is_literal = TextBuilder(), "", "", "\n\n", False, False
    lines = _shown(decode_file(data).split("\n"))
    for line in lines:
        command, printed = _printed(line)
        is_literal = _LITERAL.get(command, is_literal)
        if command == "Nm":
            name = printed = printed or name
        if level := _HEADINGS.get(command):
            text.heading(level, printed)
            gap = "\n\n"
        elif command in ("TH", "Dt"):
            page, _, rest = printed.partition(" ")
            title = f"{page}({rest.partition(' ')[0]})"
        elif command == "TS":
            text.add_lines(table_lines(_rows(takewhile(lambda line: line[:3] != ".TE", lines))), gap)
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
    """The lines without definitions, and of those with a condition what a terminal shows."""
    at, holds = 0, False
    while at < len(lines):
        request, at = _REQUEST.fullmatch(lines[at]), at + 1
        command, rest = request.groups() if request else ("", "")
        if command in ("de", "ig"):
            at = next((end + 1 for end in range(at, len(lines)) if lines[end].startswith("..")), at)
        elif command in ("if", "ie", "el"):
            condition, _, body = rest.partition(" ") if command != "el" else ("", "", rest)
            holds = condition in ("n", "!t") or (command == "el" and not holds)
            block, at = _block(body.strip(), lines, at)
            if holds:
                yield from _shown(block)
        else:
            yield lines[at - 1]


def _block(first: str, lines: Sequence[str], at: int) -> tuple[list[str], int]:
    """What follows a condition, the `first` line alone or up to a closing brace, and where what comes after it begins."""
    depth, end = first.count(r"\{") - first.count(r"\}"), at
    while depth > 0 and end < len(lines):
        depth += lines[end].count(r"\{") - lines[end].count(r"\}")
        end += 1
    block = [first, *lines[at:end]] if depth <= 0 else [first]
    parts = (re.sub(r"^\\\{\\?|\\\}", "", line).strip() for line in block)
    return [part for part in parts if part not in ("", ".")], at if depth > 0 else end


def _rows(lines: Iterable[str]) -> Iterator[list[str]]:
    """The cells of a table, behind its options and the format of its columns, which ends with a full stop."""
    rows, separator = iter(lines), "\t"
    for line in rows:
        if named := re.search(r"\btab ?\((.)\)", line):
            separator = named[1]
        if line.rstrip().endswith("."):
            break
    for line in rows:
        row = line
        while row.count("T{") > row.count("T}") and (more := next(rows, None)) is not None:
            row += more if more.startswith("T}") else f" {_printed(more)[1]}"
        if row.strip("_=") and not row.startswith("."):
            cells = row.replace("T{", "").replace("T}", "").split(separator)
            yield ["" if not cell.strip("_=") else _ESCAPE.sub(_sign, cell).strip() for cell in cells]


def _printed(line: str) -> tuple[str, str]:
    """The command of a line, "" if it has none, and what is printed of it."""
    if line[:1] not in (".", "'"):
        return "", _ESCAPE.sub(_sign, line).strip()
    command, _, rest = _REFERENCE.sub(r"Xr \1(\2)", line[1:].lstrip()).partition(" ")
    if not command or command.startswith("\\"):  # a comment
        return "ig", ""
    arguments = [_ESCAPE.sub(_sign, match[1] or match[2] or "") for match in _ARGUMENT.finditer(rest)]
    if len(command) == 2 and set(command) <= set("BIR"):  # in two types by turns
        return command, "".join(arguments).strip()
    pairs = zip([command, *arguments], arguments, strict=False)  # a flag of mdoc has a hyphen
    words = [f"-{word}" if before == "Fl" else word for before, word in pairs if word not in _MDOC]
    printed = " ".join(words[:1] if command == "IP" else words).strip()
    return command, _BEFORE_CLOSING.sub("", printed) if len(words) > 1 else printed


def _sign(match: re.Match[str]) -> str:
    return _SIGNS.get(match["two"] or match["name"] or match["one"] or "", match["one"] or "")
