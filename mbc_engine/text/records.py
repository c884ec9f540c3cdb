"""Records: groups of `key: value` lines, one below another, that say the same of different things."""

import re
from collections import Counter
from itertools import pairwise
from typing import Final

_LINE: Final = re.compile(r"[^\n\s][^\n]*")
# "- length: 7.1 m", "**Built**: 1999", "berth = 3", but no utterance and no clause of a sentence.
_ENTRY: Final = re.compile(
    r"(?:[-*+•]\s+|\d+[.)]\s+)?[*_\"']{0,3}(?P<key>[^\W\d_][^\n:=;]{0,38}?)[*_\"']{0,3}\s?[:=][*_\"']{0,3}\s+"
    r"(?P<value>\S[^\n]{0,99})(?<![.!?])\s*"
)
_MARKS: Final = " \t#=-*_~>"  # of Markdown and rulers, around a label
_LONGEST_LABEL: Final = 80
_FEWEST_KEYS: Final = 2  # that records share


def record_starts(text: str) -> list[int]:
    """Where records begin, each with the line above that names it; only those that share keys with one beside them."""
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
    alike = [len(keys & others) >= _FEWEST_KEYS for (_, keys), (_, others) in pairwise(records)]
    beside = zip([False, *alike], [*alike, False], strict=True)
    return [start for (start, _), either in zip(records, beside, strict=False) if any(either)]


def record_cells(text: str) -> list[tuple[str, str]]:
    """The keys and values of a text that is one record, after the line that names it, whose key is empty; else none."""
    lines = [line for line in _LINE.finditer(text) if line[0].strip(_MARKS)]
    entries = [_ENTRY.fullmatch(line[0]) for line in lines]
    cells = [(entry["key"], entry["value"].strip()) for entry in entries if entry]
    if len({key.lower() for key, _ in cells}) < max(len(cells), _FEWEST_KEYS) or None in entries[1:]:
        return []
    return cells if entries[0] else [("", lines[0][0].strip(_MARKS)), *cells]
