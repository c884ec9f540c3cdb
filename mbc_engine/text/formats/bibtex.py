"""Bibliographies (BibTeX and BibLaTeX): each entry is a row, named by its key."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from mbc_engine.text.decoding import ByteStream, decode_file
from mbc_engine.text.document import MONTH_NAMES, Content
from mbc_engine.text.formats.latex import Printer, closing, tex_printer
from mbc_engine.text.formats.rows import Cell, Row
from mbc_engine.text.language import word_set

_ENTRY: Final = re.compile(r"@[ \t]*(\w+)\s*[{(]\s*(?:([^\s,{}()=\"#]+)\s*,)?")
_FIELD: Final = re.compile(r"[\s,]*([A-Za-z][\w-]*)\s*=\s*")
# A part of a value: in quotes, or a number or the name of a string; what stands in braces is counted.
_PART: Final = re.compile(
    r'"((?:[^"{}\\]|\\.|\{(?:[^{}\\]|\\.|\{(?:[^{}\\]|\\.)*\})*\})*)"|([^\s,{}()"#=]+)', re.DOTALL
)
_JOINED: Final = re.compile(r"\s*#\s*")
_LONGEST_STRING: Final = 500  # of a journal's name; strings may be made of strings, each longer than the one before
_MONTHS: Final = {name[:3].lower(): name for name in MONTH_NAMES}
_NO_ENTRIES: Final = word_set("comment preamble string")
_PEOPLE: Final = word_set("author editor translator")
_LEFT_OUT: Final = word_set("file timestamp owner internal-note crossref language langid options")
_FIRST: Final = ("title", "author", "editor", "year", "date")
_NAMES: Final = {
    "author": "Authors", "editor": "Editors", "translator": "Translators", "date": "Year", "journaltitle": "Journal",
    "booktitle": "Published in", "howpublished": "Published in", "publisher": "Published by", "doi": "DOI", "isbn": "ISBN", "issn": "ISSN", "url": "URL",
    "eprint": "Preprint", "archiveprefix": "Preprint in", "annote": "Note", "annotation": "Note",
}  # fmt: skip
_KINDS: Final = {
    "inproceedings": "conference paper", "conference": "conference paper", "proceedings": "conference proceedings",
    "incollection": "chapter", "inbook": "chapter", "phdthesis": "PhD thesis", "mastersthesis": "master's thesis",
    "techreport": "technical report", "misc": "", "unpublished": "unpublished",
}  # fmt: skip


def read_bibtex(stream: ByteStream) -> Iterator[Content | Row]:
    """The entries, with first names first; a file without any is read as it is written."""
    data = stream.read_all()
    text = decode_file(data)
    printed = tex_printer()
    strings: dict[str, str] = dict(_MONTHS)
    position = number = 0
    while entry := _ENTRY.search(text, position):
        position, kind = entry.end(), entry[1].lower()
        fields: dict[str, str] = {}
        while kind not in ("comment", "preamble") and (field := _FIELD.match(text, position)):
            value, position = _value(text, field.end(), strings)
            fields.setdefault(field[1].lower(), value)
        if kind == "string":
            strings |= {name: value[:_LONGEST_STRING] for name, value in fields.items()}
        elif kind not in _NO_ENTRIES and fields:
            number += 1
            shown = {name: _shown(name, value, printed) for name, value in fields.items() if name not in _LEFT_OUT}
            yield Row(number, list(_cells(kind, entry[2] or "", shown)), id=entry[2] or "")
    if not number:
        yield Content(text, data)


def _value(text: str, start: int, strings: Mapping[str, str]) -> tuple[str, int]:
    """A value, which `#` may join from parts, and where it ends."""
    parts, position = list[str](), start
    while True:
        if text.startswith("{", position):
            end = closing(text, position)
            end = len(text) if end == position else end  # nothing closes them
            parts.append(text[position + 1 : end - 1])
        elif part := _PART.match(text, position):
            end = part.end()
            parts.append(part[1] if part[1] is not None else strings.get(part[2].lower(), part[2]))
        else:
            break
        joined = _JOINED.match(text, end)
        position = joined.end() if joined else end
        if not joined:
            break
    return "".join(parts), position


def _shown(name: str, value: str, printed: Printer) -> str:
    if name in ("url", "doi", "eprint", "isbn"):
        return value.replace("\\", "").strip()
    if name in _PEOPLE:
        people = re.split(r"\s+and\s+", value.strip())
        return ", ".join(_person([printed(part) for part in _name_parts(one)]) for one in people if one.strip())
    shown = printed(value)
    return re.sub(r"(?<=\d)\u2013(?=\d)", "-", shown)


def _name_parts(name: str) -> list[str]:
    """The parts of a name between commas outside of braces."""
    parts, depth, start = list[str](), 0, 0
    for mark in re.finditer(r"\\.|[{},]", name, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(mark[0], 0)
        if mark[0] == "," and depth == 0:
            parts.append(name[start : mark.start()])
            start = mark.end()
    return [*parts, name[start:]]


def _person(parts: list[str]) -> str:
    """A name with the first name first: "Jörg Meyer Jr." of "Meyer, Jr., Jörg"; "others" as "et al."."""
    last, *middle = parts
    written = " ".join(filter(None, (*(middle[-1:]), last, *middle[:-1])))
    return "et al." if written == "others" else written


def _cells(kind: str, key: str, shown: Mapping[str, str]) -> Iterator[Cell]:
    order = sorted(shown, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    for name in order:
        label = _NAMES.get(name, name.capitalize())
        yield Cell(label, shown[name])
    yield Cell("Type", _KINDS.get(kind, kind))
    yield Cell("Cited as", key)
