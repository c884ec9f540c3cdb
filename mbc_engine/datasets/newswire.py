"""Newswire: endless made-up news stories with questions, to train and test a memory on facts that no model knows.

Everything that reads as English stands in two data files beside this module: `newswire_names.toml` (people and places)
and `newswire_templates.toml` (word lists and one table per kind of event). A new kind of event is one new table there.
`newswire_grammar.py` turns templates into text; this module casts a story, tells it and asks about it.
"""

import hashlib
import random
import re
import tomllib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeVar

from mbc_engine.datasets.layout import QAExample
from mbc_engine.datasets.newswire_grammar import NAME_KINDS, Scene, Template, parse, with_articles

Split = Literal["train", "validation", "test"]

_T = TypeVar("_T")
_NAME_DRAW = re.compile(f"<({'|'.join(NAME_KINDS)})>")

# strftime would ask the machine's locale.
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_FIRST_DAY = date(2001, 1, 1).toordinal()
_LAST_DAY = date(2024, 12, 31).toordinal()
_MAX_SENTENCES = 5
_SHORT, _LONG = 50, 80  # words after which a story ends, drawn for each
_APART = 256  # stories after which a person or organisation may come again, or a place in the same kind of event
_MIN_QUESTIONS, _MAX_QUESTIONS = 3, 6


@dataclass(frozen=True)
class Story:
    """One news story and what can be asked about it.

    Attributes:
        id: `newswire-<split>-<seed>-<number>`, unique.
        topic: what it is about, one of `topics()`.
        title: the headline.
        date: when it was published, ISO 8601.
        text: two to five sentences of plain ASCII.
        questions: three to six (question, answer) pairs. Every answer occurs literally in `text` and not in its
            question; every question names a person, place or organisation of the story.
    """

    id: str
    topic: str
    title: str
    date: str
    text: str
    questions: tuple[tuple[str, str], ...]


def stories(split: Split, count: int, seed: int = 0) -> Iterator[Story]:
    """Tells `count` stories; the same arguments give the same stories on every machine, fewer give a prefix.

    The splits share no word of any first name, surname or place name, so nothing learnt about the names of one helps
    in another.

    Args:
        split: whose names to use.
        count: how many stories.
        seed: another seed tells other stories with the same names.
    """
    world = _World(names(split), random.Random(f"newswire/{split}/{seed}"))
    kinds = _event_kinds()
    topic_names = topics()
    for number in range(count):
        topic = world.pick(topic_names)
        yield _tell(world.pick(kinds[topic]), world, f"newswire-{split}-{seed}-{number:06d}")


def examples(stories: Iterable[Story]) -> Iterator[QAExample]:
    """One example per question of every story, in order; the document is the headline, a full stop and the story."""
    for story in stories:
        document = f"{story.title}. {story.text}"
        for number, (question, answer) in enumerate(story.questions):
            yield QAExample(f"{story.id}-{number}", document, question, (answer,), story.title)


def topics() -> tuple[str, ...]:
    """The topics of the stories; each is equally likely."""
    return tuple(_event_kinds())


@dataclass(frozen=True)
class Names:
    """The names of one split: single-word first names and surnames, places of one or two words."""

    first: tuple[str, ...]
    surnames: tuple[str, ...]
    places: tuple[str, ...]


@cache
def names(split: Split) -> Names:
    """The names of a split; a name belongs where the hash of its word says: 70 % train, 10 % validation, 20 % test."""
    source = _read("newswire_names.toml")

    def own(words: Iterable[str]) -> tuple[str, ...]:
        return tuple(word for word in dict.fromkeys(words) if _split_of(word) == split)

    built = (stem + ending for stem in source["stems"].split() for ending in source["endings"].split())
    pairs = (f"{a} {b}" for a in own(source["pair_first"].split()) for b in own(source["pair_second"].split()))
    return Names(
        first=own(source["first"].split()),
        surnames=own(source["surnames"].split()),
        places=(*own((*source["places"].split(), *built)), *pairs),
    )


