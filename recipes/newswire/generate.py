"""Newswire: generated news stories with questions, to train and test a memory on facts that no model knows.

    python recipes/newswire/generate.py train 5000 > train.jsonl
    python recipes/newswire/generate.py test 64 [--seed 1] > test.jsonl

Each line is a question with its story, as `--data` takes them. All English text is in two files next to this one:
`names.toml` (people and places) and `templates.toml` (word lists and one table per kind of event). A new kind of event is a new table there, with
templates in this syntax:

    {fact}            a fact of the story, which is also recorded as mentioned
    <person>          a random name, or a random word from a list in the template file
    <3-40>            a number in that range; `<1,200-98,000>` writes thousands with commas, `<1.5-9.9>` one decimal
    [won|took {it}]   one of the alternatives, which may be empty

Templates always use `a`; `with_articles` turns it into `an` where needed.
"""

import argparse
import hashlib
import json
import random
import re
import sys
import tomllib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from mbc_engine.datasets.examples import QAExample

Split = Literal["train", "validation", "test"]

_T = TypeVar("_T")
_NAME_KINDS = ("person", "first", "surname", "place")
_NAME_DRAW = re.compile(f"<({'|'.join(_NAME_KINDS)})>")
_TOKEN = re.compile(r"(\[|\]|\||\{\w+\}|<[^>]+>)")
_RANGE = re.compile(r"([\d,.]+)-([\d,.]+)")
_A_BEFORE_VOWEL = re.compile(
    r"\b([Aa]) (?=[aioAIO](?!ne\b|ne-|nce)|[eE](?!u)|[uU](?!ni[^mn]|s[ae]|k)|hono|hour|\$?8|\$?1[18](?!\d))"
)

# strftime depends on the locale.
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_FIRST_DAY = date(2001, 1, 1).toordinal()
_LAST_DAY = date(2024, 12, 31).toordinal()
_MAX_SENTENCES = 5
_SHORT, _LONG = 50, 80  # range of the word count after which a story ends
_APART = 256  # stories before a person or organisation, or a place in the same kind of event, may reappear
_MIN_QUESTIONS, _MAX_QUESTIONS = 3, 6


@dataclass(frozen=True)
class Story:
    """A news story of two to five ASCII sentences, and three to six questions whose answers occur verbatim in its text.

    Every question names a person, place or organisation of the story, but never its answer. `date` is ISO 8601.
    """

    id: str
    topic: str
    title: str
    date: str
    text: str
    questions: tuple[tuple[str, str], ...]


def stories(split: Split, count: int, seed: int = 0) -> Iterator[Story]:
    """Generate `count` stories; the same arguments give the same stories on every machine, a smaller count a prefix.

    The splits share no word of any name, so nothing learned about names in one helps in another. A different seed gives
    different stories with the same names.
    """
    world, topics = _World(names(split), random.Random(f"newswire/{split}/{seed}")), [*_event_kinds().values()]
    for number in range(count):
        yield _story(world.pick(world.pick(topics)), world, f"newswire-{split}-{seed}-{number:06d}")


def examples(stories: Iterable[Story]) -> Iterator[QAExample]:
    """One example per question of every story, in order; the document is the headline, a full stop and the story."""
    for story in stories:
        document = f"{story.title}. {story.text}"
        for number, (question, answer) in enumerate(story.questions):
            yield QAExample(f"{story.id}-{number}", document, question, (answer,), story.title)


@cache
def names(split: Split) -> Mapping[str, tuple[str, ...]]:
    """The names of a split: `first` names and `surname`s of one word, `place`s of one or two.

    Words are assigned to splits by hash: 70% train, 10% validation, 20% test.
    """
    source = _read("names.toml")

    def of_split(words: Iterable[str]) -> tuple[str, ...]:
        return tuple(word for word in dict.fromkeys(words) if _split_of(word) == split)

    built = (stem + ending for stem in source["stems"].split() for ending in source["endings"].split())
    pairs = (
        f"{a} {b}" for a in of_split(source["pair_first"].split()) for b in of_split(source["pair_second"].split())
    )
    return {
        "first": of_split(source["first"].split()),
        "surname": of_split(source["surnames"].split()),
        "place": (*of_split((*source["places"].split(), *built)), *pairs),
    }


