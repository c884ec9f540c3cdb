"""Kinds of question that want more than a short span, and answers to them by rule: whole lists, steps, sentences.

`kind_of` tells the kind of a question by its words; `compose` answers it from the passages found. What the rules do not
recognise or do not find is answered like any other question, a "fact", with the span that the reader found.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from typing import Final, Literal, NamedTuple

from mbc_engine.bank.words import stems_of
from mbc_engine.mini.confidence import is_of_another
from mbc_engine.sources import content_stems, sentence_around
from mbc_engine.text import split_sentences
from mbc_engine.text.characters import on_one_line
from mbc_engine.text.dates import period_in
from mbc_engine.text.document import MONTH_NAMES
from mbc_engine.text.language import canonical_question, word_set
from mbc_engine.text.records import record_cells

Kind = Literal[
    "fact", "keywords", "list", "step", "steps", "cause", "summary", "mentions", "several", "yes_no", "comparison"
]

_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_NUMBERS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_ANY_ORDINAL: Final = rf"(?:{'|'.join(_ORDINALS)}|last|final|\d+(?:st|nd|rd|th))"
_ANY_NUMBER: Final = rf"(?:\d+|{'|'.join(_NUMBERS)})"
_ASKING: Final = word_set(
    "who whom whose what which when where why how am are is was were do does did can could may might must should shall "
    "will would has have had"
)
_YOU: Final = r"(?:i|we|you|one)"
# Words in -s or before a noun that "which" and "what" do not ask for several of.
_NO_PLURAL: Final = (
    r"(?:(?:am|is|are|was|were|do|does|did|has|have|had|can|could|may|might|must|should|shall|will|would|the|an?|of|in|on|at|"
    r"to|for|by|made|this|its|his|us|gas|bus|lens|news|series|happens|causes|makes|means|becomes|comes|costs|takes|says|"
    r"lets|goes|keeps|gives|holds|needs|looks|works|runs)\b)"
)
_PLURAL: Final = rf"(?!{_NO_PLURAL})(?:\w+[^\Wsui]s|people|children|men|women)"
_NOTES: Final = (
    r"(?:notes?|files?|documents?|articles?|pages?|papers?|e-?mails?|messages?|letters?|minutes|reports?|news)"
)
# Comparatives, each with what the sentence has to speak of, and whether the larger number has it.
_CUES: Final = {
    **{f"{word}er": (word, True) for word in ("tall", "high", "long", "deep", "fast", "warm", "old", "great", "strong")},
    "bigger": ("", True), "larger": ("", True), "wider": ("wide", True), "heavier": ("weigh|heavy", True),
    "older": ("born|built|founded|old", False), "younger": ("born|built|founded", True), "newer": ("built|founded", True),
    "more": ("", True), "later": ("", True), "less": ("", False), "fewer": ("", False), "smaller": ("", False),
    "cheaper": ("", False), "lower": ("low|high", False), "earlier": ("", False), "slower": ("", False),
    "shorter": ("tall|long|short", False), "lighter": ("weigh|light", False), "colder": ("cold", False),
}  # fmt: skip
_COMPARATIVE: Final = rf"\b(?:{'|'.join(_CUES)})\b"
_BE_OR_DO: Final = r"(?:am|is|are|was|were|do|does|did|has|have|had|can|could|may|must|should|shall|will|would)"
# Tried in this order on the question in lower case, without its question mark.
_FORMS: Final[Sequence[tuple[Kind, str]]] = (
    ("mentions", rf"^(?:in )?(?:which|list|show|find|what {_NOTES})\b.*\b{_NOTES} (?:\w+ )?(?:mention|talk|speak|are|is|say|contain|refer|discuss|deal|cover|have|do i have)"),
    ("summary", rf"^what (?:do|does|did) (?:\w+ ){{0,3}}{_NOTES} (?:\w+ )?(?:say|tell|know|have)\b|^what is (?:known|said|written|new) (?:about|on|of|in|at)\b"),
    ("summary", r"^what(?: has|'s| is| else)? (?:happened|happens|happening|took place|went on)\b.*\w|^what do (?:i|we|you) (?:know|have) (?:about|on|of)\b"),
    ("summary", r"^(?:please )?(?:(?:tell|remind) (?:me|us) (?:more |all |something )?(?:about|of|what happened)|summari[sz]e|sum up|describe|outline)\b"),
    ("summary", r"^(?:please )?(?:give (?:me|us) )?(?:an? |the )?(?:short )?(?:summary|overview|outline) of\b"),
    ("comparison", rf"^(?=.* or )(?=.*{_COMPARATIVE})(?:who|which|what|where|{_BE_OR_DO})\b|^(?:compare|what (?:is|are) the differences? between)\b"),
    ("step", rf"\b{_ANY_ORDINAL} step\b|\bstep (?:number |no\. ?)?{_ANY_NUMBER}\b"),
    ("steps", rf"^how (?:to|(?:do|can|should|must|would|could) {_YOU})\b|^(?:what|which|list|show).* (?:steps|instructions)\b"),
    ("cause", r"^(?:why|how come|for what reason|what (?:is|was|were) the reasons?)\b"),
    ("list", r"^(?:list|name|enumerate|(?:show|give) me|what are|who are|who were) (?:all (?:of )?)?(?:the|every|my|our|its)\b"),
    ("list", rf"^what (?:all |else |still )?(?:(?:do|should|must|shall|can) {_YOU} (?:still )?(?:have to |need to )?(?:need|bring|pack|buy|take|wear|do)|(?:needs|has) to be done|is (?:still )?(?:left|open|to do))\b"),
    ("list", r"^what(?: was| were| is|'s| has been)? (?:added|fixed|changed|removed|deprecated)\b"),
    ("list", r"^who (?:all |else )?(?:attended|participated|took part|came to|(?:was|were|is|are) (?:all )?(?:present|there|invited|coming|attending|absent))\b"),
    ("yes_no", rf"^(?!.* or ){_BE_OR_DO}(?:n't)? (?!i am|have|has|be)\w+ \w+"),
    ("several", r"^(?:who|what|where|when) (?:(?:else|ever|just|has|have|was|were|got|did|people|they) )?(?!is\b|are\b|am\b|happen)\w+$"),
    ("list", rf"^(?:(?:at|in|on|for|from|with|of) )?(?:which|what) (?:(?!{_NO_PLURAL})\w+ ){{0,2}}?{_PLURAL}\b"),
)  # fmt: skip
# The nouns for what is in a list, which need not name it.
_GENERIC: Final = stems_of(
    "items things ingredients steps parts points need bring take list name step attended present participated came"
)
# What one does to anything: a list of steps need not say it.
_DOING: Final = stems_of("make do prepare cook bake get")


def kind_of(question: str) -> Kind:
    """The kind of a question; "fact" unless its words tell another."""
    text = canonical_question(question)[:-1]
    for kind, form in _FORMS:
        match = re.search(form, text)
        is_name = match and kind == "list" and match[0].rsplit(maxsplit=1)[-1].capitalize() in question.split()[1:]
        if match and not is_name:  # which Giants player
            return kind
    asks = question.rstrip().endswith("?") or not _ASKING.isdisjoint(text.replace("'s", " ").split())
    return "fact" if asks else "keywords"


_COUNTING: Final = stems_of(f"{' '.join((*_ORDINALS, *_NUMBERS))} last final number")


class Passage(NamedTuple):
    """A chunk that was found, what its document says of it, and the reader's best span in it, if it was read."""

    text: str
    name: str = ""  # of its document
    place: int = 0  # in the bank
    context: str = ""
    date: str | None = None
    span: tuple[int, int] | None = None
    margin: float = 0.0  # of the span over "not here"

    @property
    def said(self) -> str:
        """What its document says of it, and its text."""
        return f"{self.context}\n{self.text}"


