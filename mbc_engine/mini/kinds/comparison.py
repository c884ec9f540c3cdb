"""Comparisons of two: which has more, or a sentence about each."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from mbc_engine.bank.words import stems_of
from mbc_engine.mini.kinds.forms import ANY_AUXILIARY, COMPARATIVE, CUES, OF_AGE, OF_SPEED
from mbc_engine.mini.kinds.passages import NAMED, Item, Passage, Reply, Sentence, sentences_of, table_rows, with_all
from mbc_engine.mini.word_matching import has_stem, missing
from mbc_engine.sources import content_stems

_ALTERNATIVES: Final = re.compile(
    r"^how (?:do|does|did|is|are) (?P<this>.+?) (?:differ|compare|different) (?:from|to|with) (?P<that>.+)$"
    r"|\b(?:differences? between|compare) (?P<one>.+?) (?:and|with|to) (?P<other>.+)$"
    r"|(?:^|[,:] )(?P<left>[^,:]+?),? or (?P<right>[^,:]+)$",
    re.IGNORECASE,
)
_QUANTITY: Final = re.compile(
    r"(?<![\w.,])(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?:[ -]?([^\W\d_]+|[%\u20ac$\u00a3]))?"
)
_DURATION: Final = re.compile(
    r"(?<!/)(?<!per )\b(?:s|sec(?:ond)?s?|min(?:ute)?s?|h|hrs?|hours?|days?|weeks?|months?|years?|time|duration)\b",
    re.IGNORECASE,
)
_YEARS: Final = range(1001, 2100)
# A year is said so, and what follows is not what it counts: not a population of 1500, nor 1500 sheep.
_DATED: Final = re.compile(r"\b(?:in|since) $")
_AFTER_YEAR: Final = ("and", "but", "is", "was", "has", "had", "it", "with", "by", "for", "to")
_OF_YEARS: Final = (*OF_AGE, "later", "earlier")


def compare_two(question: str, passages: Sequence[Passage]) -> Reply | None:
    """Which of two has more, if the numbers of both stand there in the same unit; else a sentence about each."""
    match = _ALTERNATIVES.search(question.strip().rstrip("?!. "))
    if match is None:
        return None
    left, right = match["this"] or match["one"] or match["left"], match["that"] or match["other"] or match["right"]
    said = re.search(COMPARATIVE, question.lower())
    comparative = said[0] if said else ""
    left = re.sub(rf"^(?:.*?{COMPARATIVE}(?: \w+)? |{ANY_AUXILIARY} )", "", left, flags=re.IGNORECASE)
    right = re.sub(rf" {COMPARATIVE}.*$", "", right, flags=re.IGNORECASE)
    things = [content_stems(left) - content_stems(right), content_stems(right) - content_stems(left)]
    cue, is_larger = CUES.get(comparative, ("", True))
    shared = content_stems(question) - content_stems(f"{left} {right}") - content_stems(comparative)
    sentences = [(one, passages[one.passage].context) for one in sentences_of(passages)]
    found: list[tuple[Sentence, str]] = []
    for stems, others in zip(things, reversed(things), strict=True):
        fitting = [(one, context) for one, context in sentences if stems and _is_of(stems, others, one.text, context)]
        if not fitting:
            return None
        found.append(min(fitting, key=lambda sentence: _unlike(sentence[0].text, sentence[1], shared, cue)))
    items = tuple(Item.quoted(one.text, one.passage) for one, _ in dict.fromkeys(found))
    numbers = [_quantity(one.text, stems, shared, comparative) for (one, _), stems in zip(found, things, strict=True)]
    lacking = [_unlike(one.text, context, shared - _COMPARING, cue) for one, context in found]
    is_said = not any(no_cue or (words and not cue) for words, no_cue, _ in lacking)
    is_said &= bool(comparative or shared - _COMPARING)
    if comparative and all(numbers) and is_said:
        one, other = (number for number in numbers if number)
        is_quick = comparative in OF_SPEED and _DURATION.search(one.unit) is not None
        is_reversed = comparative in OF_AGE if one.is_year else is_quick
        if one[1:] == other[1:] and one.value != other.value:
            has_left = (one.value > other.value) == (is_larger != is_reversed)
            return Reply(left if has_left else right, items, is_certain=True)
    return Reply.of_sentences(items, is_certain=is_said)


def compare_all(question: str, passages: Sequence[Passage]) -> Reply | None:
    """The fittest sentence with all names of a question; or, from two documents with all its words, a sentence each."""
    wanted, names = (content_stems(text) - _COMPARING for text in (question, " ".join(NAMED.findall(question))))
    said = [one for one in sentences_of(passages) if len(names) > 1 and not missing(names, one.text)]
    if said:
        best = min(said, key=lambda one: len(missing(wanted, one.text)))
        return Reply.of_sentences([Item.quoted(best.text, best.passage)], is_certain=False)
    items = [*islice(with_all(wanted, passages), 2)]
    return Reply.of_sentences(items) if len(items) > 1 else None


def _unlike(sentence: str, context: str, shared: set[str], cue: str) -> tuple[int, bool, bool]:
    """How many of the words that two things share a sentence about one lacks, and whether it lacks cue and number."""
    return len(missing(shared, f"{context} {sentence}")), not re.search(cue, sentence), not re.search(r"\d", sentence)


_COMPARING: Final = stems_of("compare difference differences between differ two both")


class _Quantity(NamedTuple):
    value: float
    unit: str
    is_year: bool


def _is_of(stems: set[str], others: set[str], sentence: str, context: str) -> bool:
    """Whether a sentence is about the thing with these stems: it names it, or its document does, and not the other."""
    if missing(stems, f"{context} {sentence}"):
        return False
    return bool(missing(stems, context)) or bool(missing(others, context) and missing(others, sentence))


def _quantity(sentence: str, stems: set[str], shared: set[str], comparative: str) -> _Quantity | None:
    """The first number of a sentence, after the words with these stems if it has them, and its unit.

    A year counts if it is asked about. In a row of a table, the only number, or the only one whose column has a
    `shared` word, and that column.
    """
    if row := next(iter(table_rows(sentence)), None):
        cells = [(column, number) for column, value in row if (number := _QUANTITY.fullmatch(value))]
        cells = [cell for cell in cells if shared & stems_of(cell[0])] or cells
        if len(cells) != 1:
            return None
        column, number = cells[0]
        value = float(number[1].replace(",", ""))
        return _Quantity(value, f"{column} {number[2] or ''}", comparative in OF_AGE and value in _YEARS)
    places = [
        match.end() for match in re.finditer(r"[\w-]+", sentence) if any(has_stem(match[0], stem) for stem in stems)
    ]
    for number in _QUANTITY.finditer(sentence, next(iter(places), 0)):
        value = float(number[1].replace(",", ""))
        is_dated = _DATED.search(sentence[: number.start()]) and (number[2] or "and").lower() in _AFTER_YEAR
        is_year = number[1].isdigit() and value in _YEARS and (bool(is_dated) or comparative in OF_AGE)
        if not is_year or comparative in _OF_YEARS:
            return _Quantity(value, "" if is_year else number[2] or "", is_year)
    return None
