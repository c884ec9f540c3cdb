"""What a question is to the engine, whatever file it came from.

How the rows of a dataset are laid out: which of their columns hold the document, the question and the answers.

Some of many, spread evenly: what stands for a whole dataset where all of it would take too long.

ArchivalQA joined with its newspaper articles, where the paragraph that holds the answer is the document.

StreamingQA as its users pass it on: a table of news articles, questions, and answers parted by backslashes.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mbc_engine.text.decoding import storable


@dataclass(frozen=True, slots=True)
class QAExample:
    """A question about a text, with every answer that counts as right.

    Attributes:
        id: what its dataset calls it, else its number there.
        text: the document that holds the answer.
        question: the question.
        answers: one or more gold answers.
        title: the document's title, may be empty.
    """

    id: str
    text: str
    question: str
    answers: tuple[str, ...]
    title: str = ""


Row = Mapping[str, Any]


class BadRow(Exception):
    """Raised for a row that asks nothing. Its message is worded to follow the file's name."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"row {number:,} {what}")


@dataclass(frozen=True)
class Layout:
    """The names of the columns. Beside those that have to be there, `id` and `title` are taken where they are.

    Attributes:
        text: the document.
        question: the question.
        answers: the answers, a list, one text, or either of them as `text` of an object, as the hub keeps SQuAD's.
        separator: what parts several answers that are one text; None if that is always one answer.
    """

    text: str
    question: str
    answers: str
    separator: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that have to be there."""
        return self.text, self.question, self.answers

    def examples(self, rows: Iterable[Row]) -> Iterator[QAExample]:
        """What the rows ask. White space around questions and answers is no part of them, and blank answers are none.

        Raises:
            BadRow: a column is blank or of the wrong type.
        """
        # Many questions are about one text, which takes far more room than they do: it is kept once.
        texts: dict[str, str] = {}
        for number, row in enumerate(rows, 1):
            try:
                example = self._example(row, str(number), texts)
            except ValueError as error:
                raise BadRow(number, str(error)) from None
            yield example

    def _example(self, row: Row, number: str, texts: dict[str, str]) -> QAExample:
        if not isinstance(row, Mapping):
            raise ValueError("is not an object with columns")  # noqa: TRY004 - as all else that is wrong with a row
        given, title = row.get("id"), row.get("title")
        text = _text(row, self.text)
        return QAExample(
            id=number if given is None or given == "" else storable(str(given)),
            text=texts.setdefault(text, text),
            question=_text(row, self.question).strip(),
            answers=self._answers(row),
            title=storable(title) if isinstance(title, str) else "",
        )

    def _answers(self, row: Row) -> tuple[str, ...]:
        given = row.get(self.answers)
        if isinstance(given, Mapping):
            given = given.get("text")
        if isinstance(given, str):
            given = given.split(self.separator) if self.separator else [given]
        if given is not None and not isinstance(given, list):
            raise ValueError(f"has a value for {self.answers} that is neither text nor a list")
        answers = tuple(answer for answer in map(_answer, given or ()) if answer)
        if not answers:
            raise ValueError(f"has no {self.answers}")
        return answers


def _text(row: Row, column: str) -> str:
    value = row.get(column)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"has a value for {column} that is not text")
    if value is None or not value.strip():
        raise ValueError(f"has no {column}")
    return storable(value)


def _answer(value: Any) -> str:
    """An answer as text; 1912 is one as well, but neither NaN nor true."""
    is_no_number = isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value))
    if is_no_number or not isinstance(value, str | int | float):
        raise ValueError("has an answer that is not text")
    return storable(str(value)).strip()


T = TypeVar("T")


def evenly_spaced(items: Sequence[T], most: int | None) -> list[T]:
    """All items, or `most` of them in their order, spread over the whole."""
    if most is None or most >= len(items):
        return list(items)
    return [items[index * len(items) // most] for index in range(most)]


ARCHIVALQA_LAYOUT = Layout(text="ans_paragraph", question="question", answers="answer")


STREAMINGQA_LAYOUT = Layout(text="text", question="question", answers="answers", separator="\\")