class Item(NamedTuple):
    """A part of an answer, the index of its passage, and where it stands there."""

    text: str
    passage: int
    sentence: str


@dataclass(frozen=True)
class Reply:
    """An answer to a question of some kind.

    Attributes:
        text: None if there is none, whatever the reader found.
        items: its parts, if there are several.
        is_certain: whether the words of the question are all there, so that it does not depend on the reader.
    """

    text: str | None
    items: tuple[Item, ...] = ()
    is_certain: bool = False


# How many of the passages found are looked at; the reader has read the first few.
LOOKED_AT: Final[Mapping[Kind, int]] = {
    "list": 24, "mentions": 24, "summary": 12, "several": 10, "comparison": 8, "keywords": 6, "yes_no": 6, "cause": 6, "step": 4, "steps": 4
}  # fmt: skip
# Of these, the reader reads so many to find an answer in each, if no passage has all: `compose` them as "several".
READ: Final[Mapping[Kind, int]] = {"several": 10, "list": 8}


def compose(
    kind: Kind, question: str, passages: Sequence[Passage], best: int | None, *, is_answered: bool = False
) -> Reply | None:
    """The answer to a question of a kind; `best` is the passage with the likeliest span. None: as for a fact.

    Key words get a list of that name, or else sentences unless the reader's span `is_answered` enough.
    """
    rules: Mapping[Kind, Callable[[], Reply | None]] = {
        "list": lambda: _table_column(question, passages, best) or _whole_list(kind, question, passages, best),
        "steps": lambda: _whole_list(kind, question, passages, best),
        "step": lambda: _step(question, passages, best),
        "cause": lambda: None if best is None else _cause(question, passages[best]),
        "summary": lambda: _summary(question, passages),
        "mentions": lambda: _mentions(question, passages),
        "keywords": lambda: (
            _whole_list(kind, question, passages, None) or (None if is_answered else _keywords(question, passages))
        ),
        "several": lambda: _several(question, passages),
        "yes_no": lambda: _yes_no(question, passages, best),
        "comparison": lambda: _comparison(question, passages),
    }
    return rules[kind]() if kind in rules else None


