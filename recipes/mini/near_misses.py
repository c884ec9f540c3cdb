"""Questions that a memory seems to answer but does not, made by rule from ones that it answers.

One thing in a question is changed that its paragraph states otherwise: a name, a year, a number, what is measured, or a
relation; or a condition is added that the paragraph does not meet. A change is used only if no paragraph of the memory
has the new word beside most of the question's other words.
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Final

from reader_data import Row

from mbc_engine.bank import words
from mbc_engine.text import split_sentences
from mbc_engine.text.document import MONTH_NAMES

stems_of: Final = cache(words.stems_of)
_MONTHS: Final = "|".join(rf"{month[:3]}(?:{month[3:]}|t)?" for month in MONTH_NAMES)
_NAME: Final = re.compile(rf"(?<=[a-z,;] )(?!(?:{_MONTHS})\b)[A-Z][\w'-]*[a-z](?: [A-Z][\w'-]*[a-z])*")
_YEAR: Final = re.compile(r"\b(?:1[5-9]|20)\d\d\b")
_NUMBER: Final = re.compile(r"\b\d{1,3}\b")
_TIMES: Final = re.compile(r"(?i)\b(?:from|since|until|between|before|after|during|by)\b")
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
_RELATIVES: Final = ("sister", "successor", "mother", "manager", "predecessor", "rival", "lawyer", "neighbour")
# Readers are trained with every second of these, so that their readings show what they make of others.
_TRAINED: Final = 2
# The shares of training questions that are changed; whose paragraph is; and that are changed with their paragraph.
_QUESTION, _PARAGRAPH, _BOTH = 0.22, 0.06, 0.10
_CONDITIONS: Final = ("in {year}", "in {place}", "during the winter", "by night", "for children", "on Sundays")
# Of the words of a question besides the new one, in one paragraph with it.
_MOST_SHARED: Final = 0.6
# Of the changed questions, those about another name of their paragraph.
_ANOTHER_SENTENCE: Final = 0.3


def near_miss(
    question: str, text: str, names: Sequence[str], texts: Iterable[str], seed: int, *, trained: bool = False
) -> str | None:
    """A changed question, or None if no rule changes it.

    Args:
        question: which `text` answers.
        text: a paragraph of the memory.
        names: that others ask about.
        texts: all paragraphs of the memory.
        seed: of the choice.
        trained: whether to train a reader on it, and not to collect what one reads.
    """
    chooser = random.Random(f"{seed} {question}")
    begin = 0 if trained else 1
    rules: list[Callable[..., Iterator[tuple[str, str]]]] = [_another_name, _another_name, _another_number]
    relation = partial(_another_relation, swaps=_swaps(_OPPOSITES[begin::_TRAINED]))
    rules += [relation, relation, partial(_a_relative, relatives=_RELATIVES[begin::_TRAINED])]
    rules += [] if trained else [_a_condition]
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


def names_after(questions: Iterable[str]) -> dict[str, list[str]]:
    """Names of others for each word that one follows, since those after "in" and "did" are of different kinds."""
    found: dict[str, set[str]] = {}
    for question in questions:
        for word, name in _words_before_names(question):
            found.setdefault(word, set()).add(name)
    return {word: sorted(names) for word, names in found.items()}


def _words_before_names(question: str) -> list[tuple[str, str]]:
    return [(question[: match.start()].rsplit(maxsplit=1)[-1].lower(), match[0]) for match in _NAME.finditer(question)]


def contrast(row: Row, names: Mapping[str, Sequence[str]], seed: int) -> Row:
    """A question to train a reader on: as it is, or changed.

    Of some, the question is changed so that its paragraph does not answer it; of some, a name or number that it shares
    with its paragraph is changed there. So that neither betrays itself, it is changed in both of others, which are
    answered as before.
    """
    chooser = random.Random(f"{seed} {row.question} {row.text}")
    drawn = chooser.random()
    if not row.answers or drawn >= _QUESTION + _PARAGRAPH + _BOTH:
        return row
    alike = sorted({name for word, _ in _words_before_names(row.question) for name in names[word]})
    if drawn < _QUESTION:
        changed = None
        if chooser.random() < _ANOTHER_SENTENCE:
            changed = of_another_sentence(row.question, row.text, row.answers, seed)
            new = stems_of(changed or "") - stems_of(row.question)
            sentences = [row.text[start:end] for start, end in split_sentences(row.text)]
            if changed and _may_be_answered(changed, new, sentences):
                changed = None
        changed = changed or near_miss(row.question, row.text, alike, [row.text], seed, trained=True)
        return row if changed is None else replace(row, question=changed, answers=())
    is_answered = drawn >= _QUESTION + _PARAGRAPH
    if (both := _in_both(row, alike, chooser, years=is_answered or not _TIMES.search(row.question))) is None:
        return row
    question, text = both
    return replace(row, text=text, question=question) if is_answered else replace(row, text=text, answers=())


def _in_both(row: Row, names: Sequence[str], chooser: random.Random, *, years: bool) -> tuple[str, str] | None:
    """Question and paragraph with another name or year in both, which is in no answer; None if they share none."""
    golds = stems_of(" ".join(row.answers))
    shared = [
        *(name for name in _NAME.findall(row.question) if name in row.text),
        *(year for year in _YEAR.findall(row.question) if years and year in row.text),
    ]
    shared = [name for name in shared if stems_of(name) and stems_of(name).isdisjoint(golds)]
    if not shared:
        return None
    old = chooser.choice(shared)
    if old.isdigit():
        new = str(int(old) + chooser.choice((-40, -17, -5, -2, 3, 4, 12, 30)))
    else:
        names = [name for name in names if len(name.split()) == len(old.split()) and name not in row.text]
        if not names:
            return None
        new = chooser.choice(names)
    if stems_of(new) & (stems_of(row.text) | stems_of(row.question)):
        return None
    texts = [row.question, row.text]
    for before, after in zip(old.split(), new.split(), strict=True):
        texts = [re.sub(rf"\b{re.escape(before)}\b", after, text) for text in texts]
    return texts[0], texts[1]


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
    years = _YEAR.findall(question)
    if len(years) > 1 or (years and _TIMES.search(question)):  # a year nearby may be of the same time
        shift = chooser.choice((-1, 1)) * chooser.randint(30, 70)
        if not any(str(int(year) + shift) in text for year in years):
            yield _YEAR.sub(lambda year: str(int(year[0]) + shift), question), str(int(years[0]) + shift)
        return
    for match in [*_YEAR.finditer(question), *_NUMBER.finditer(question)]:
        other = str(int(match[0]) + chooser.choice((-11, -4, -2, -1, 1, 2, 5, 10)))
        if not re.search(rf"\b{other}\b", text):
            yield question[: match.start()] + other + question[match.end() :], other


def _swaps(pairs: Sequence[str]) -> dict[str, str]:
    return dict(pair.split("/") for pair in pairs) | dict(pair.split("/")[::-1] for pair in pairs)


def _another_relation(question: str, *_: object, swaps: dict[str, str]) -> Iterator[tuple[str, str]]:
    for match in re.finditer(r"\w+", question):
        if other := swaps.get(match[0].lower()):
            yield question[: match.start()] + other + question[match.end() :], other


def _a_relative(
    question: str, text: str, _: Sequence[str], chooser: random.Random, relatives: Sequence[str]
) -> Iterator[tuple[str, str]]:
    for name in _names_of(question, text):
        if f"{name}'s" not in question and len(name.split()) > 1:
            relative = chooser.choice(relatives)
            yield question.replace(name, f"{name}'s {relative}"), relative


def _a_condition(question: str, _: str, names: Sequence[str], chooser: random.Random) -> Iterator[tuple[str, str]]:
    places = [name for name in names if len(name.split()) == 1] or ["Aalen"]
    added = chooser.choice(_CONDITIONS).format(year=chooser.randint(1900, 2025), place=chooser.choice(places))
    if not re.search(r"(?i)\bwhen\b|\b(?:what|which) year\b", question):
        yield f"{question.rstrip(' ?.')} {added}?", added.split(" ", 1)[1]
