"""The little template language of the newswire stories.

    {fact}            a fact of the story; writing it also notes that the story mentions it
    <person>          a draw: a name, or a word from a list of the template file
    <3-40>            a number in that range; `<1,200-98,000>` writes thousands with commas, `<1.5-9.9>` one decimal
    [won|took {it}]   one of the alternatives, which may be empty

`a` is written throughout; `with_articles` turns it into `an` where English wants that.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

NAME_KINDS = ("person", "first", "surname", "place")

_TOKEN = re.compile(r"(\[|\]|\||\{\w+\}|<[^>]+>)")
_RANGE = re.compile(r"([\d,.]+)-([\d,.]+)")
_A_BEFORE_VOWEL = re.compile(
    r"\b([Aa]) (?=[aioAIO](?!ne\b|ne-|nce)|[eE](?!u)|[uU](?!ni[^mn]|s[ae]|k)|hono|hour|\$?8|\$?1[18](?!\d))"
)


class Source(Protocol):
    """Where a template's draws come from."""

    def chance(self) -> float:
        """A number in [0, 1)."""

    def name(self, kind: str) -> str:
        """A name of one of `NAME_KINDS`."""


@dataclass
class Scene:
    """The facts of one story, and which of them its text has mentioned so far, in order."""

    source: Source
    facts: dict[str, str]
    mentioned: dict[str, None] = field(default_factory=dict)


class _Part(Protocol):
    def render(self, scene: Scene) -> str: ...


@dataclass(frozen=True, slots=True)
class _Literal:
    text: str

    def render(self, scene: Scene) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class _Fact:
    name: str

    def render(self, scene: Scene) -> str:
        scene.mentioned[self.name] = None
        return scene.facts[self.name]


@dataclass(frozen=True, slots=True)
class _Name:
    kind: str

    def render(self, scene: Scene) -> str:
        return scene.source.name(self.kind)


@dataclass(frozen=True, slots=True)
class _Number:
    """A number of `low..high` units of 1 or, with `decimals`, of a tenth."""

    low: int
    high: int
    form: str

    def render(self, scene: Scene) -> str:
        value = self.low + int(scene.source.chance() * (self.high - self.low + 1))
        return self.form.format(value / 10 if self.form == "{:.1f}" else value)


@dataclass(frozen=True, slots=True)
class _Either:
    options: tuple[_Part, ...]

    def render(self, scene: Scene) -> str:
        return self.options[int(scene.source.chance() * len(self.options))].render(scene)


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template."""

    parts: tuple[_Part, ...]

    def render(self, scene: Scene) -> str:
        """The text, with the facts of the scene and fresh draws; notes in the scene what it mentions."""
        return "".join([part.render(scene) for part in self.parts])


def parse(text: str, lists: Mapping[str, Sequence[str]]) -> Template:
    """Reads a template.

    Args:
        text: the template.
        lists: the word lists its draws may name.

    Raises:
        ValueError: an unbalanced bracket, or a draw that names neither a list, a range nor a kind of name.
    """
    tokens = [token for token in _TOKEN.split(text) if token]
    options, end = _options(tokens, 0, lists)
    if end != len(tokens) or len(options) != 1:
        raise ValueError(f"Unbalanced brackets in the template {text!r}.")
    return options[0]


def with_articles(text: str) -> str:
    """The text with `a` turned into `an` before a vowel sound."""
    return _A_BEFORE_VOWEL.sub(r"\1n ", text)


def _options(tokens: Sequence[str], at: int, lists: Mapping[str, Sequence[str]]) -> tuple[tuple[Template, ...], int]:
    """The alternatives from `tokens[at]` up to the closing bracket or the end, and where that is."""
    options: list[Template] = []
    parts: list[_Part] = []
    while at < len(tokens) and tokens[at] != "]":
        match tokens[at]:
            case "|":
                options.append(Template(tuple(parts)))
                parts = []
            case "[":
                inner, at = _options(tokens, at + 1, lists)
                if at == len(tokens):
                    raise ValueError(f"A bracket is never closed in the template {''.join(tokens)!r}.")
                parts.append(_Either(inner))
            case token if token.startswith("{"):
                parts.append(_Fact(token[1:-1]))
            case token if token.startswith("<"):
                parts.append(_draw(token[1:-1], lists))
            case token:
                parts.append(_Literal(token))
        at += 1
    return (*options, Template(tuple(parts))), at


def _draw(name: str, lists: Mapping[str, Sequence[str]]) -> _Part:
    if name in NAME_KINDS:
        return _Name(name)
    if name in lists:
        return _Either(tuple(_Literal(word) for word in lists[name]))
    if bounds := _RANGE.fullmatch(name):
        low, high = (int(re.sub("[,.]", "", bound)) for bound in bounds.groups())
        return _Number(low, high, "{:.1f}" if "." in name else "{:,}" if "," in name else "{}")
    raise ValueError(f"No list, range or kind of name is called <{name}>.")
