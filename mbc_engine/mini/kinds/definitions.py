"""What a manual says of a name: of an option the text beside or, further in, below it; of a function what is below its heading."""

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from mbc_engine.bank.words import OPTION, SETTING, stems_of
from mbc_engine.mini.kinds.passages import Item, Passage, Reply
from mbc_engine.mini.word_matching import missing
from mbc_engine.sources import content_stems
from mbc_engine.text import split_sentences
from mbc_engine.text.characters import on_one_line

_NAMED: Final = re.compile(rf"\b([\w.-]+) {SETTING}\b", re.IGNORECASE)
_ANY: Final = stems_of("option flag switch parameter argument setting mean used")
LINE: Final = re.compile(r"^[ \t]*\S[^\n]*", re.MULTILINE)
# A bullet and other names of the same: "-t, --list"
_BEFORE_NAME: Final = r"^[ \t]*(?:[-*+o\u2022\u25cb][ \t]+)?[`*]*(?:-[^\s,/]*(?:[ =][^\s,]+)?(?:,| ?/) *)*"
_BESIDE: Final = re.compile(r"[^\n]*?(?:[ \t]{2,}|\t|:[ \t]|[ \t][-\u2013\u2014][ \t])[ \t:]*(?=\S)")
_MOST_SENTENCES: Final = 2


def defined(question: str, passages: Sequence[Passage]) -> Reply | None:
    """What is said of the option that a question asks for, in the first passage that has its other words."""
    named = OPTION.search(question) or _NAMED.search(question)
    if named is None:
        return None
    name = named[named.lastindex or 0]
    # With a word of its own, since a question without any would count with its function words.
    others = content_stems(f"option {question}") - stems_of(name) - _ANY
    begun = re.compile(rf"{_BEFORE_NAME}-{{0,2}}{re.escape(name)}(?![\w-])", re.MULTILINE)
    for at, passage in enumerate(passages):
        lines = [] if missing(others, passage.said) else begun.finditer(passage.text)
        if said := next(filter(None, (_described(passage.text, *line.span()) for line in lines)), None):
            return Reply.of_sentences([Item.quoted(said, at)])
    return None


def _described(text: str, start: int, end: int) -> str:
    """What is said of a name, which ends there, beside or below it; if it has a line of its own, in the first sentence."""
    last = text.find("\n", end)
    is_alone = last >= 0 and re.fullmatch(_TYPED, text[end:last]) is not None
    return described(text, start, end) or (_answer("do", _below(text, start, last), is_type=False) if is_alone else "")


def described(text: str, start: int, end: int) -> str:
    """The first sentences of what is said of a name, which ends there in the line from `start` on; empty if nothing is.

    It stands beside the name, in the next line, or in the lines below that are further in, perhaps after other names.
    """
    name, *below = LINE.finditer(text, start)
    beside = _BESIDE.match(text, end, name.end())
    first, last, is_flat, before = (beside.end() if beside else -1), name.end(), False, name.end()
    for line in below:
        is_named = OPTION.match(line[0].lstrip()) is not None
        is_further_in = _indent(line[0]) > _indent(name[0])
        gap = 2 if first < 0 and name[0].rstrip().endswith(":") else 1
        is_next = not is_named and (first < 0 or is_flat) and text.count("\n", before, line.start()) <= gap
        if is_further_in or is_next:
            first, last, is_flat = (line.start() if first < 0 else first), line.end(), not is_further_in
        elif first >= 0 or not is_named:
            break
        before = line.end()
    if first < 0:
        return ""
    sentences = split_sentences(text[first:last])[:_MOST_SENTENCES]
    return on_one_line(text[first : first + sentences[-1][1]])


_HEADING: Final = re.compile(rf"[^\n]*:\n(?=[ \t]*{OPTION.pattern})")


