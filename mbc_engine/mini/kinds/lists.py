"""Answers that are lists, or one step of them: lists as they were written, lists in a sentence, columns of tables."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Final, NamedTuple

from mbc_engine.bank.words import stems_of
from mbc_engine.mini.kinds.definitions import with_option
from mbc_engine.mini.kinds.forms import ANY_ORDINAL, LOOKED_AT, NUMBERS, STEP, Kind
from mbc_engine.mini.kinds.passages import (
    GENERIC,
    NAMED,
    Item,
    Passage,
    Reply,
    Row,
    joined,
    table_rows,
    with_introduced,
)
from mbc_engine.mini.word_matching import NEGATION, ORDINALS, missing
from mbc_engine.sources import content_stems, sentence_around
from mbc_engine.text import split_sentences
from mbc_engine.text.characters import on_one_line
from mbc_engine.text.chunks import record_cells

# What one does to anything: a list of steps need not say it.
_DOING: Final = stems_of("make do prepare cook bake get")
_COUNTING: Final = stems_of(f"{' '.join((*ORDINALS, *NUMBERS))} last final number")
# A line of a list: a bullet, number or box, and the item.
_ITEM: Final = re.compile(
    r"^[ \t]*(?P<mark>(?:[-*•▪◦+\u2013]|\(?\d{1,2}[.)]|[a-z]\)|step \d{1,2}[.:)]?)(?=[ \t])(?:[ \t]+\[(?P<box>[ x])\])?)"
    r"[ \t]+(?P<text>\S.*)$",
    re.IGNORECASE,
)
# Not hours or euros, of which an entry tells a number.
_HOW_MANY: Final = re.compile(
    r"\W*how many (?!(?:hours|minutes|seconds|euros|dollars|pounds|cents|grams|kilos?|kilograms|lit(?:er|re)s|met(?:er|re)s|"
    r"kilomet(?:er|re)s|miles|degrees|percent|points)\b)(?P<what>\w+)",
    re.IGNORECASE,
)
# Of the line above a list of members: "The old members of the club:", but not "Members pay by:" or "Rules for members:".
_BEFORE_COUNTED: Final = r"(?:\A|\n)[^\w\n]*(?:(?:the|an?|all|my|our) )?(?:(?!(?:for|of|with|without|besides)\b)\w+ )?"
_AFTER_COUNTED: Final = r"(?: (?:of|in|at|on|for|to|with|who|that|which|are|were)\b[^.\n]*)?[^\w\n]*\Z"
_SURELY_WHOLE: Final = 500  # characters: no chunk ends earlier but with its document
_TICKED: Final = re.compile(r"\b(?:done|finished|completed?|ticked|checked)\b")
_UNTICKED: Final = re.compile(r"\b(?:still|needs?|open|left|remaining|to ?do|undone|unfinished|pending|outstanding)\b")


class _Entry(NamedTuple):
    mark: str
    text: str
    start: int
    end: int


def lists_in(text: str) -> list[list[_Entry]]:
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


def whole_list(kind: Kind, question: str, passages: Sequence[Passage], best: int | None) -> Reply | None:
    """The list that the reader's span is in, or else that of which the passage says all words of the question."""
    order = [*([best] if best is not None else []), *(at for at in range(len(passages)) if at != best)]
    wanted = {stem for stem in content_stems(question) - GENERIC - _COUNTING if not stem.isdigit()}
    if kind == "steps":
        wanted -= _DOING
    records = [{key for key, _ in record_cells(passage.text) if key} for passage in passages]
    keys = Counter(chain.from_iterable(records))
    # What several passages say under the same keys, of one thing each, is no list.
    lists = [
        (at, each)
        for at in order
        if not any(keys[key] > 1 for key in records[at])
        for each in lists_in(passages[at].text)
    ]
    for at, entries in sorted(lists, key=lambda placed: kind == "steps" and not _is_numbered(placed[1])):
        passage, first = passages[at], entries[0].start
        before = passage.text[:first].rstrip().rpartition("\n\n")[2]
        title = passage.text.partition("\n")[0] if kind in ("steps", "keywords") else ""
        is_prose = kind == "list" and 2 * sum(len(split_sentences(entry.text)) > 1 for entry in entries) > len(entries)
        if is_prose and before.endswith("."):  # numbered clauses, not what the text before them names
            continue
        is_named = bool(wanted) and not missing(wanted, f"{passage.context} {title} {before}")
        if kind == "keywords" or len(entries) < 2:  # only if the line above it says so
            is_list = kind == "keywords" or (kind == "list" and not _is_numbered(entries))
            is_named = is_named and is_list and not content_stems(question).isdisjoint(stems_of(before))
        if kind == "steps" and not (_is_numbered(entries) or before.endswith(":") or before == title):
            continue  # things to choose from, or parts of something
        of_one = wanted if kind == "list" else set[str]()
        is_in = (
            at == best and not is_prose and _asks_for_all(of_one, f"{passage.context} {before}", entries, passage.span)
        )
        if is_named or (is_in and len(entries) > 1):
            whole = (
                _continued(at, entries, lists, passages) if _is_numbered(entries) else [(at, one) for one in entries]
            )
            return _listed(kind, question, whole, is_certain=is_named)
    span = passages[best].span if best is not None else None
    if best is None or span is None:
        return None
    if kind == "steps":
        text = passages[best].text
        around = [each for each in split_sentences(text) if each[0] < span[1] and each[1] > span[0]]
        first, last = around[0][0], around[-1][1]
        option, context = with_option(text, first, last), passages[best].context
        heading = context.rpartition(" > ")[2]
        is_certain = not missing(wanted, f"{context} {option}" if option else heading) and bool(option or wanted)
        return Reply(option or with_introduced(text, first, last), is_certain=is_certain)
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


