"""Files of settings: YAML, TOML and INI as they are written, comments included, with the keys above each line; XML.

Nothing is interpreted, so that no alias can expand and no tag can build anything.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from math import asin, cos, radians, sin, sqrt
from typing import TYPE_CHECKING, Any, Final

from mbc_engine.text.decoding import ByteStream, decode_file, pieces, storable
from mbc_engine.text.document import Content, Section, TextBuilder, UnreadableFile, damage_is_unreadable, day_of
from mbc_engine.text.formats.archives import parse_xml
from mbc_engine.text.formats.nested import DEEPEST, read_object
from mbc_engine.text.formats.rows import Row

if TYPE_CHECKING:
    from lxml import etree

_LONGEST_KEY: Final = 100
_BRACKETS: Final = re.compile(r"\s*\[{1,2}\s*([^\[\]]+?)\s*\]{1,2}\s*(?:[#;].*)?")
# A key without a value, or with a text in the lines below it.
_KEY: Final = re.compile(r"([\w./ \"'$@-]+?)\s*:\s*(?:[|>][+-]?\d?)?\s*(?:#.*)?")
_ITEM: Final = re.compile(r"( *)((?:- +)*)(.*)")


def read_ini(stream: ByteStream) -> Iterator[Content]:
    """The text, in sections by its headings in brackets."""
    above = ""

    def context(line: str) -> str:
        nonlocal above
        if heading := _BRACKETS.fullmatch(line):
            above = heading[1][:_LONGEST_KEY]
        return above

    return _in_sections(pieces(stream), context)


def read_yaml(stream: ByteStream) -> Iterator[Content]:
    """The text, in sections by the keys that each line is indented below."""
    above: list[tuple[int, str]] = []

    def context(line: str) -> str:
        match = _ITEM.fullmatch(line)
        if match is None or not match[3] or match[3].startswith("#"):
            return " > ".join(key for _, key in above)
        indent = len(match[1]) + len(match[2])
        while above and above[-1][0] >= indent:
            above.pop()
        keys = " > ".join(key for _, key in above)
        if (key := _KEY.fullmatch(match[3])) and len(above) < DEEPEST:
            above.append((indent, key[1].strip("\"' ")[:_LONGEST_KEY]))
        return keys

    return _in_sections(pieces(stream), context)


def _in_sections(contents: Iterator[Content], context: Callable[[str], str]) -> Iterator[Content]:
    last = ""
    for content in contents:
        sections, start = [Section(0, last)] if last else [], 0
        for line in content.text.splitlines(keepends=True):
            keys = context(line.rstrip())
            if keys != last:
                sections.append(Section(start, keys))
                last = keys
            start += len(line)
        yield replace(content, sections=tuple(sections))


def read_xml(stream: ByteStream) -> Iterator[Content | Row]:
    """Elements as objects, whose attributes and elements are their values; several of a name are rows.

    What is not well-formed, such as a feed with a bare "&", is read as it is written.
    """
    data = stream.read_all()
    try:
        with damage_is_unreadable():
            root = parse_xml(data)
            value = _value(root, 0)
    except UnreadableFile:
        value = decode_file(data)
    if isinstance(value, Mapping) and root.tag == "opml":
        text = TextBuilder()
        _add_outline(root, text, 0)
        title, date = (root.findtext(f"head/{name}") or "" for name in ("title", "dateModified"))
        yield text.content(data, day_of(date), title=title)
    elif isinstance(value, Mapping):
        yield from read_object(value)
    else:
        yield Content(value, value.encode())


def _add_outline(element: "etree._Element", text: TextBuilder, level: int) -> None:
    """The items of an outline (OPML), below headings for those that have others."""
    for child in element:
        written, *more = (child.get(name, "") for name in ("text", "_note", "xmlUrl"))
        if len(child):
            text.heading(level, written)
            text.add("\n".join(filter(None, more)))
            _add_outline(child, text, level + 1)
            text.heading(level, "")  # ends here
        elif child.tag == "outline":
            text.add(f"- {': '.join(filter(None, (written, *more)))}", "\n")


# Of a track, which has thousands.
_POINTS: Final = ("trkpt", "Trackpoint")


def _track(points: "list[etree._Element]") -> dict[str, str]:
    """What the points of a track say as a whole."""
    ends = (child for point in (points[0], points[-1]) for child in point if _name(child.tag).lower() == "time")
    times = [storable(child.text or "") for child in ends]
    said = {"points": str(len(points)), **dict(zip(("start", "end"), times, strict=False))}
    with suppress(ValueError):
        first, last = map(datetime.fromisoformat, times)
        said["duration"] = str(last - first).partition(".")[0]
    with suppress(KeyError, ValueError):
        places = [(radians(float(point.attrib["lat"])), radians(float(point.attrib["lon"]))) for point in points]
        legs = (
            sin((south - north) / 2) ** 2 + cos(south) * cos(north) * sin((west - east) / 2) ** 2
            for (south, west), (north, east) in pairwise(places)
        )
        said["distance"] = f"{sum(2 * _EARTH_RADIUS * asin(sqrt(min(1, leg))) for leg in legs):.1f} km"
    return said


_EARTH_RADIUS: Final = 6371.0  # in km


def _value(element: "etree._Element", depth: int) -> Any:
    if depth > DEEPEST:
        raise UnreadableFile("is nested too deeply")
    children = [child for child in element if isinstance(child.tag, str)]
    pairs = [*zip(children[::2], children[1::2], strict=False)]
    if element.tag == "dict" and pairs and all(key.tag == "key" for key, _ in pairs):  # of a property list
        return {
            storable(key.text or ""): _name(part.tag) if part.tag in ("true", "false") else _value(part, depth + 1)
            for key, part in pairs
        }
    # A text beside elements is a sentence with a link in it, or the like.
    beside = "".join(text or "" for text in (element.text, *(child.tail for child in children)))
    text = "" if children and not beside.strip() else storable(" ".join("".join(element.itertext()).split()))
    values: dict[str, Any] = {_name(key): storable(value) for key, value in element.items()}
    if text and not values:
        return text
    if text:
        return {**values, "": text}
    lists: dict[str, list[Any]] = {}
    points = [child for child in children if _name(child.tag) in _POINTS]
    if points:
        values |= _track(points)
    for child in children if not points else ():
        lists.setdefault(_name(child.tag), []).append(_value(child, depth + 1))
    values |= {name: several if len(several) > 1 else several[0] for name, several in lists.items()}
    return values or ""


def _name(tag: object) -> str:
    return storable(str(tag).rpartition("}")[2])