# A line of a list: a bullet, number or box, and the item.
_ITEM: Final = re.compile(
    r"^[ \t]*(?P<mark>(?:[-*•▪◦+\u2013]|\(?\d{1,2}[.)]|[a-z]\)|step \d{1,2}[.:)]?)(?=[ \t])(?:[ \t]+\[(?P<box>[ x])\])?)"
    r"[ \t]+(?P<text>\S.*)$",
    re.IGNORECASE,
)
_NUMBERED: Final = re.compile(r"\d")
_TICKED: Final = re.compile(r"\b(?:done|finished|completed?|ticked|checked)\b")
_UNTICKED: Final = re.compile(r"\b(?:still|needs?|open|left|remaining|to ?do|undone|unfinished|pending|outstanding)\b")


class _Entry(NamedTuple):
    mark: str
    text: str
    start: int
    end: int


def _lists(text: str) -> list[list[_Entry]]:
    """The lists of a passage, an item a line or more."""
    lists: list[list[_Entry]] = []
    is_open, start = False, 0
    for line in text.splitlines(keepends=True):
        end = start + len(line.rstrip())
        if item := _ITEM.match(line.rstrip()):
            entry = _Entry(item["mark"], item["text"], start, end)
            if is_open:
                lists[-1].append(entry)
            else:
                lists.append([entry])
            is_open = True
        elif is_open and line.strip():
            last = lists[-1][-1]
            is_open = line[0] in " \t"
            if is_open:
                lists[-1][-1] = last._replace(text=f"{last.text} {line.strip()}", end=end)
        start += len(line)
    return lists


def _is_same(stem: str, other: str) -> bool:
    """Whether two stems are of one word: resett(ing) and reset."""
    short, long = sorted((stem, other), key=len)
    return short == long or (len(short) >= 4 and len(long) - len(short) <= 2 and long.startswith(short))


def missing(stems: "frozenset[str] | set[str]", text: str) -> set[str]:
    """The stems that a text has no word of, in any form."""
    there = stems_of(text)
    return {stem for stem in stems if not any(_is_same(stem, other) for other in there)}


def _whole_list(kind: Kind, question: str, passages: Sequence[Passage], best: int | None) -> Reply | None:
    """The list that the reader's span is in, or else that of which the passage says all words of the question."""
    order = [*([best] if best is not None else []), *(at for at in range(len(passages)) if at != best)]
    wanted = {stem for stem in content_stems(question) - _GENERIC - _COUNTING if not stem.isdigit()}
    if kind == "steps":
        wanted -= _DOING
    records = [{key for key, _ in record_cells(passage.text) if key} for passage in passages]
    keys = Counter(chain.from_iterable(records))
    # What several passages say under the same keys, of one thing each, is no list.
    lists = [
        (at, each)
        for at in order
        if not any(keys[key] > 1 for key in records[at])
        for each in _lists(passages[at].text)
    ]
    for at, entries in sorted(lists, key=lambda own: kind == "steps" and not _is_numbered(own[1])):
        passage, first, last = passages[at], entries[0].start, entries[-1].end
        before = passage.text[:first].rstrip().rpartition("\n\n")[2]
        title = passage.text.partition("\n")[0] if kind in ("steps", "keywords") else ""
        is_named = bool(wanted) and not missing(wanted, f"{passage.context} {title} {before}")
        if kind == "keywords" or len(entries) < 2:  # only if the line above it says so
            is_list = kind == "keywords" or (kind == "list" and not _is_numbered(entries))
            is_named = is_named and is_list and not content_stems(question).isdisjoint(stems_of(before))
        is_in = at == best and passage.span and passage.span[0] < last and passage.span[1] > first
        if is_named or (is_in and len(entries) > 1):
            return _listed(kind, question, at, entries, is_certain=is_named)
    span = passages[best].span if best is not None else None
    if best is None or span is None:
        return None
    if kind == "steps":
        return Reply(sentence_around(passages[best].text, *span))
    text, start = passages[best].text, span[0]
    end = _end_of_list(text, *span)
    edges = [start, *(edge for match in _SEPARATOR.finditer(text, start, end) for edge in match.span()), end]
    parts = [text[first:last] for first, last in zip(edges[::2], edges[1::2], strict=True)]
    if len(parts) < 2:
        return None
    sentence = sentence_around(text, *span)
    items = tuple(Item(on_one_line(part), best, sentence) for part in parts)
    first_line = text.partition("\n")[0]
    is_certain = len(items) > 2 and not missing(wanted, f"{passages[best].context} {first_line} {sentence}")
    return Reply(on_one_line(text[start:end]), items, is_certain)


def _is_numbered(entries: Sequence[_Entry]) -> bool:
    return bool(_NUMBERED.search(entries[0].mark))


