"""What a document says of its chunks: folder, file name, title and headings, to be found and read with their text."""

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Final

from mbc_engine.text.document import MONTH_NAMES, date_in_name

_JOINT: Final = " > "
_NAME_SEPARATORS: Final = re.compile(r"[\s_\-]+")
_CAMEL_CASE: Final = re.compile(r"(?<=[a-zß-ÿ])(?=[A-Z])")
_WORD: Final = re.compile(r"\w+")
_NUMBERED: Final = re.compile(r"\S*\d\S*")
_LETTER: Final = re.compile(r"[^\W\d_]")
# Of a title or a chunk's headings; longer ones are texts in the wrong place.
LONGEST: Final = 200
_LONGEST_PATH: Final = 500


def clipped(title: str) -> str:
    """A title or headings on one line, without what exceeds `LONGEST` characters."""
    return " ".join(title[: 4 * LONGEST].split())[:LONGEST].rstrip()


def context_parts(source: str, title: str, headings: str) -> list[str]:
    """Folder, file name, title and headings, from the least to the most specific, without repetitions.

    `source` is an absolute path; anything else has no name. `headings` are joined by " > ".
    """
    return _parts(_names(source)[-2:], title, headings)


def encoded_parts(source: str, title: str, headings: str) -> list[str]:
    """As `context_parts`, without numbers, names that count a series, and the folder of all but a lone number.

    A vector hardly tells numbers apart, and what many chunks share only blurs their vectors. The words of all are found
    all the same.
    """
    *folder, name = _names(source)[-2:] or [""]
    for names in ([] if _NUMBERED.search(name) else [name], folder if name.isdecimal() else []):
        parts = [" ".join(_NUMBERED.sub(" ", part).split()) for part in _parts(names, title, headings)]
        if telling := [part for part in parts if _LETTER.search(part)]:
            return telling
    return []


def _parts(names: list[str], title: str, headings: str) -> list[str]:
    parts = [part for part in (*map(spelled_out, names), title, *headings.split(_JOINT)) if part.strip()]
    folded = [f" {' '.join(_WORD.findall(part.casefold()))} " for part in parts]
    return [
        part
        for at, part in enumerate(parts)
        if folded[at].strip() and not any(folded[at] in f for f in folded[at + 1 :])
    ]


def shortened(parts: list[str], fits: Callable[[str], bool]) -> str:
    """The parts of a context joined into one line that fits.

    If they are too long, the first is left out, then inner ones from the front, then words from the end.
    """
    left = list(parts)
    while left and not fits(line := _JOINT.join(left)):
        if len(left) == 1:
            words = line.split()[:-1]
            left = [" ".join(words)] if words else []
        else:
            del left[0 if len(left) == len(parts) or len(left) == 2 else 1]
    return _JOINT.join(left)


def context_words(source: str, title: str) -> str:
    """What a document's chunks are found by beside text and headings: all folders and the name, as written and spelled out."""
    names = _names(source)
    return " ".join([*names, *map(spelled_out, names), title])


def spelled_out(name: str) -> str:
    """A file name in words: "2024-03-12_StandUp" is "12 March 2024 Stand Up"."""
    if dated := date_in_name(name):
        day, span = dated
        year, month, *days = day.split("-")
        written = " ".join([*(str(int(number)) for number in days), MONTH_NAMES[int(month) - 1], year])
        name = f"{name[: span[0]]} {written} {name[span[1] :]}"
    return _NAME_SEPARATORS.sub(" ", _CAMEL_CASE.sub(" ", name)).strip()


def _names(source: str) -> list[str]:
    """The folders of a path, outermost first, and the file's name without its suffix; of a path that is too long, none."""
    path = PurePath(source if len(source) <= _LONGEST_PATH else "")
    if not path.is_absolute():
        return []
    return [*path.parent.parts[1:], path.stem]
