"""What answers by rule are made of: passages and their sentences, rows of tables; and the reply."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from mbc_engine.answer import Source
from mbc_engine.bank import origin_name
from mbc_engine.bank.words import stems_of
from mbc_engine.mini.kinds.forms import ONLY_SUMMARY, kind_of
from mbc_engine.mini.span_reader import Span
from mbc_engine.mini.word_matching import missing
from mbc_engine.sources import Known, content_stems
from mbc_engine.text import split_sentences
from mbc_engine.text.characters import on_one_line
from mbc_engine.text.chunks import record_cells

_MOST_NAMED: Final = 3
# The nouns for what is in a list, which need not name it.
GENERIC: Final = stems_of(
    "items things ingredients steps parts points need bring take list name step attended present participated came"
)


class Passage(NamedTuple):
    """A chunk that was found, what its document says of it, and the reader's best span in it, if it was read."""

    text: str
    name: str = ""  # of its document
    place: int = 0  # in the bank
    context: str = ""
    date: str | None = None
    span: tuple[int, int] | None = None
    margin: float = 0.0  # of the span over "not here"

    @classmethod
    def of(cls, source: Source, chunk: int, known: Known, span: Span | None = None) -> Self:
        """A chunk with its source, what is known of it, and the best span if it was read."""
        where = ((span.start, span.end), span.margin) if span else (None, 0.0)
        name = origin_name(Path(source.path).name, source.part)
        return cls(source.passage or "", name, chunk, known.context, known.date, *where)

    @property
    def said(self) -> str:
        """What its document says of it, and its text."""
        return f"{self.context}\n{self.text}"


# The cells of a row of a table, each with its column.
Row = Sequence[tuple[str, str]]


class Item(NamedTuple):
    """A part of an answer, the index of its passage, and where it stands there."""

    text: str
    passage: int
    sentence: str

    @classmethod
    def quoted(cls, text: str, passage: int) -> Self:
        return cls(text, passage, text)

    @classmethod
    def of_row(cls, text: str, passage: int, row: Row) -> Self:
        return cls(text, passage, "; ".join(map(": ".join, row)))


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

    @classmethod
    def of_sentences(cls, items: Iterable[Item], *, is_certain: bool = True) -> Self | None:
        """What stands in sentences, one after another; None if there are none."""
        parts = tuple(items)
        return cls(" ".join(part.text for part in parts), parts, is_certain) if parts else None

    @classmethod
    def of_list(cls, items: Iterable[Item], *, is_certain: bool = True) -> Self | None:
        """An enumeration; None if nothing is in it."""
        parts = tuple(items)
        return cls(joined([part.text for part in parts]), parts, is_certain) if parts else None

    @classmethod
    def of_named(cls, items: Iterable[tuple[str, Item]]) -> Self | None:
        """The first few answers that differ, each after the name of what it is said of; one alone as it is."""
        distinct = {item.text: (name, item) for name, item in reversed([*items])}
        parts = [*reversed(distinct.values())]
        if len(parts) < 2:
            return cls(parts[0][1].text, (parts[0][1],), is_certain=True) if parts else None
        shown = parts[:_MOST_NAMED]
        named = [f"{name}: {item.text}".removeprefix(": ").rstrip(".") for name, item in shown]
        more = ["…"] if len(parts) > len(shown) else []
        return cls("; ".join(named + more), tuple(item for _, item in shown), is_certain=True)


def joined(texts: Sequence[str]) -> str:
    """An enumeration with "and" before the last."""
    separator = "; " if any(", " in text for text in texts) else ", "
    return f"{separator.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else "".join(texts)


# A name or number in a question, unless it begins with it.
NAMED: Final = re.compile(r"(?<!^)\b[A-Z\d][\w'-]*")
_TO_VALUE: Final = re.compile(r"; (?=[^:;\n]{1,80}: )")


def table_rows(text: str) -> list[list[tuple[str, str]]]:
    """The rows of a passage that `table_lines` wrote, each cell with its column; or the one record that it is."""
    rows = [[cell.partition(": ")[::2] for cell in _TO_VALUE.split(line)] for line in text.splitlines()]
    return [row for row in [*rows, record_cells(text)] if len(row) > 1 and all(value for _, value in row)]