def _listed(kind: Kind, question: str, at: int, entries: Sequence[_Entry], *, is_certain: bool) -> Reply:
    is_numbered = kind == "steps" and _is_numbered(entries)
    if any("[" in entry.mark for entry in entries):
        if _UNTICKED.search(question.lower()):
            entries = [entry for entry in entries if "[x]" not in entry.mark.lower()]
        elif _TICKED.search(question.lower()):
            entries = [entry for entry in entries if "[x]" in entry.mark.lower()]
    texts = [f"{entry.mark} {entry.text}" if is_numbered else entry.text for entry in entries]
    items = tuple(Item(text, at, entry.text) for text, entry in zip(texts, entries, strict=True))
    return Reply(" ".join(texts) if kind == "steps" else _joined(texts), items, is_certain)


def _joined(texts: Sequence[str]) -> str:
    separator = "; " if any(", " in text for text in texts) else ", "
    return f"{separator.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else "".join(texts)


_SEPARATOR: Final = re.compile(r"(?P<last>,? (?:and|or|as well as) )|[,;] ")
# A name, with what is said of it in brackets.
_NAME: Final = re.compile(
    r"(?:(?:the|an?) )?[A-Z\d][\w.'\u2019&-]*(?: (?:(?:of|the|de|von|van|der) )*[A-Z\d][\w.'\u2019&-]*)*(?: \([^()]*\))?"
)
_IN_BRACKETS: Final = re.compile(r" \([^()]*\)")
_LONGEST_PART: Final = 8  # words


def _end_of_list(text: str, start: int, end: int) -> int:
    """Where the list in a sentence ends that the reader's span begins; `end` if it is whole or none.

    On SQuAD, what stood before the span was seldom a part of the list.
    """
    last = next((last for first, last in split_sentences(text) if first <= start < last), end)
    last -= text[last - 1] in ".!?"
    are_names = text[start].isupper() or text.startswith("the ", start)
    said_of = _IN_BRACKETS.match(text, end, last) if are_names else None
    at, number = said_of.end() if said_of else end, len(own := list(_SEPARATOR.finditer(text, start, end)))
    if any(separator["last"] for separator in own):
        return end
    while separator := _SEPARATOR.match(text, at, last):
        following = _SEPARATOR.search(text, separator.end(), last)
        stop = following.start() if following else last
        if are_names:
            name = _NAME.match(text, separator.end(), stop)
            whole, stop = (name.end() == stop, name.end()) if name else (False, at)
        else:
            whole = True
        too_long = len(text[separator.end() : stop].split()) > _LONGEST_PART
        if stop == at or too_long or not (whole or separator["last"]):
            return end
        at, number = stop, number + 1
        if separator["last"]:
            return at if number > 1 or are_names else end
    return at if are_names and number > 1 and at == last else end


_NEGATION: Final = re.compile(r"\b(?:not|no|never|without|except|but)\b|n['\u2019]t\b", re.IGNORECASE)
_NAMED: Final = re.compile(r"(?<!^)\b[A-Z\d][\w'-]*")
_TO_VALUE: Final = re.compile(r"; (?=[^:;\n]{1,80}: )")


def _cells(text: str) -> list[list[tuple[str, str]]]:
    """The rows of a passage that `table_lines` wrote, each cell with its column; or the one record that it is."""
    rows = [[cell.partition(": ")[::2] for cell in _TO_VALUE.split(line)] for line in text.splitlines()]
    return [row for row in [*rows, record_cells(text)] if len(row) > 1 and all(value for _, value in row)]


_NAMES: Final = ("name", "title")  # of columns that say what a row is about, if the first does not


def _table_column(question: str, passages: Sequence[Passage], best: int | None) -> Reply | None:
    """The asked-for cells of all rows that have every word of the question that is a value in some row.

    If not all its words are there, the reader's span has to be in one of these rows' passages.
    """
    rows = [(at, row) for at, passage in enumerate(passages) for row in _cells(passage.text)]
    if not rows or _NEGATION.search(question):
        return None
    stems = content_stems(question)
    headers = stems_of(" ".join(column for _, row in rows for column, _ in row))
    asked = {stem for stem in stems if stem in headers} or {
        stem for stem in stems if any(stem in stems_of(passages[at].context) for at, _ in rows)
    }
    names = content_stems(" ".join(_NAMED.findall(question))) if _NAMED.search(question) else set()
    values = stems_of(" ".join(value for _, row in rows for _, value in row))
    bound = {stem for stem in stems - asked if stem in values or stem in names}
    items: dict[str, Item] = {}
    for at, row in sorted(rows, key=lambda row: passages[row[0]].place):
        if not asked or missing(bound, " ".join(value for _, value in row)):
            continue
        if not bound:  # "which boats are there?" asks for all
            columns = stems_of(f"{passages[at].context} {row[0][1]} {' '.join(column for column, _ in row)}")
            if not (asked <= columns and stems <= asked | _GENERIC):
                continue
        asked_cells = (value for column, value in row if asked & stems_of(column) and not bound & stems_of(value))
        value = next(asked_cells, next((value for column, value in row if column.lower() in _NAMES), row[0][1]))
        if not bound & stems_of(value):
            items.setdefault(value, Item(value, at, "; ".join(map(": ".join, row))))
    is_certain = stems <= asked | bound | headers | _GENERIC
    if (
        not items
        or not (bound or len(items) > 1)
        or (not is_certain and best not in {item.passage for item in items.values()})
    ):
        return None
    is_cut = len(passages) >= LOOKED_AT["list"] and len(items) > len(passages) // 2  # there may be more in others
    text = "; ".join([*items, "…"]) if is_cut else _joined([*items])
    return Reply(text, tuple(items.values()), is_certain)