def _asks_for_all(wanted: set[str], above: str, entries: Sequence[_Entry], span: tuple[int, int] | None) -> bool:
    """Whether a span is in a list, and not in the only entry that says what is wanted, if nothing above the list does."""
    own = [entry.text for entry in entries if span and entry.start < span[1] and entry.end > span[0]]
    others = " ".join([above, *(entry.text for entry in entries if entry.text not in own)])
    return len(own) > 1 or (len(own) == 1 and missing(wanted, others) <= missing(wanted, own[0]))


def length_of_list(question: str, passages: Sequence[Passage]) -> Reply | None:
    """How many entries the list has of which the line above says what a question counts, unless it may be cut."""
    asked = _HOW_MANY.match(question)
    listed = whole_list("keywords", question[asked.start("what") :], passages, None) if asked else None
    if asked is None or listed is None or len(listed.items) < 2:
        return None
    first, *_, last = listed.items
    text = passages[first.passage].text
    above = text[: text.find(first.sentence)].rstrip("-*\u2022 \t\n0123456789.)[]").rpartition("\n\n")[2]
    is_cut = len(text) > _SURELY_WHOLE and text.rstrip().endswith(last.sentence)
    is_counted = re.search(rf"{_BEFORE_COUNTED}{asked['what']}{_AFTER_COUNTED}", above, re.IGNORECASE) is not None
    return Reply(str(len(listed.items)), listed.items, is_certain=True) if is_counted and not is_cut else None


def _is_numbered(entries: Sequence[_Entry]) -> bool:
    return _number(entries[0]) >= 0


def _continued(
    at: int, entries: Sequence[_Entry], lists: Sequence[tuple[int, list[_Entry]]], passages: Sequence[Passage]
) -> list[tuple[int, _Entry]]:
    """A numbered list with those of the chunks before and after it whose numbers go on, each entry with its passage."""
    whole, others = [(at, entry) for entry in entries], [[(place, entry) for entry in each] for place, each in lists]

    def follows(later: tuple[int, _Entry], earlier: tuple[int, _Entry]) -> bool:
        one, other = passages[later[0]], passages[earlier[0]]
        is_next = one.name == other.name and one.place == other.place + 1
        return is_next and _number(later[1]) == _number(earlier[1]) + 1

    for _ in others:
        before = next((each for each in others if follows(whole[0], each[-1])), [])
        after = next((each for each in others if follows(each[0], whole[-1])), [])
        if not before and not after:
            break
        whole = [*before, *whole, *after]
    return whole


def _number(entry: _Entry) -> int:
    digits = re.search(r"\d+", entry.mark)
    return int(digits[0]) if digits else -1


def _listed(kind: Kind, question: str, entries: Sequence[tuple[int, _Entry]], *, is_certain: bool) -> Reply:
    """A list's entries, each with its passage; of those with boxes, the ones that the question asks for."""
    is_numbered = kind == "steps" and _number(entries[0][1]) >= 0
    if any("[" in entry.mark for _, entry in entries):
        if _UNTICKED.search(question.lower()):
            entries = [entry for entry in entries if "[x]" not in entry[1].mark.lower()]
        elif _TICKED.search(question.lower()):
            entries = [entry for entry in entries if "[x]" in entry[1].mark.lower()]
    texts = [f"{entry.mark} {entry.text}" if is_numbered else entry.text for _, entry in entries]
    items = tuple(Item(text, at, entry.text) for text, (at, entry) in zip(texts, entries, strict=True))
    return Reply(" ".join(texts) if kind == "steps" else joined(texts), items, is_certain)


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
    said_of = _IN_BRACKETS.match(text, end, last) if are_names or text[start].isdigit() else None
    are_names |= said_of is not None
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


_EXCEPTION: Final = re.compile(rf"{NEGATION.pattern}|\b(?:except|but)\b", re.IGNORECASE)
_NAMES: Final = ("name", "title")  # of columns that say what a row is about, if the first does not
_RANK: Final = re.compile(r"\d{1,3}\.?")