def _split_of(word: str) -> Split:
    bucket = int.from_bytes(hashlib.sha256(word.lower().encode()).digest()[:4], "big") % 100
    return "train" if bucket < 70 else "validation" if bucket < 80 else "test"


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(name).read_text(encoding="ascii"))


@dataclass(frozen=True)
class _EventKind:
    """How to cast and tell one kind of event.

    Attributes:
        name: its name in the template file.
        topic: what it is about.
        facts: recipe of every fact, in the order they are made; a recipe may use the facts before it.
        people: the facts that are people; each also gives `<fact>_last`, the surname alone.
        named: the facts that hold a name, by which a question can tell the story from others: whether no other story
            nearby may have it (people, organisations) or only none of the same kind (places).
        headlines: one is chosen.
        leads: first sentences; one is chosen.
        body: further sentences, one alternative of a group at most, in any order.
        questions: fact -> ways to ask for it.
    """

    name: str
    topic: str
    facts: Mapping[str, Template]
    people: frozenset[str]
    named: Mapping[str, bool]
    headlines: Sequence[Template]
    leads: Sequence[Template]
    body: Sequence[Sequence[Template]]
    questions: Mapping[str, Sequence[Template]]


@cache
def _event_kinds() -> dict[str, tuple[_EventKind, ...]]:
    """Topic -> its kinds of event, as the template file has them."""
    source = _read("newswire_templates.toml")
    lists: dict[str, Sequence[str]] = {name: tuple(words) for name, words in source.pop("lists").items()}

    def parsed(templates: Sequence[str]) -> tuple[Template, ...]:
        return tuple(parse(template, lists) for template in templates)

    kinds: dict[str, tuple[_EventKind, ...]] = {}
    for name, table in source.items():
        kind = _EventKind(
            name=name,
            topic=table["topic"],
            facts={name: parse(recipe, lists) for name, recipe in table["facts"].items()},
            people=frozenset(name for name, recipe in table["facts"].items() if recipe == "<person>"),
            named={
                fact: recipe not in ("<place>", "<first>")
                for fact, recipe in table["facts"].items()
                if _NAME_DRAW.search(recipe)
            },
            headlines=parsed(table["headlines"]),
            leads=parsed(table["lead"]),
            body=tuple(parsed(group) for group in table["body"]),
            questions={fact: parsed(ways) for fact, ways in table["questions"].items()},
        )
        kinds[kind.topic] = (*kinds.get(kind.topic, ()), kind)
    return kinds