_BECAUSE: Final = re.compile(
    r"\b(?:because(?: of)?|due to|owing to|thanks to|as a result of|in order to|so that|since)\s+", re.IGNORECASE
)
_CLAUSE_END: Final = re.compile(r"[;:,]|[.!?](?=\s|$)| \(| [-\u2013\u2014] ")


def _cause(question: str, passage: Passage) -> Reply | None:
    """The whole clause after "because" and the like that the reader's span is in.

    If its sentence gives no reason, that of the sentence which says most of what is asked.
    """
    if passage.span is None:
        return None
    text, (start, end) = passage.text, passage.span
    first, last = next(((a, b) for a, b in split_sentences(text) if a <= start < b), (start, end))
    if not _BECAUSE.search(text, first, last):
        wanted = content_stems(question)
        reasons = [match for span in split_sentences(text) if (match := _BECAUSE.search(text, *span))]
        said = {len(missing(wanted, sentence_around(text, *reason.span()))): reason for reason in reasons}
        if not said or min(said) > min(len(wanted) - 1, len(missing(wanted, text[first:last]))):
            return None
        start = end = said[min(said)].end()
        first, last = next((a, b) for a, b in split_sentences(text) if a <= start <= b)
    before = [match for match in _BECAUSE.finditer(text, first, last) if match.start() <= start + 1]
    if not before or _CLAUSE_END.search(text, before[-1].end(), start):
        return None
    begin = min(start, before[-1].end())
    stop = _CLAUSE_END.search(text, end, last)
    return Reply(on_one_line(text[begin : stop.start() if stop else max(last, end)]))


_WORDS_OF_NUMBERS: Final = {
    **{word: at for at, word in enumerate(_ORDINALS, 1)},
    **{word: at for at, word in enumerate(_NUMBERS, 1)},
}


def _step(question: str, passages: Sequence[Passage], best: int | None) -> Reply | None:
    """One step of the list that the question names."""
    listed = _whole_list("steps", question, passages, best)
    if listed is None or not listed.items:
        return None
    named = re.search(rf"\b({_ANY_ORDINAL}) step\b|\bstep (?:number |no\. ?)?({_ANY_NUMBER})\b", question.lower())
    word = (named[1] or named[2]) if named else ""
    digits = re.match(r"\d+", word)
    number = int(digits[0]) if digits else _WORDS_OF_NUMBERS.get(word, len(listed.items))
    if not 1 <= number <= len(listed.items):
        return None
    item = listed.items[number - 1]
    return Reply(item.sentence, (item,), listed.is_certain)


# What the words of a question name, apart from what it asks.
_ABOUT: Final = stems_of(
    "happen happened happening happens tell told remind say says said know known note notes file files document "
    "documents article articles page pages news new newest latest summary summarise summarize overview outline "
    "describe mention mentions talk speak contain refer discuss cover deal written took place went list show find "
    "please everything something anything say else"
)


def search_text(question: str) -> str:
    """What to search for: of a question for all about something, only what that is."""
    stems, _ = _topic(question)
    if kind_of(question) not in ("summary", "mentions") or not stems:
        return question
    return " ".join(
        word for word in question.split() if not stems.isdisjoint(stems_of(word)) or not stems_of(word) & _ABOUT
    )


def _topic(question: str) -> tuple[set[str], set[str]]:
    """The stems of what a question is about, and those of them that are names or numbers."""
    stems = content_stems(question) - _ABOUT
    named = " ".join(_NAMED.findall(question))
    return stems, (content_stems(named) & stems if named else set())


class _Sentence(NamedTuple):
    passage: int
    at: int
    text: str


_FEWEST_WORDS, _MOST_SENTENCES, _MOST_QUOTED, _ENOUGH_CHARACTERS = 4, 5, 3, 500


def _sentences(passages: Sequence[Passage], *, joins: bool = False) -> list[_Sentence]:
    """The sentences of passages, without headings, questions and those of a few words.

    If it `joins` these, they belong to what stands beside them on their line, and a question to what answers it.
    """
    sentences: list[_Sentence] = []
    for number, passage in enumerate(passages):
        end = None  # of the last one
        for at, (first, last) in enumerate(split_sentences(passage.text)):
            text = on_one_line(passage.text[first:last])
            before = sentences[-1].text if joins and end is not None and not text.endswith("?") else ""
            is_beside = before and "\n" not in passage.text[end:first]
            if before.endswith("?") or (is_beside and (_is_fragment(before) or _is_fragment(text))):
                sentences[-1] = sentences[-1]._replace(text=f"{before} {text}")
            else:
                sentences.append(_Sentence(number, at, text))
            end = last
    return [sentence for sentence in sentences if not _is_fragment(sentence.text)]


