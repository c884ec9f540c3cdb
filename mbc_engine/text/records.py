"""Records: groups of `key: value` lines, or paragraphs below a name, that say the same of different things."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from mbc_engine.text.language import ENGLISH

_LINE: Final = re.compile(r"[^\n\s][^\n]*")
# "- length: 7.1 m", "**Built**: 1999", "berth = 3", but no utterance and no clause of a sentence.
_ENTRY: Final = re.compile(
    r"(?:[-*+•]\s+|\d+[.)]\s+)?[*_\"']{0,3}(?P<key>[^\W\d_][^\n:=;]{0,38}?)[*_\"']{0,3}\s?[:=][*_\"']{0,3}\s+"
    r"(?P<value>\S[^\n]{0,99})(?<![.!?])\s*"
)
_MARKS: Final = " \t#=-*_~>"  # of Markdown and rulers, around a label
_LONGEST_LABEL: Final = 80
_FEWEST_KEYS: Final = 2  # that records share
# A paragraph that begins with a name: "Curlew. Length 7.1 m, berth 3.", "**Curlew** - 7.1 m".
_PARAGRAPH: Final = re.compile(
    r"(?:\A|(?<=\n\n))[*_]{0,3}(?P<name>[^\W\d_](?:[\w'-]| (?=\w)){1,39})[*_]{0,3}(?:[.:]| [-\u2013\u2014])[*_]{0,3} +"
    r"(?P<rest>\S[^\n]{0,400})(?=\n\n|\n?\Z)"
)
_IN_NAMES: Final = {"a", "an", "and", "at", "by", "for", "in", "of", "on", "the", "to", "with"}
_KEY_WORD: Final = re.compile(r"(?<![\w'-])[a-z]{3,}")


def record_starts(text: str) -> list[int]:
    """Where records begin, each with the line above that names it; only those that share keys with one beside them.

    The keys of a paragraph are its words, but function words.
    """
    paragraphs = [
        (found.start(), {*_KEY_WORD.findall(found["rest"].lower())} - ENGLISH)
        for found in _PARAGRAPH.finditer(text)
        if not {*found["name"].lower().split()} & ENGLISH - _IN_NAMES  # "There is not." is no name
    ]
    return sorted({*_alike(_records_of_lines(text)), *_alike(paragraphs)})


def _alike(records: Sequence[tuple[int, set[str]]]) -> list[int]:
    alike = [len(keys & others) >= _FEWEST_KEYS for (_, keys), (_, others) in pairwise(records)]
    beside = zip([False, *alike], [*alike, False], strict=True)
    return [start for (start, _), either in zip(records, beside, strict=False) if any(either)]


def _records_of_lines(text: str) -> list[tuple[int, set[str]]]:
    lines = [
        (line.start(), line[0].strip(_MARKS), entry["key"].lower() if entry else "")
        for line in _LINE.finditer(text)
        for entry in [_ENTRY.fullmatch(text, line.start(), line.end())]
    ]
    counts = Counter(key for _, _, key in lines if key)
    # As "Vik: Berth: 3" above "Mast: 9", where a list of terms has several definitions of each.
    begins_with_name = counts[next(iter(counts), "")] == 1
    records: list[tuple[int, set[str]]] = []
    label: int | None = None
    for start, words, key in lines:
        if key and not (begins_with_name and counts[key] == 1):
            if not records or label is not None or key in records[-1][1]:
                records.append((start if label is None else label, set()))
            records[-1][1].add(key)
            label = None
        elif words:
            label = start if len(words) <= _LONGEST_LABEL and words[-1] not in ".!?," else None
    return records


def record_cells(text: str) -> list[tuple[str, str]]:
    """The keys and values of a text that is one record, after the line that names it, whose key is empty; else none."""
    lines = [line for line in _LINE.finditer(text) if line[0].strip(_MARKS)]
    entries = [_ENTRY.fullmatch(line[0]) for line in lines]
    cells = [(entry["key"], entry["value"].strip()) for entry in entries if entry]
    if len({key.lower() for key, _ in cells}) < max(len(cells), _FEWEST_KEYS) or None in entries[1:]:
        return []
    return cells if entries[0] else [("", lines[0][0].strip(_MARKS)), *cells]