class _Recent:
    """The things last noted, in batches: the newest `limit` batches count."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._things: set[str] = set()
        self._batches: deque[frozenset[str]] = deque()

    def __contains__(self, thing: str) -> bool:
        return thing in self._things

    def note(self, batch: Iterable[str]) -> None:
        """Remembers things that are not remembered yet."""
        self._batches.append(frozenset(batch))
        self._things |= self._batches[-1]
        if len(self._batches) > self._limit:
            self._things -= self._batches.popleft()


class _Deck:
    """Draws names at random, but none again before most others came: a bank of stories seldom meets one twice."""

    def __init__(self, names: Sequence[str], chance: Callable[[], float]) -> None:
        self._names = names
        self._chance = chance
        self._recent = _Recent(len(names) * 3 // 5)

    def draw(self) -> str:
        while (name := self._names[int(self._chance() * len(self._names))]) in self._recent:
            pass
        self._recent.note((name,))
        return name


class _World:
    """The source of everything random in a run of stories."""

    def __init__(self, names: Names, rng: random.Random) -> None:
        self.chance = rng.random
        kinds = {"first": names.first, "surname": names.surnames, "place": names.places}
        self._decks = {kind: _Deck(words, rng.random) for kind, words in kinds.items()}
        self._people = _Recent(8 * _APART)  # no event draws eight
        self.told = _Recent(_APART)

    def name(self, kind: str) -> str:
        if kind == "person":
            while (person := f"{self.name('first')} {self.name('surname')}") in self._people:
                pass
            self._people.note((person,))
            return person
        return self._decks[kind].draw()

    def pick(self, options: Sequence[_T]) -> _T:
        return options[int(self.chance() * len(options))]

    def between(self, low: int, high: int) -> int:
        return low + int(self.chance() * (high - low + 1))

    def shuffled(self, items: Iterable[_T]) -> list[_T]:
        return sorted(items, key=lambda _: self.chance())


def _tell(kind: _EventKind, world: _World, story_id: str) -> Story:
    """Casts the event, tells it and asks about what was told.

    Starts over when a name was in the news a short while ago, or too little can be asked.
    """
    while True:
        published = date.fromordinal(world.between(_FIRST_DAY, _LAST_DAY))
        scene = Scene(world, _calendar(published, world))
        for fact, recipe in kind.facts.items():
            scene.facts[fact] = recipe.render(scene)
            if fact in kind.people:
                scene.facts[f"{fact}_last"] = scene.facts[fact].split()[-1]
        named = [scene.facts[fact] if own else f"{kind.name}: {scene.facts[fact]}" for fact, own in kind.named.items()]
        if any(name in world.told for name in named):
            continue
        title = _sentence(world.pick(kind.headlines).render(scene))
        scene.mentioned.clear()
        text = _text(kind, scene, world)
        questions = _questions(kind, scene, world, text)
        if len(questions) >= _MIN_QUESTIONS:
            world.told.note(named)
            return Story(story_id, kind.topic, title, published.isoformat(), text, questions)


def _calendar(published: date, world: _World) -> dict[str, str]:
    """The dates a story may speak of: its event at most a day before it, a later event on another weekday."""
    event = published - timedelta(days=world.between(0, 1))
    later = event + timedelta(days=7 * world.between(1, 9) + world.between(1, 6))
    much_later = event + timedelta(days=world.between(95, 300))
    return {
        "weekday": _WEEKDAYS[event.weekday()],
        "later_weekday": _WEEKDAYS[later.weekday()],
        "later_day": f"{later.day} {_MONTHS[later.month - 1]}",
        "later_month": _MONTHS[much_later.month - 1],
        "year": str(event.year),
        "later_year": str(event.year + world.between(1, 5)),
    }


def _text(kind: _EventKind, scene: Scene, world: _World) -> str:
    """A first sentence, then others that each add a side of the event, until the story is long enough."""
    text = _sentence(world.pick(kind.leads).render(scene)) + "."
    length = world.between(_SHORT, _LONG)
    for group in world.shuffled(kind.body)[: _MAX_SENTENCES - 1]:
        told = len(scene.mentioned)
        sentence = _sentence(world.pick(group).render(scene))
        if len(scene.mentioned) > told:
            text += f" {sentence}."
        if text.count(" ") >= length:
            break
    return text


def _questions(kind: _EventKind, scene: Scene, world: _World, text: str) -> tuple[tuple[str, str], ...]:
    """Asks for facts the text mentions, in words it mentions too, never giving the answer away."""
    told = set(scene.mentioned)
    asked: list[tuple[str, str]] = []
    wanted = world.between(_MIN_QUESTIONS, _MAX_QUESTIONS)
    for fact in world.shuffled(fact for fact in kind.questions if fact in told):
        answer = scene.facts[fact]
        for way in world.shuffled(kind.questions[fact]):
            scene.mentioned.clear()
            question = with_articles(way.render(scene))
            if told.issuperset(scene.mentioned) and _has_word(text, answer) and answer.lower() not in question.lower():
                asked.append((question, answer))
                break
        if len(asked) == wanted:
            break
    return tuple(asked)


def _has_word(text: str, word: str) -> bool:
    """Whether `word` stands in the text by itself; a regex per answer would cost as much as the story."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            return True
        at = text.find(word, at + 1)
    return False


def _sentence(text: str) -> str:
    return with_articles(text[0].upper() + text[1:])