def _split_of(word: str) -> Split:
    bucket = int.from_bytes(hashlib.sha256(word.lower().encode()).digest()[:4], "big") % 100
    return "train" if bucket < 70 else "validation" if bucket < 80 else "test"


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="ascii"))


class _Recent:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._strings: set[str] = set()
        self._batches: deque[frozenset[str]] = deque()

    def __contains__(self, string: str) -> bool:
        return string in self._strings

    def note(self, batch: Iterable[str]) -> None:
        self._batches.append(frozenset(batch))
        self._strings |= self._batches[-1]
        if len(self._batches) > self._limit:
            self._strings -= self._batches.popleft()


class _World:
    """Everything random in a sequence of stories. No name is reused before most others of its kind have been."""

    def __init__(self, names: Mapping[str, Sequence[str]], rng: random.Random) -> None:
        self.random = rng.random
        self.in_the_news = _Recent(_APART)
        self._names = names
        self._drawn = {kind: _Recent(len(words) * 3 // 5) for kind, words in names.items()}
        self._drawn["person"] = _Recent(8 * _APART)  # no event draws as many as eight

    def name(self, kind: str) -> str:
        name = ""
        while not name or name in self._drawn[kind]:
            is_person = kind == "person"
            name = f"{self.name('first')} {self.name('surname')}" if is_person else self.pick(self._names[kind])
        self._drawn[kind].note((name,))
        return name

    def pick(self, options: Sequence[_T]) -> _T:
        return options[int(self.random() * len(options))]

    def between(self, low: int, high: int) -> int:
        return low + int(self.random() * (high - low + 1))

    def shuffled(self, items: Iterable[_T]) -> list[_T]:
        return sorted(items, key=lambda _: self.random())


@dataclass
class Scene:
    """The facts of one story, and which of them its text has mentioned so far, in order."""

    world: _World
    facts: dict[str, str]
    mentioned: dict[str, None] = field(default_factory=dict)

    def mention(self, fact: str) -> str:
        self.mentioned[fact] = None
        return self.facts[fact]


Template = Callable[[Scene], str]


def parse(text: str, lists: Mapping[str, Sequence[str]]) -> Template:
    """Compile a template to a function that fills in a scene's facts and fresh random draws.

    Raises ValueError if brackets are unbalanced, or a draw is neither one of `lists`, a range nor a kind of name.
    """
    tokens = [token for token in _TOKEN.split(text) if token]
    options, end = _options(tokens, 0, lists)
    if end != len(tokens) or len(options) != 1:
        raise ValueError(f"Unbalanced brackets in the template {text!r}.")
    return options[0]


def with_articles(text: str) -> str:
    """The text with `a` turned into `an` before a vowel sound."""
    return _A_BEFORE_VOWEL.sub(r"\1n ", text)


def _options(tokens: Sequence[str], at: int, lists: Mapping[str, Sequence[str]]) -> tuple[list[Template], int]:
    options: list[list[Template]] = [[]]
    while at < len(tokens) and tokens[at] != "]":
        token = tokens[at]
        if token == "|":  # noqa: S105
            options.append([])
        elif token == "[":  # noqa: S105
            inner, at = _options(tokens, at + 1, lists)
            if at == len(tokens):
                raise ValueError(f"A bracket is never closed in the template {''.join(tokens)!r}.")
            options[-1].append(_either(inner))
        else:
            options[-1].append(_part(token, lists))
        at += 1
    return [_joined(parts) for parts in options], at


def _joined(parts: Sequence[Template]) -> Template:
    return lambda scene: "".join([part(scene) for part in parts])


def _part(token: str, lists: Mapping[str, Sequence[str]]) -> Template:
    name = token[1:-1]
    if token.startswith("{"):
        return lambda scene: scene.mention(name)
    if not token.startswith("<"):
        return lambda _: token
    if name in _NAME_KINDS:
        return lambda scene: scene.world.name(name)
    if name in lists:
        return lambda scene: scene.world.pick(lists[name])
    bounds = _RANGE.fullmatch(name)
    if bounds is None:
        raise ValueError(f"No list, range or kind of name is called <{name}>.")
    low, high = (int(re.sub("[,.]", "", bound)) for bound in bounds.groups())
    if "." in name:
        return lambda scene: f"{scene.world.between(low, high) / 10:.1f}"
    form = "," if "," in name else ""
    return lambda scene: f"{scene.world.between(low, high):{form}}"


def _either(options: Sequence[Template]) -> Template:
    return lambda scene: scene.world.pick(options)(scene)


@dataclass(frozen=True)
class _EventKind:
    """How to generate one kind of event.

    A fact's template may use the facts before it. `named` maps each fact with a name to whether that name is unique
    among nearby stories of all kinds (people, organisations) or only of this kind (places). Each group of `body` gives
    at most one sentence.
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
    source = _read("templates.toml")
    lists: dict[str, Sequence[str]] = source.pop("lists")

    def parsed(templates: Sequence[str]) -> tuple[Template, ...]:
        return tuple(parse(template, lists) for template in templates)

    kinds: dict[str, tuple[_EventKind, ...]] = {}
    for name, table in source.items():
        recipes = table["facts"].items()
        kind = _EventKind(
            name=name,
            topic=table["topic"],
            facts={fact: parse(recipe, lists) for fact, recipe in recipes},
            people=frozenset(fact for fact, recipe in recipes if recipe == "<person>"),
            named={f: recipe not in ("<place>", "<first>") for f, recipe in recipes if _NAME_DRAW.search(recipe)},
            headlines=parsed(table["headlines"]),
            leads=parsed(table["lead"]),
            body=tuple(parsed(group) for group in table["body"]),
            questions={fact: parsed(ways) for fact, ways in table["questions"].items()},
        )
        kinds[kind.topic] = (*kinds.get(kind.topic, ()), kind)
    return kinds


def _story(kind: _EventKind, world: _World, story_id: str) -> Story:
    """Generate facts, text and questions, retrying until no name was used recently and there are enough questions."""
    while True:
        published = date.fromordinal(world.between(_FIRST_DAY, _LAST_DAY))
        scene = Scene(world, _calendar(published, world))
        for fact, recipe in kind.facts.items():
            scene.facts[fact] = recipe(scene)
            if fact in kind.people:
                scene.facts[f"{fact}_last"] = scene.facts[fact].split()[-1]
        named = [
            scene.facts[fact] if known else f"{kind.name}: {scene.facts[fact]}" for fact, known in kind.named.items()
        ]
        if any(name in world.in_the_news for name in named):
            continue
        title = _sentence(world.pick(kind.headlines)(scene))
        scene.mentioned.clear()
        text = _text(kind, scene, world)
        questions = _questions(kind, scene, world, text)
        if len(questions) >= _MIN_QUESTIONS:
            world.in_the_news.note(named)
            return Story(story_id, kind.topic, title, published.isoformat(), text, questions)


def _calendar(published: date, world: _World) -> dict[str, str]:
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
    text = _sentence(world.pick(kind.leads)(scene)) + "."
    length = world.between(_SHORT, _LONG)
    for group in world.shuffled(kind.body)[: _MAX_SENTENCES - 1]:
        before = len(scene.mentioned)
        sentence = _sentence(world.pick(group)(scene))
        if len(scene.mentioned) > before:
            text += f" {sentence}."
        if text.count(" ") >= length:
            break
    return text


def _questions(kind: _EventKind, scene: Scene, world: _World, text: str) -> tuple[tuple[str, str], ...]:
    written = set(scene.mentioned)
    asked: list[tuple[str, str]] = []
    wanted = world.between(_MIN_QUESTIONS, _MAX_QUESTIONS)
    for fact in world.shuffled(fact for fact in kind.questions if fact in written):
        answer = scene.facts[fact]
        for way in world.shuffled(kind.questions[fact]):
            scene.mentioned.clear()
            question = with_articles(way(scene))
            is_fair = written.issuperset(scene.mentioned) and answer.lower() not in question.lower()
            if is_fair and _has_word(text, answer):
                asked.append((question, answer))
                break
        if len(asked) == wanted:
            break
    return tuple(asked)


def _has_word(text: str, word: str) -> bool:
    """Whether `word` is a whole word of the text; a regex per answer would take as long as generating the story."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            return True
        at = text.find(word, at + 1)
    return False


def _sentence(text: str) -> str:
    return with_articles(text[0].upper() + text[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("split", choices=get_args(Split))
    parser.add_argument("stories", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for example in examples(stories(options.split, options.stories, options.seed)):
        json.dump(asdict(example), sys.stdout)
        print()


if __name__ == "__main__":
    main()
