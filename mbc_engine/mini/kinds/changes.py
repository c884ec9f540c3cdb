"""When something was added, removed or fixed: the version, in a list of changes, that an entry stands below."""

import re
from collections.abc import Sequence
from typing import Final

from mbc_engine.bank.words import stems_of
from mbc_engine.mini.kinds.lists import lists_in
from mbc_engine.mini.kinds.passages import Item, Passage, Reply
from mbc_engine.mini.word_matching import missing
from mbc_engine.sources import content_stems
from mbc_engine.text import split_sentences
from mbc_engine.text.characters import on_one_line
from mbc_engine.text.document import MONTH_WORDS

# As "2.1.0 (2024-03-01)", "Version 3.0, 1 May 2024" and "CHANGES FROM 2.0 TO 2.1".
_VERSION: Final = re.compile(
    rf"(?=.*?\d\.\d)(?:[^\w.]|\.(?=\w)|\(https?:[^)\s]*\)|\bv?\d\w*|\b(?:versions?|releases?|released|changes|from|to|in|{MONTH_WORDS})\b)+",
    re.IGNORECASE,
)
_LONGEST: Final = 200
_NEEDLESS: Final = stems_of("version release support officially")
_ALIKE: Final = (stems_of("add added introduce new"), stems_of("drop dropped remove"))


def changed_in(question: str, passages: Sequence[Passage]) -> Reply | None:
    """The line with a version, above the first entry with all words of a question but those known of its document."""
    wanted = content_stems(question) - _NEEDLESS
    for at, passage in enumerate(passages):
        version = next(filter(_is_version, reversed(passage.context.split(" > "))), "")
        entries = [entry for each in lists_in(passage.text) for entry in each]
        for start, end in split_sentences(passage.text):
            said = next((one.text for one in entries if one.start <= start < one.end), passage.text[start:end])
            said = on_one_line(said)
            if _is_version(said):
                version = said
                continue
            there = stems_of(said)
            lacking = missing(wanted, said)
            lacking -= {stem for stem in lacking for alike in _ALIKE if stem in alike and there & alike}
            if version and lacking < wanted and not missing(lacking, passage.context):
                return Reply(version.strip("#-=*_ "), (Item(version, at, said),), is_certain=True)
    return None


def _is_version(line: str) -> bool:
    return len(line) <= _LONGEST and _VERSION.fullmatch(line) is not None
