"""Names in programs: where one is that has the words of a question, and what the comment above a value says of it."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mbc_engine.bank.words import stems_of
from mbc_engine.mini.kinds.definitions import LINE, described
from mbc_engine.mini.kinds.forms import IDENTIFIED
from mbc_engine.mini.kinds.passages import Item, Passage, Reply
from mbc_engine.mini.word_matching import missing
from mbc_engine.sources import content_stems
from mbc_engine.text.characters import on_one_line

# A name that is made of words: max_size, maxSize.
_IDENTIFIER: Final = re.compile(r"\b(?=[^\W\d]*(?:[^\W_]_[^\W_]|[a-z][A-Z]))[^\W\d]\w*")
_KIND: Final = stems_of(*re.findall(r"\w{3,}", IDENTIFIED))
_DOTTED: Final = re.compile(r"\w\.\w")
_WORDS_OF_NAME: Final = 2  # at least, for what is not all that is asked


def identified(question: str, passages: Sequence[Passage]) -> Reply | None:
    """The line with a name in a program that has all words of a question: parse_header of "which function parses the header".

    The last word of "where is the page size defined" need not be in it. A name in the question has to be there as it is,
    with other key words beside it. The best line is where the name is defined, no comment and no call, then one that it
    begins, then one whose name has the fewest other words.
    """
    asks, named = question.lower().split()[:1], _IDENTIFIER.search(question)
    if _DOTTED.search(question) or (named and asks in (["which"], ["what"])):
        return None  # another one: which function calls parse_header
    wanted = content_stems(question) - _KIND
    last = stems_of(question.rsplit(maxsplit=1)[-1]) if asks == ["where"] else set[str]()
    if named:
        beside = set[str]() if asks == ["where"] else wanted - stems_of(named[0])
        lines = [
            line
            for line in _lines_with_name(content_stems(named[0]), passages)
            if line.name.lower() == named[0].lower()
        ]
        lines = [line for line in lines if not missing(beside, passages[line.item.passage].said)]
    else:
        several = (stems for stems in (wanted, wanted - last) if len(stems) >= _WORDS_OF_NAME)
        lines = next(filter(None, (list(_lines_with_name(stems, passages)) for stems in several)), [])
    return Reply.of_sentences([min(lines, key=_Line.rank).item]) if lines else None


class _Line(NamedTuple):
    """A line with a name that is looked for."""

    name: str
    item: Item
    is_defined: bool

    def rank(self) -> tuple[bool, bool, bool, int]:
        """The less, the likelier that it is the line that is asked for."""
        text = self.item.text
        is_used = f".{self.name}" in text or _COMMENT.match(f"{text}\n") is not None
        return not self.is_defined, is_used, not text.startswith(self.name), len(stems_of(self.name))


def _lines_with_name(stems: set[str], passages: Sequence[Passage]) -> Iterator[_Line]:
    """The lines that have a name with these words."""
    for at, passage in enumerate(passages):
        defined_here = passage.context.rpartition(" > ")[2]
        for line in LINE.finditer(passage.text):
            text = on_one_line(line[0])
            for name in _IDENTIFIER.findall(text):
                if not missing(stems, name):
                    yield _Line(name, Item.quoted(text, at), name == defined_here)


# export const TOP_SPEED: number = 9, #define TOP_SPEED 9, top_speed: in knots
_BEFORE_VALUE: Final = r"^[ \t]*(?:[\w#]+[ \t]+){0,3}"
_VALUE: Final = r"[ \t]*(?::[^=\n]*)?=|:[ \t]|[ \t]+[\d\"'(]"
_COMMENT: Final = re.compile(r"(?:^[ \t]*(?:#(?!\w)|//|/\*|\*|--|;)[^\n]*\n)+\Z", re.MULTILINE)
_COMMENT_SIGNS: Final = re.compile(r"^[ \t]*(?:#+|;+|//[/!]?|--|/?\*+(?!/))|\*/[ \t]*$", re.MULTILINE)
_FEWEST_WORDS: Final = 4  # of a remark; fewer are a type or a value


def _remark(text: str, start: int, end: int) -> str:
    """The comment above the line of a value, or else what stands beside its name."""
    comment = _COMMENT.search(text[:start])
    said = on_one_line(_COMMENT_SIGNS.sub("", comment[0])) if comment else described(text, start, end)
    return said if comment or len(re.findall(r"[^\W\d_]{2,}", said)) >= _FEWEST_WORDS else ""


_ASKING: Final = stems_of("value variable constant setting mean stand used")


def said_of_value(question: str, passages: Sequence[Passage]) -> Reply | None:
    """What the comment above a value says of it, or what stands beside its name, in the first passage with the other words."""
    named = _IDENTIFIER.search(question)
    others = content_stems(f"value {question}") - stems_of(named[0]) - _ASKING if named else set[str]()
    begun = re.compile(rf"{_BEFORE_VALUE}{named[0]}(?={_VALUE})", re.MULTILINE) if named else None
    for at, passage in enumerate(passages if begun else ()):
        lines = [] if begun is None or missing(others, passage.said) else begun.finditer(passage.text)
        if said := next(filter(None, (_remark(passage.text, *line.span()) for line in lines)), None):
            return Reply.of_sentences([Item.quoted(said, at)])
    return None