def _is_fragment(text: str) -> bool:
    return len(text.split()) < _FEWEST_WORDS or text.endswith("?")


def _summary(question: str, passages: Sequence[Passage]) -> Reply | None:
    """The sentences that say most of what the question is about, from the passages that are about it."""
    stems, names = _topic(question)
    period = period_in(question)
    if period:
        stems = {stem for stem in stems if not stem.isdigit() and stem not in _MONTHS}
    if not stems and not period:
        return None
    lacking = {
        at: missing(stems, own.said)
        for at, own in enumerate(passages)
        if period is None or period.is_named_in(f"{own.said} {own.date or ''}")
    }
    fewest = min(map(len, lacking.values()), default=len(stems) + 1)
    if fewest > len(stems) / 2:
        return None
    about = [at for at, lacks in lacking.items() if len(lacks) == fewest and not names & lacks]
    scored = []
    for sentence in _sentences(passages):
        if sentence.passage not in about:
            continue
        in_context = len(stems) - len(missing(stems, passages[sentence.passage].context))
        in_sentence = len(stems) - len(missing(stems, sentence.text))
        share = (in_sentence + 0.5 * in_context) / max(len(stems), 1)
        early = 1 / (2 + sentence.at) + 1 / (2 + about.index(sentence.passage))
        if in_sentence or in_context == len(stems):
            scored.append((share + early - bool(_cells(sentence.text)), sentence))
    best = [sentence for _, sentence in sorted(scored, key=lambda one: -one[0])]
    lengths = accumulate(len(sentence.text) for sentence in best)
    enough = 1 + sum(length < _ENOUGH_CHARACTERS for length in lengths)
    chosen = sorted(best[: max(2, min(enough, _MOST_SENTENCES))])
    chosen = [one for at, one in enumerate(chosen) if one.text not in {other.text for other in chosen[:at]}]
    items = tuple(Item(one.text, one.passage, one.text) for one in chosen)
    return Reply(" ".join(item.text for item in items), items, is_certain=True) if items else None


_MONTHS: Final = stems_of(" ".join(MONTH_NAMES))


def _mentions(question: str, passages: Sequence[Passage]) -> Reply | None:
    """The documents that have every word of what the question is about, each with the sentence that has most."""
    items = tuple(Item(passages[at].name, at, sentence) for at, sentence in _with_all(_topic(question)[0], passages))
    return Reply(_joined([item.text for item in items]), items, is_certain=True) if items else None


def _keywords(question: str, passages: Sequence[Passage]) -> Reply | None:
    """The sentences with most of a query's words, from the best documents that have all."""
    found = islice(_with_all(content_stems(question), passages), _MOST_QUOTED)
    items = tuple(Item(sentence, at, sentence) for at, sentence in found)
    return Reply(" ".join(item.text for item in items), items, is_certain=True) if items else None


def _with_all(stems: set[str], passages: Sequence[Passage]) -> Iterator[tuple[int, str]]:
    """The first passage of each document that has all words, with the sentence that has most."""
    seen = set[str]()
    for at, passage in enumerate(passages):
        if not stems or passage.name in seen or missing(stems, passage.said):
            continue
        seen.add(passage.name)
        own = [one.text for one in _sentences([passage])] or [on_one_line(passage.text)]
        yield at, min(own, key=lambda text: len(missing(stems, text)))


# Of a span over "not here", in a sentence with the words of the question.
_LEAST_MARGIN: Final = -1.0


def _several(question: str, passages: Sequence[Passage]) -> Reply | None:
    """What the reader found in each passage whose sentence has the words of the question; the newest first."""
    wanted = content_stems(question) - _GENERIC
    found: dict[str, Item] = {}
    dates = [passage.date for passage in passages]
    is_dated = len({*dates} - {None}) > 1
    order = sorted(range(len(passages)), key=lambda at: passages[at].place)
    if is_dated:
        order.sort(key=lambda at: dates[at] or "", reverse=True)
    for at in order:
        passage = passages[at]
        if passage.span is None or passage.margin < _LEAST_MARGIN:
            continue
        sentence, text = (
            sentence_around(passage.text, *passage.span),
            on_one_line(passage.text[slice(*passage.span)]),
        )
        if not missing(wanted, sentence):
            found.setdefault(text.lower().removeprefix("the "), Item(text, at, sentence))
    items = tuple(found.values())
    return Reply(_joined([item.text for item in items]), items, is_certain=True) if len(items) > 1 else None


