"""Questions that a memory seems to answer but does not, made by rule from ones that it answers.

One thing in a question is changed that its paragraph states otherwise: a name, a year, a number, what is measured, or a
relation; or a condition is added that the paragraph does not meet. A change is used only if no paragraph of the memory
has the new word beside most of the question's other words.
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from mbc_engine.bank import words
from mbc_engine.text import split_sentences
from mbc_engine.text.document import MONTH_NAMES

stems_of: Final = cache(words.stems_of)
_MONTHS: Final = "|".join(rf"{month[:3]}(?:{month[3:]}|t)?" for month in MONTH_NAMES)
_NAME: Final = re.compile(rf"(?<=[a-z,;] )(?!(?:{_MONTHS})\b)[A-Z][\w'-]*[a-z](?: [A-Z][\w'-]*[a-z])*")
_YEAR: Final = re.compile(r"\b(?:1[5-9]|20)\d\d\b")
_NUMBER: Final = re.compile(r"\b\d{1,3}\b")
# What is asked for in place of each other, in either direction.
_OPPOSITES: Final = [
    "tall/wide",
    "long/deep",
    "long/heavy",
    "old/tall",
    "high/wide",
    "far/fast",
    "large/old",
    "big/old",
    "born/buried",
    "born/married",
    "died/married",
    "died/born",
    "wrote/edited",
    "written/translated",
    "founded/dissolved",
    "founded/sold",
    "built/painted",
    "built/demolished",
    "constructed/insured",
    "invented/banned",
    "discovered/forgot",
    "won/hosted",
    "directed/financed",
    "produced/criticised",
    "first/second",
    "first/last",
    "second/third",
    "father/grandmother",
    "mother/uncle",
    "brother/aunt",
    "sister/nephew",
    "wife/cousin",
    "husband/niece",
    "son/godfather",
    "daughter/tutor",
    "largest/smallest",
    "highest/lowest",
    "most/least",
    "oldest/youngest",
    "longest/shortest",
    "before/after",
    "north/south",
    "east/west",
    "northern/southern",
    "start/end",
    "began/ended",
    "begin/end",
    "opened/closed",
    "president/treasurer",
    "king/gardener",
    "captain/cook",
    "director/porter",
    "author/publisher",
    "population/climate",
    "capital/motto",
    "increase/decrease",
    "buy/rent",
    "sell/borrow",
    "win/lose",
    "cause/cure",
    "city/river",
    "country/newspaper",
    "price/weight",
    "cost/weigh",
    "name/age",
    "color/price",
    "nationality/salary",
    "title/length",
    "parents/teachers",
    "men/horses",
    "people/bridges",
    "students/chairs",
    "company/church",
    "school/prison",
    "team/choir",
    "album/novel",
    "song/sculpture",
    "film/poem",
    "movie/recipe",
    "book/opera",
    "war/festival",
    "symptoms/costs",
    "gene/vaccine",
    "protein/scholarship",
    "drug/airport",
    "disease/monument",
    "enzyme/stadium",
    "attacked/defended",
    "arrived/left",
    "gave/stole",
    "found/hid",
    "married/adopted",
    "studied/taught",
    "play/judge",
    "like/fear",
    "january/may",
    "march/october",
    "april/september",
    "june/november",
    "july/december",
    "february/august",
    "monday/saturday",
    "tuesday/sunday",
]
_SWAPS: Final = dict(pair.split("/") for pair in _OPPOSITES) | dict(pair.split("/")[::-1] for pair in _OPPOSITES)
_RELATIVES: Final = ("sister", "successor", "mother", "manager", "predecessor", "rival", "lawyer", "neighbour")
_CONDITIONS: Final = ("in {year}", "in {place}", "during the winter", "by night", "for children", "on Sundays")
# Of the words of a question besides the new one, in one paragraph with it.
_MOST_SHARED: Final = 0.6


def near_miss(question: str, text: str, names: Sequence[str], texts: Iterable[str], seed: int) -> str | None:
    """A changed question, or None if no rule changes it.

    Args:
        question: which `text` answers.
        text: a paragraph of the memory.
        names: that others ask about.
        texts: all paragraphs of the memory.
        seed: of the choice.
    """
    chooser = random.Random(f"{seed} {question}")
    rules: list[Callable[..., Iterator[tuple[str, str]]]] = [_another_name, _another_name, _another_number]
    rules += [_another_relation, _another_relation, _a_relative, _a_condition]
    chooser.shuffle(rules)
    for rule in rules:
        changes = list(rule(question, text, names, chooser))
        for changed, new in chooser.sample(changes, len(changes)):
            stems = stems_of(new)
            if stems and not stems & stems_of(text) and not _may_be_answered(changed, stems, texts):
                return changed
    return None


def of_another_sentence(question: str, text: str, golds: Sequence[str], seed: int) -> str | None:
    """A question about another name in its paragraph, which no sentence with a gold answer has; None if there is none.

    The paragraph may answer it, but not by a gold.
    """
    chooser = random.Random(f"{seed} {question}")
    with_gold = [
        text[start:end] for start, end in split_sentences(text) if any(gold in text[start:end] for gold in golds)
    ]
    taken = stems_of(" ".join([question, *with_gold]))
    others = [name for name in names_in([text]) if stems_of(name).isdisjoint(taken)]
    names = [name for name in _names_of(question, text) if name.lower() in " ".join(with_gold).lower()]
    if not names or not others:
        return None
    name = chooser.choice(names)
    other = chooser.choice([candidate for candidate in others if len(candidate.split()) == len(name.split())] or others)
    return question.replace(name, other.lower() if name.islower() else other)


def names_in(questions: Iterable[str]) -> list[str]:
    return sorted({name for question in questions for name in _NAME.findall(question)})


def _may_be_answered(question: str, new: set[str], texts: Iterable[str]) -> bool:
    others = stems_of(question) - new
    found = map(stems_of, texts)
    return any(new <= stems and len(others & stems) >= _MOST_SHARED * len(others) for stems in found)


def _names_of(question: str, text: str) -> list[str]:
    """The names in a question, in lower case too if its paragraph has them."""
    lowered = {name for name in _NAME.findall(text) if re.search(rf"\b{re.escape(name.lower())}\b", question)}
    return [*_NAME.findall(question), *(name.lower() for name in lowered)]


def _another_name(question: str, text: str, names: Sequence[str], chooser: random.Random) -> Iterator[tuple[str, str]]:
    for name in _names_of(question, text):
        words = name.split()
        alike = [other for other in names if len(other.split()) == len(words) and other.lower() != name.lower()]
        for other in chooser.sample(alike, min(len(alike), 3)):
            new = other.lower() if name.islower() else other
            yield question.replace(name, new), new
            if len(words) > 1:  # another of the same family, or the same first name
                first, last = new.split()[0], new.split()[-1]
                yield question.replace(name, " ".join([first, *words[1:]])), first
                yield question.replace(name, " ".join([*words[:-1], last])), last


def _another_number(question: str, text: str, _: Sequence[str], chooser: random.Random) -> Iterator[tuple[str, str]]:
    for match in [*_YEAR.finditer(question), *_NUMBER.finditer(question)]:
        other = str(int(match[0]) + chooser.choice((-11, -4, -2, -1, 1, 2, 5, 10)))
        if not re.search(rf"\b{other}\b", text):
            yield question[: match.start()] + other + question[match.end() :], other


def _another_relation(question: str, *_: object) -> Iterator[tuple[str, str]]:
    for match in re.finditer(r"\w+", question):
        if other := _SWAPS.get(match[0].lower()):
            yield question[: match.start()] + other + question[match.end() :], other


def _a_relative(question: str, text: str, _: Sequence[str], chooser: random.Random) -> Iterator[tuple[str, str]]:
    for name in _names_of(question, text):
        if f"{name}'s" not in question and len(name.split()) > 1:
            relative = chooser.choice(_RELATIVES)
            yield question.replace(name, f"{name}'s {relative}"), relative


def _a_condition(question: str, _: str, names: Sequence[str], chooser: random.Random) -> Iterator[tuple[str, str]]:
    places = [name for name in names if len(name.split()) == 1] or ["Aalen"]
    added = chooser.choice(_CONDITIONS).format(year=chooser.randint(1900, 2025), place=chooser.choice(places))
    if not re.search(r"(?i)\bwhen\b|\b(?:what|which) year\b", question):
        yield f"{question.rstrip(' ?.')} {added}?", added.split(" ", 1)[1]