def with_option(text: str, start: int, end: int) -> str:
    """A part of a text after the name of the option that it is said of, or a name with what is said of it; else empty."""
    if heading := _HEADING.match(text, start, end):  # of the options that begin below it
        start = heading.end()
    *above, own = [line for line in LINE.finditer(text, 0, end) if line.start() <= start]
    if OPTION.match(own[0].lstrip()) and not text[own.start() : start].strip():
        return f"{on_one_line(own[0])} {described(text, own.start(), own.end())}".rstrip()
    for line in reversed(above):
        is_next = line.end() + 1 == own.start() and not _BESIDE.match(line[0].lstrip())
        if _indent(line[0]) < _indent(own[0]) or (is_next and OPTION.match(line[0])):
            return on_one_line(f"{line[0]} {text[start:end]}") if OPTION.match(line[0].lstrip()) else ""
    return ""


_NAME: Final = (
    rf"(?:the )?(?P<name>(?!(?:it|this|that)\b)[\w$][\w$.]*)(?:\(\))?(?: {SETTING}| function| method| class)?"
)
_OF: Final = r"(?: (?:in|of|for) (?P<of>[\w. -]+))?\W*$"
# What does mill.open return, what is the default of speed_limit?
_ASKED: Final = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"^what (?:does|do) {_NAME} (?P<wanted>do|return|throw|raise){_OF}",
        rf"^(?:what|which) (?P<type>type) does {_NAME} (?P<wanted>return){_OF}",
        rf"^what(?:'s| is) the (?P<wanted>default)(?: value| setting)?(?: of| for)? {_NAME}{_OF}",
        rf"^(?:when|(?:in )?(?:which|what) version(?: of (?P<by>\S+))?) (?:was|is) {_NAME} (?P<wanted>added|deprecated|removed){_OF}",
    )
)
# Not "added 3 people"; else it is in entries below.
_SINCE: Final = r"(?:(?P<said>v?\d\S*)(?:$|(?<=[.:;,])| \()|$)"
_A_VERSION: Final = re.compile(r"v?\d")
_SAYS: Final = {
    "return": re.compile(r"\W*returns?(?: value)?[: ] *(?P<said>\S.*)", re.IGNORECASE),
    "throw": re.compile(r"\W*(?:throws|raises)[: ] *(?P<said>\S.*)", re.IGNORECASE),
    "raise": re.compile(r"\W*(?:throws|raises)[: ] *(?P<said>\S.*)", re.IGNORECASE),
    "added": re.compile(rf"\W*(?:added|(?:new|added) (?:in|since)(?: version)?)\b:? *{_SINCE}", re.IGNORECASE),
    "deprecated": re.compile(rf"\W*deprecated(?: (?:in|since)(?: version)?)?:? *{_SINCE}", re.IGNORECASE),
    "removed": re.compile(rf"\W*removed(?: in(?: version)?)?:? *{_SINCE}", re.IGNORECASE),
    "default": re.compile(
        r"(?:(?![-*+\u2022] ).*\W|\W*)default(?:s to|(?: value)?(?: is|:| =)) +(?!not\b)(?P<said>\S.*)", re.IGNORECASE
    ),
}
_RETURNS: Final = re.compile(r"\breturns\b|^return\b", re.IGNORECASE)
# A name that is no word: with a dot, an underscore or a capital letter inside, but no McDonald.
_CODE_NAME: Final = re.compile(r"\w[._$]\w|[a-z\d](?<!^Mc)(?<!^Mac)[A-Z]")
# What follows names on lines of their own: "open(path)", "level (String)", "RestartSec=".
_CALL: Final = r"\([^\n]*(?<![;{,])$"
_TYPED: Final = r"(?: ?[(\[{<=:][^\n]*)?(?<![;{,])$"
_OTHER: Final = re.compile(r"(?![-*+\u2022] )[^\w\n]*[\w$]+(?:[.-][\w$]+)*(?: ?[(\[][^\n]*[)\]])?[`*_]*")
_CODE: Final = re.compile(r"^[ \t]*```.*?(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY: Final = re.compile(r"[ \t]*[-*+\u2022] ")
_NO_SENTENCE: Final = re.compile(r"[-*+\u2022] |\w[\w-]*: |.*:\Z")
_FEWEST_WORDS: Final = 3
_PROPERTY: Final = re.compile(r"\n(?=[ \t|]*[\w-]+:(?:\s|\Z))")


def said_of_name(question: str, passages: Sequence[Passage]) -> Reply | None:
    """What is said below the line of a name: what it does, returns or throws, its default, and since when it is there.

    If the name heads the section that a passage is from, what it does was said in an earlier one. If
    something else is said below other lines with the name, as of functions with parameters of one name, all are quoted.
    """
    asked = next(filter(None, (form.match(question) for form in _ASKED)), None)
    if asked is None:
        return None
    name, wanted, is_type = asked["name"].rstrip("."), asked["wanted"].lower(), "type" in asked.groupdict()
    others = content_stems(f"option {asked['of'] or ''} {asked.groupdict().get('by') or ''}") - stems_of(name) - _ANY
    # Of a common word, only the line of a function will do.
    is_any = wanted not in ("do", "return") or _CODE_NAME.search(name)
    line = re.compile(
        rf"^[^\w\n]*(?:[\w$]+\.)*(?<!-){re.escape(name)}{_TYPED if is_any else _CALL}", re.MULTILINE | re.IGNORECASE
    )
    replies: dict[tuple[str, str], tuple[str, Item]] = {}
    for at, passage in enumerate(passages):
        heading, text = passage.context.rpartition(" > ")[2], passage.text
        if wanted != "do" and heading not in text:
            text = f"{heading}\n\n{text}"
        for found in [] if missing(others, passage.said) else line.finditer(text):
            if said := _answer(wanted, _below(text, *found.span()), is_type=is_type):
                sentence = on_one_line(f"{found[0]} {said}").lstrip("# ")
                own = on_one_line(found[0]).strip("#*`_ ")
                of_what = own if _ENTRY.match(found[0]) is None else heading
                replies.setdefault((passage.context, own), (of_what or own, Item(said, at, sentence)))
    return Reply.of_named(replies.values())


def _below(text: str, start: int, end: int) -> list[str]:
    """The sentences below a line, but none in code, up to the line of another name or one that is less far in.

    Of entries of a list, only the first sentences: the others are about what each names. An entry says all of its own name
    on its line or further in.
    """
    rest, own = _CODE.sub("", text[end:]), _indent(text[start:end].replace("|", " "))
    is_entry, above = _ENTRY.match(text, start, end), -1
    sentences = [text[is_entry.end() : end]] if is_entry else []
    for first, last in split_sentences(rest):
        before = rest[rest.rfind("\n", 0, first) + 1 : first].replace("|", " ")
        indent = _indent(f"{before}.")
        is_other = _OTHER.fullmatch(rest, first, last) or OPTION.match(rest, first)
        if (not before.strip() and is_other) or ((own or is_entry) and indent <= own):
            break
        if not before.strip():
            above = indent if _ENTRY.match(rest, first) else -1 if indent <= above else above
        if above < 0 or (above == indent and not before.strip()):
            sentences += [on_one_line(part).lstrip("| ") for part in _PROPERTY.split(rest[first:last])]
    return sentences


def _answer(wanted: str, below: Sequence[str], *, is_type: bool) -> str:
    """What sentences below a name say of what is wanted; of what it returns, its type and the sentence about it."""
    told = [one for one in below if len(one.split()) >= _FEWEST_WORDS and not _NO_SENTENCE.match(one)]
    if wanted == "do":
        return next(iter(told), "")
    at, found = next(((at, found) for at, one in enumerate(below) if (found := _SAYS[wanted].match(one))), (0, None))
    said = found["said"] or ", ".join(filter(_A_VERSION.match, _entries(below[at + 1 :]))) if found else ""
    said = said.rstrip(".;:,")
    if wanted == "return" and not is_type:
        more = next((one for one in told if _RETURNS.search(one) and not (said and said in one)), "")
        return ": ".join(filter(None, (said, more)))
    return said.removesuffix(")") if said.count(")") > said.count("(") else said


def _entries(below: Sequence[str]) -> list[str]:
    """The texts of those at the beginning that are entries of a list."""
    return [one.removeprefix("- ") for one in takewhile(lambda one: one.startswith("- "), below)]


def _indent(line: str) -> int:
    return len(line.expandtabs()) - len(line.expandtabs().lstrip())