_PRONOUN: Final = re.compile(r"(?:he|she|it|they|this|these|its|her|his|their)\b", re.IGNORECASE)
_HEDGE: Final = re.compile(
    r"\b(?:only|unless|except|without|if|may|might|could|would|plan(?:s|ned)?|hopes?|hoped|wants?|wanted|almost|nearly|"
    r"refus\w+|den(?:y|ies|ied)|fail\w*|instead|rumou?r\w*|alleged\w*|claim\w*|said|says|whether|until)\b",
    re.IGNORECASE,
)
_NOT: Final = re.compile(
    r"\b(?:not|never|no|nobody|none|neither|nor|cannot|forbidden|prohibited)\b|n['\u2019]t\b", re.IGNORECASE
)
_CLAUSE: Final = re.compile(
    r"[,;:()\u2013\u2014]|[.!?] |\b(?:and|but|or|although|though|while|who|which|that|because|since|where|when|after|before)\b"
)
_PAST, _PRESENT = re.compile(r"\b(?:was|were|had|did)\b"), re.compile(r"^(?:am|is|are|do|does|has|have|can|may)\b")


_ENOUGH: Final = 2 / 3  # of the words of a question
_ALLOWING: Final = stems_of("allowed permitted possible okay able take bring use")
# An answer to a question in a text, and a cell of a table.
_SAID: Final = re.compile(r"\?\W+(?:[^?.:]{1,40}: )?(yes|no)\b", re.IGNORECASE)
_CELL: Final = re.compile(r"(?:^|; )(?P<column>[^:;]+): (?P<value>yes|no)(?=;|$)", re.IGNORECASE)
_UNTICKED_BOX: Final = re.compile(r"\W*(?:\[ \]|\u2610)")


def _yes_no(question: str, passages: Sequence[Passage], best: int | None) -> Reply | None:
    """Yes or no if a clause has all that is asked, in the same order and beyond doubt, or if it was asked there.

    Else the sentence that has it; and if none has all, that with what the reader found.
    """
    wanted = content_stems(question) - _ALLOWING or content_stems(question)
    _, names = _topic(question)
    is_other = [is_of_another(question, own.said, own.date) for own in passages]
    sentences = [one for one in _sentences(passages, joins=True) if not is_other[one.passage]]
    lacking = [missing(wanted, sentence.text) for sentence in sentences]
    found: list[tuple[float, int, set[str]]] = []
    for at, sentence in enumerate(sentences):
        is_after = at and sentences[at - 1].passage == sentence.passage and "?" not in sentence.text
        before = sentences[at - 1].text if is_after else ""
        about = missing(lacking[at], f"{passages[sentence.passage].context} {before}")
        shared = sum(_weight(stem, lacking) for stem in wanted - lacking[at])
        known = sum(_weight(stem, lacking) for stem in lacking[at] - about)
        if shared:
            found.append((shared + 0.5 * known - len(names & about), -at, about))
    if not found or len(about := max(found)[2]) > len(wanted) * (1 - _ENOUGH):
        read = passages[best].span if best is not None else None
        return Reply(sentence_around(passages[best].text, *read)) if best is not None and read else Reply(None)
    sentence = sentences[-max(found)[1]]
    verdict = None if about else _stated(wanted, sentence.text) or _verdict(question, sentence.text)
    item = Item(sentence.text, sentence.passage, sentence.text)
    return Reply(verdict or sentence.text, (item,), is_certain=not about)


def _stated(wanted: set[str], sentence: str) -> str | None:
    """The yes or no that answers a question in the text, or is the value of a column that the question names."""
    said = _SAID.search(sentence)
    cells = [cell["value"] for cell in _CELL.finditer(sentence) if not wanted.isdisjoint(stems_of(cell["column"]))]
    given = said[1] if said else cells[0] if len(cells) == 1 else None
    return given and given.capitalize()


def _weight(stem: str, lacking: Sequence[set[str]]) -> float:
    """The inverse document frequency of a word among sentences that lack these."""
    return math.log((len(lacking) + 1) / (sum(stem not in each for each in lacking) + 0.5))


def _verdict(question: str, sentence: str) -> Literal["Yes", "No"] | None:
    """What a sentence says to a question beyond doubt."""
    asked = canonical_question(question)[:-1]
    order = [
        stem
        for word in re.findall(r"[\w-]+", question)
        for stem in content_stems(word)
        if stem in content_stems(question)
    ]
    if "?" in sentence or _NOT.search(asked) or (_PRESENT.match(asked) and _PAST.search(sentence)):
        return None
    edges = [0, *(edge for match in _CLAUSE.finditer(sentence) for edge in match.span()), len(sentence)]
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        words = re.findall(r"[\w'\u2019-]+", sentence[start:end])
        if start == edges[0] and _PRONOUN.match(sentence):  # it may be anybody before it
            needed = [stem for stem in order if stem not in content_stems(" ".join(_NAMED.findall(question)) or "the")]
        else:
            needed = order
        places: list[int] = []
        for stem in needed:
            place = next((at for at in range((places or [-1])[-1] + 1, len(words)) if _has(words[at], stem)), None)
            if place is None:
                break
            places.append(place)
        if len(places) < len(needed) or not places:
            continue
        span, before = words[places[0] : places[-1] + 1], words[max(0, places[0] - 3) : places[0]]
        clause, asked_words = " ".join([*before, *span]), asked.split()
        is_owned = any(re.search(r"['\u2019]s?$", words[at]) for at in places) or "of" in before
        hedges = {hedge.lower() for hedge in _HEDGE.findall(sentence)}
        is_loose = len(span) > len(needed) + 4 or (is_owned and "of" not in asked_words and "'s" not in asked)
        is_no = _NOT.search(clause) or _UNTICKED_BOX.match(sentence)
        if is_loose or not hedges <= {*asked_words} or (_NOT.search(sentence[start:end]) and not is_no):
            return None
        return "No" if is_no else "Yes"
    return None


