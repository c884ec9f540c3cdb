"""What has a name: what a manual says of an option, beside its name or further in below it; where a program has a name."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mbc_engine.bank.words import OPTION, SETTING, stems_of
from mbc_engine.mini.kinds.forms import IDENTIFIED
from mbc_engine.mini.kinds.passages import Item, Passage, Reply
from mbc_engine.mini.word_matching import missing
from mbc_engine.sources import content_stems
from mbc_engine.text import split_sentences
from mbc_engine.text.characters import on_one_line

_NAMED: Final = re.compile(rf"\b([\w.-]+) {SETTING}\b", re.IGNORECASE)
_ANY: Final = stems_of("option flag switch parameter argument setting variable constant value mean stand used")
_LINE: Final = re.compile(r"^[ \t]*\S[^\n]*", re.MULTILINE)
# A bullet and other names of the same: "-t, --list"
_BEFORE_NAME: Final = r"^[ \t]*(?:[-*+o\u2022][ \t]+)?[`*]*(?:-[^\s,]*(?:[ =][^\s,]+)?, *)*"
_BESIDE: Final = re.compile(r"[^\n]*?(?:[ \t]{2,}|\t|:[ \t]|[ \t][-\u2013\u2014][ \t])[ \t:]*(?=\S)")
_MOST_SENTENCES: Final = 2
# A name that is made of words: max_size, maxSize.
_IDENTIFIER: Final = re.compile(r"\b(?=[^\W\d]*(?:[^\W_]_[^\W_]|[a-z][A-Z]))[^\W\d]\w*")


def defined(question: str, passages: Sequence[Passage]) -> Reply | None:
    """What is said of the option, or the value in a program, that a question asks for.

    In the first passage that has its other words.
    """
    named = OPTION.search(question) or _NAMED.search(question)
    name = named[named.lastindex or 0] if named else next(iter(_IDENTIFIER.findall(question)), "")
    # With a word of its own, since a question without any would count with its function words.
    others = content_stems(f"option {question}") - stems_of(name) - _ANY
    begun = re.compile(
        rf"{_BEFORE_NAME}{re.escape(name)}(?![\w-])" if named else rf"{_BEFORE_VALUE}{name}(?={_VALUE})", re.MULTILINE
    )
    said_of = described if named else _remark
    for at, passage in enumerate(passages if name else ()):
        lines = [] if missing(others, passage.said) else begun.finditer(passage.text)
        if said := next(filter(None, (said_of(passage.text, *line.span()) for line in lines)), None):
            return Reply.of_sentences([Item.quoted(said, at)])
    return None


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
        for line in _LINE.finditer(passage.text):
            text = on_one_line(line[0])
            for name in _IDENTIFIER.findall(text):
                if not missing(stems, name):
                    yield _Line(name, Item.quoted(text, at), name == defined_here)


def described(text: str, start: int, end: int) -> str:
    """The first sentences of what is said of a name, which ends there in the line from `start` on; empty if nothing is.

    It stands beside the name, in the next line, or in the lines below that are further in, perhaps after other names.
    """
    name, *below = _LINE.finditer(text, start)
    beside = _BESIDE.match(text, end, name.end())
    first, last, is_flat, before = (beside.end() if beside else -1), name.end(), False, name.end()
    for line in below:
        is_named = OPTION.match(line[0].lstrip()) is not None
        is_further_in = _indent(line[0]) > _indent(name[0])
        is_next = not is_named and (first < 0 or is_flat) and text.count("\n", before, line.start()) == 1
        if is_further_in or is_next:
            first, last, is_flat = (line.start() if first < 0 else first), line.end(), not is_further_in
        elif first >= 0 or not is_named:
            break
        before = line.end()
    if first < 0:
        return ""
    sentences = split_sentences(text[first:last])[:_MOST_SENTENCES]
    return on_one_line(text[first : first + sentences[-1][1]])


def with_option(text: str, start: int, end: int) -> str:
    """A part of a text after the name of the option that it is said of, or a name with what is said of it; else empty."""
    *above, own = [line for line in _LINE.finditer(text, 0, end) if line.start() <= start]
    if OPTION.match(own[0].lstrip()) and not text[own.start() : start].strip():
        return f"{on_one_line(own[0])} {described(text, own.start(), own.end())}".rstrip()
    for line in reversed(above):
        is_next = line.end() + 1 == own.start() and not _BESIDE.match(line[0].lstrip())
        if _indent(line[0]) < _indent(own[0]) or (is_next and OPTION.match(line[0])):
            return on_one_line(f"{line[0]} {text[start:end]}") if OPTION.match(line[0].lstrip()) else ""
    return ""


def _indent(line: str) -> int:
    return len(line.expandtabs()) - len(line.expandtabs().lstrip())
