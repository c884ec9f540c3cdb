"""Clippings as Kindles keep them in "My Clippings.txt", in any language: each passage of a book, with its note."""

import re
from collections.abc import Iterator
from typing import Final

from mbc_engine.text.decoding import ByteStream, decode_file
from mbc_engine.text.document import Content, day_of

_RULE: Final = re.compile(r"^={10}[ \t]*$", re.MULTILINE)
# "Emma (Austen, Jane)", "- Your Highlight on page 3 | Location 45-46 | Added on Monday, July 31, 2017 11:11:20 PM".
_ENTRY: Final = re.compile(
    r"\s*(?P<book>\S[^\n]{0,500})\n- (?P<where>[^\n]{0,150}\d[^\n]{0,50}?) *\| *(?P<when>[^|\n]{0,100}\d[^|\n]{0,50})(?:\n|\Z)"
)
_AUTHOR: Final = re.compile(r"\([^()]*(?:\([^()]*\)[^()]*)*\)\s*\Z")
# The lines of a passage, or the one that a note is about.
_LINES: Final = re.compile(r"(?:(\d{1,9})-)?(\d{1,9})\D*\Z")


def is_clippings(beginning: bytes) -> bool:
    """Whether a text is a file of clippings."""
    head = beginning.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return bool(_RULE.search(head) and _ENTRY.match(head))


def read_clippings(stream: ByteStream) -> Iterator[Content]:
    """A document for each entry as it is written, but one for a passage and the note that comes before or after it."""
    entries: list[str] = []
    for entry in filter(None, map(str.strip, _RULE.split(decode_file(stream.read_all())))):
        entries.append(entry)
        entries[-2:] = _joined(entries[-2:])
    for number, entry in enumerate(entries, 1):
        match = _ENTRY.match(entry)
        words = match["when"].split() if match else []
        day = next((day for start in range(len(words)) if (day := day_of(" ".join(words[start:])))), None)
        title = _AUTHOR.sub("", match["book"]).strip() if match else ""
        yield Content(entry, entry.encode(), day, f"row {number}", title=title)


def _joined(entries: list[str]) -> list[str]:
    """A passage and the note about it as one entry, if two entries are these, in any order."""
    matches = [match for entry in entries if (match := _ENTRY.match(entry))]
    lines = [found for match in matches if (found := _LINES.search(match["where"]))]
    if len(matches) < 2 or len(lines) < len(matches) or matches[0]["book"] != matches[1]["book"]:
        return entries
    passage, note = sorted(zip(lines, matches, entries, strict=True), key=lambda each: not each[0][1])
    if not passage[0][1] or note[0][1] or not int(passage[0][1]) <= int(note[0][2]) <= int(passage[0][2]):
        return entries
    kind = note[1]["where"].partition("|")[0].strip()
    return [f"{passage[2]}\n\n{kind}: {note[2][note[1].end() :].strip()}"]