def _has(word: str, stem: str) -> bool:
    return any(_is_same(stem, other) for other in stems_of(word))


_ALTERNATIVES: Final = re.compile(
    r"\b(?:differences? between|compare) (?P<one>.+?) (?:and|with|to) (?P<other>.+)$"
    r"|(?:^|[,:] )(?P<left>[^,:]+?),? or (?P<right>[^,:]+)$",
    re.IGNORECASE,
)
_QUANTITY: Final = re.compile(
    r"(?<![\w.,])(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?:[ -]?([^\W\d_]+|[%\u20ac$\u00a3]))?"
)


def _comparison(question: str, passages: Sequence[Passage]) -> Reply | None:
    """Which of two has more, if the numbers of both stand there in the same unit; else a sentence about each."""
    match = _ALTERNATIVES.search(question.strip().rstrip("?!. "))
    if match is None:
        return None
    left, right = (match["one"] or match["left"], match["other"] or match["right"])
    comparative = re.search(_COMPARATIVE, question.lower())
    left = re.sub(rf"^(?:.*?{_COMPARATIVE}(?: \w+)? |{_BE_OR_DO} )", "", left, flags=re.IGNORECASE)
    right = re.sub(rf" {_COMPARATIVE}.*$", "", right, flags=re.IGNORECASE)
    own = [content_stems(left) - content_stems(right), content_stems(right) - content_stems(left)]
    cue, is_larger = _CUES[comparative[0]] if comparative else ("", True)
    shared = (
        content_stems(question)
        - content_stems(f"{left} {right}")
        - (content_stems(comparative[0]) if comparative else set())
    )
    sentences = [(one, passages[one.passage].context) for one in _sentences(passages)]
    found: list[tuple[_Sentence, str]] = []
    for stems in own:
        fitting = [
            (one, context)
            for one, context in sentences
            if stems and not missing(stems, f"{context} {one.text}") and missing(stems, context)
        ]
        if not fitting:
            return None
        found.append(min(fitting, key=lambda own: _unlike(own[0].text, own[1], shared, cue)))
    items = tuple(Item(one.text, one.passage, one.text) for one, _ in dict.fromkeys(found))
    numbers = [_quantity(one.text, stems, shared) for (one, _), stems in zip(found, own, strict=True)]
    lacking = [_unlike(one.text, context, shared - _COMPARING, cue) for one, context in found]
    is_said = not any(no_cue or (words and not cue) for words, no_cue, _ in lacking)
    is_said &= bool(comparative or shared - _COMPARING)
    if comparative and all(numbers) and is_said:
        (one, unit), (other, other_unit) = (number for number in numbers if number)
        if unit == other_unit and one != other:
            return Reply(left if (one > other) == is_larger else right, items, is_certain=True)
    return Reply(" ".join(item.text for item in items), items, is_said)


def _unlike(sentence: str, context: str, shared: set[str], cue: str) -> tuple[int, bool, bool]:
    """How many of the words that two things share a sentence about one lacks, and whether it lacks cue and number."""
    return len(missing(shared, f"{context} {sentence}")), not re.search(cue, sentence), not re.search(r"\d", sentence)


_COMPARING: Final = stems_of("compare difference differences between")


def _quantity(sentence: str, stems: set[str], shared: set[str]) -> tuple[float, str] | None:
    """The first number after the words with these stems, and its unit; a year has none.

    In a row of a table, the only number, or the only one whose column has a `shared` word, and that column.
    """
    if row := next(iter(_cells(sentence)), None):
        cells = [(column, number) for column, value in row if (number := _QUANTITY.fullmatch(value))]
        cells = [cell for cell in cells if shared & stems_of(cell[0])] or cells
        return (float(cells[0][1][1].replace(",", "")), cells[0][0]) if len(cells) == 1 else None
    places = [match.end() for match in re.finditer(r"[\w-]+", sentence) if any(_has(match[0], stem) for stem in stems)]
    number = _QUANTITY.search(sentence, places[0]) if places else None
    if number is None:
        return None
    value = float(number[1].replace(",", ""))
    is_year = (
        number[1].isdigit() and 1000 < value < 2100 and re.search(r"\b(?:in|since|of) $", sentence[: number.start()])
    )
    return value, "" if is_year else (number[2] or "")