def table_column(question: str, passages: Sequence[Passage], best: int | None) -> Reply | None:
    """The asked-for cells of all rows that have every word of the question that is a value in some row.

    If not all its words are there, the reader's span has to be in one of these rows' passages.
    """
    rows = [(at, row) for at, passage in enumerate(passages) for row in table_rows(passage.text)]
    if not rows or _EXCEPTION.search(question):
        return None
    stems = content_stems(question)
    columns_said = " ".join(column for _, row in rows for column, _ in row)
    headers = stems_of(columns_said)
    asked = {stem for stem in stems if stem in headers} or {
        stem for stem in stems if any(stem in stems_of(passages[at].context) for at, _ in rows)
    }
    names = content_stems(" ".join(NAMED.findall(question))) if NAMED.search(question) else set()
    values = stems_of(*(value for _, row in rows for _, value in row))
    bound = {stem for stem in stems - asked if stem in values or stem in names}
    if not asked:
        return _rows_with_value(stems, rows)
    items: dict[str, Item] = {}
    for at, row in sorted(rows, key=lambda row: passages[row[0]].place):
        if missing(bound, " ".join(value for _, value in row)):
            continue
        if not bound:  # "which boats are there?" asks for all
            columns = stems_of(f"{passages[at].context} {row[0][1]} {' '.join(column for column, _ in row)}")
            if not (asked <= columns and stems <= asked | GENERIC):
                continue
        asked_cells = (value for column, value in row if asked & stems_of(column) and not bound & stems_of(value))
        value = next(asked_cells, name_of(row))
        if not bound & stems_of(value):
            items.setdefault(value, Item.of_row(value, at, row))
    is_certain = not missing(stems - asked - bound - GENERIC, columns_said)
    if (
        not items
        or not (bound or len(items) > 1)
        or (not is_certain and best not in {item.passage for item in items.values()})
    ):
        return None
    is_cut = len(passages) >= LOOKED_AT["list"] and len(items) > len(passages) // 2  # there may be more in others
    text = "; ".join([*items, "…"]) if is_cut else joined([*items])
    return Reply(text, tuple(items.values()), is_certain)


def _rows_with_value(stems: set[str], rows: Sequence[tuple[int, Row]]) -> Reply | None:
    """The names of all rows that have a cell of several words, all in the question, if the best passage is one of them.

    "Which machines stand in the office cupboard?" of rows with "place: office cupboard".
    """
    items: dict[str, Item] = {}
    for at, row in rows:
        if any(len(said) > 1 and said <= stems for said in (content_stems(value) for _, value in row)):
            items.setdefault(name_of(row), Item.of_row(name_of(row), at, row))
    return Reply.of_list(items.values()) if any(item.passage == 0 for item in items.values()) else None


_SELECTING: Final = re.compile(
    rf"\b(?:{ANY_ORDINAL}|next|latest|\w{{3,}}est|most|least|before|after|than)\b", re.IGNORECASE
)


def cells_alike(question: str, passages: Sequence[Passage], best: int) -> Reply | None:
    """The cell with the reader's span, and those of its column in other rows of its table that have all that is asked.

    As all that Ada teaches, if "Teacher: Ada" is in several rows: what a row has of the question has to be whole cells.
    """
    span, stems, asked = passages[best].span, content_stems(question), stems_of(question)
    rows = [(at, row) for at, passage in enumerate(passages) for row in table_rows(passage.text)]
    if span is None or _SELECTING.search(question):
        return None
    found = on_one_line(passages[best].text[slice(*span)])
    column = next((name for at, row in rows if at == best for name, value in row if found in value), None)
    values = stems_of(*(value for _, row in rows for _, value in row))
    items: dict[str, Item] = {}
    for at, row in sorted(rows, key=lambda row: passages[row[0]].place):
        cells, is_same = dict(row), passages[at].name.partition("#")[0] == passages[best].name.partition("#")[0]
        whole = [said for name, value in row if name != column and (said := stems_of(value)) and said <= asked]
        if is_same and column in cells and whole and set().union(*whole) >= stems & values:
            items.setdefault(cells[column], Item.of_row(cells[column], at, row))
    is_found = any(found in text for text in items)
    return Reply.of_list(items.values(), is_certain=False) if is_found and len(items) > 1 else None


def name_of(row: Row) -> str:
    """What a row is about: its first cell, unless a column says so, or the first is a number before words, as a rank."""
    named = next((value for column, value in row if column.lower() in _NAMES), row[0][1])
    return row[1][1] if _RANK.fullmatch(named) and row[1][1][:1].isalpha() else named


_WORDS_OF_NUMBERS: Final = {word: at for words in (ORDINALS, NUMBERS) for at, word in enumerate(words, 1)}


def one_step(question: str, passages: Sequence[Passage], best: int | None) -> Reply | None:
    """One step of the list that the question names."""
    listed = whole_list("steps", question, passages, best)
    if listed is None or not listed.items:
        return None
    named = STEP.search(question.lower())
    word = (named[1] or named[2]) if named else ""
    digits = re.match(r"\d+", word)
    number = int(digits[0]) if digits else _WORDS_OF_NUMBERS.get(word, len(listed.items))
    if not 1 <= number <= len(listed.items):
        return None
    item = listed.items[number - 1]
    return Reply(item.sentence, (item,), listed.is_certain)