# What the words of a question name, apart from what it asks.
_ABOUT: Final = stems_of(
    "happen happened happening happens tell told remind say says said know known note notes file files document "
    "documents article articles page pages news new newest latest summary summarise summarize overview outline "
    "describe mention mentions talk speak contain refer discuss cover deal written took place went list show find "
    "please everything something anything say else"
)


def search_text(question: str) -> str:
    """What to search for: of a question for all about something, only what that is."""
    stems, _ = topic_of(question)
    if kind_of(question) not in ("summary", "mentions") or not stems:
        return question
    question = ONLY_SUMMARY.sub("", question)
    return " ".join(
        word for word in question.split() if not stems.isdisjoint(stems_of(word)) or not stems_of(word) & _ABOUT
    )


def topic_of(question: str) -> tuple[set[str], set[str]]:
    """The stems of what a question is about, and those of them that are names or numbers."""
    question = ONLY_SUMMARY.sub("", question)
    stems = content_stems(question) - _ABOUT
    named = " ".join(NAMED.findall(question))
    return stems, (content_stems(named) & stems if named else set())


class Sentence(NamedTuple):
    """A sentence, the index of its passage, and its number there."""

    passage: int
    at: int
    text: str


_FEWEST_WORDS: Final = 4
_NO_ANSWER: Final = re.compile(r"\?[\W\d]*\Z")  # in a table of contents, the number of the next one follows


def sentences_of(passages: Sequence[Passage], *, joins: bool = False) -> list[Sentence]:
    """The sentences of passages, without headings, questions and those of a few words.

    If it `joins` these, they belong to what stands beside them on their line, and a question to what answers it.
    """
    sentences: list[Sentence] = []
    for number, passage in enumerate(passages):
        end = None  # of the last one
        for at, (first, last) in enumerate(split_sentences(passage.text)):
            text = on_one_line(passage.text[first:last])
            before = sentences[-1].text if joins and end is not None and not text.endswith("?") else ""
            is_beside = before and "\n" not in passage.text[end:first]
            if before.endswith("?") or (is_beside and (_is_fragment(before) or _is_fragment(text))):
                sentences[-1] = sentences[-1]._replace(text=f"{before} {text}")
            else:
                sentences.append(Sentence(number, at, text))
            end = last
    return [sentence for sentence in sentences if not _is_fragment(sentence.text)]


def _is_fragment(text: str) -> bool:
    return (len(text.split()) < _FEWEST_WORDS and ": " not in text) or _NO_ANSWER.search(text) is not None


# A paragraph, or code between fences.
_BLOCK: Final = re.compile(
    r"\s*\n[ \t]*(?P<fence>```[^\n]*\n)?[ \t]*(?P<text>\S.*?)(?(fence)(?:\n[ \t]*```|\Z)|(?=\n[ \t]*\n|\Z))", re.DOTALL
)
_LONGEST_BLOCK: Final = 400  # characters
_RUNS_ON: Final = re.compile(r"[a-z<$`]")
_FENCE: Final = re.compile(r"^[ \t]*```.*$", re.MULTILINE)


def with_introduced(text: str, start: int, end: int) -> str:
    """A part of a text on one line, with the paragraph or code that it introduces: what it says to run, below "run:".

    Without the colon, only what goes on in small letters, as a command, "followed by" and another.
    """
    said, first = text[:end].rstrip("*_`)\"'"), end
    while not said.endswith((".", "!", "?", "\u2026")) and (block := _BLOCK.match(text, end)):
        is_introduced = said.endswith(":") and end == first
        runs_on = text.count("\n", end, block.start("text")) > 1 and _RUNS_ON.match(block["text"])
        if not (is_introduced or runs_on) or len(block["text"]) > _LONGEST_BLOCK:
            break
        end = block.end()
    return on_one_line(_FENCE.sub("", text[start:end]))


def with_all(stems: set[str], passages: Sequence[Passage]) -> Iterator[Item]:
    """Of the first passage of each document that has all words, the sentence that has most."""
    seen = set[str]()
    for at, passage in enumerate(passages):
        if not stems or passage.name in seen or missing(stems, passage.said):
            continue
        seen.add(passage.name)
        sentences = [one.text for one in sentences_of([passage])] or [on_one_line(passage.text)]
        yield Item.quoted(min(sentences, key=lambda text: len(missing(stems, text))), at)
