"""Questions about documents, read from .jsonl, .csv and .json files, optionally compressed (.gz, .xz).

The first of `LAYOUTS` whose columns are all present says which hold the document, the question and the answers.
"""

import csv
import hashlib
import json
import lzma
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, TextIO, TypeVar

from mbc_engine.errors import DataError
from mbc_engine.text.decoding import OPENERS, split_suffixes, storable
from mbc_engine.text.document import UnreadableFile, described, reason

T = TypeVar("T")
Row = Mapping[str, Any]

_DAMAGE = (ValueError, lzma.LZMAError, zlib.error, EOFError)
# The csv module's default of 131,072 is less than a long article. The limit is process-wide.
_CELL_CHARACTERS = 16 << 20
_WANTED = "--data takes a .jsonl, .csv or .json file, or squad:train."
_HINT = "Rows have text, question, answers; or question, answer, ans_paragraph, as in ArchivalQA."
# Limits on the column names listed in a message.
_MOST_COLUMNS, _MOST_LETTERS = 12, 30


@dataclass(frozen=True, slots=True)
class QAExample:
    """A question about a document's `text`, with all accepted answers; `id` is the dataset's, else the row number."""

    id: str
    text: str
    question: str
    answers: tuple[str, ...]
    title: str = ""


@dataclass(frozen=True)
class Layout:
    """The columns of a dataset's rows, besides `id` and `title`.

    Answers are a list or a string, possibly under the key `text` of an object, as in the hub's SQuAD; `separator`
    splits a string into several answers.
    """

    text: str
    question: str
    answers: str
    separator: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return self.text, self.question, self.answers

    def examples(self, rows: Iterable[Row], origin: str) -> Iterator[QAExample]:
        """Convert rows to examples; strips questions and answers, drops blank answers. Errors name `origin`."""
        texts: dict[str, str] = {}  # many questions share one long text; keep a single copy
        for number, row in enumerate(rows, 1):
            try:
                yield self._example(row, str(number), texts)
            except ValueError as error:
                raise DataError(f"{origin}, row {number:,} {error}.", hint=_HINT) from None

    def _example(self, row: Row, number: str, texts: dict[str, str]) -> QAExample:
        if not isinstance(row, Mapping):
            raise ValueError("is not an object with columns")  # noqa: TRY004 - as for any other faulty row
        if None in row:  # csv's key for cells beyond the header
            raise ValueError("has more cells than the header")
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
    if not value or not value.strip():
        raise ValueError(f"has no {column}")
    return storable(value)


def _answer(value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not isinstance(value, str) and not (is_number and (isinstance(value, int) or math.isfinite(value))):
        raise ValueError("has an answer that is not text")
    return storable(str(value)).strip()


SQUAD = Layout(text="context", question="question", answers="answers")
# StreamingQA as commonly redistributed; SQuAD; ArchivalQA joined with its articles, by the answer's paragraph.
LAYOUTS = (
    Layout(text="text", question="question", answers="answers", separator="\\"),
    SQUAD,
    Layout(text="ans_paragraph", question="question", answers="answer"),
)


def evenly_spaced(items: Sequence[T], count: int | None) -> list[T]:
    """All items, or `count` of them, evenly spaced and in order."""
    if count is None or count >= len(items):
        return list(items)
    return [items[index * len(items) // count] for index in range(count)]


def digest(*parts: Sequence[QAExample]) -> str:
    """A digest of all questions, their documents and answers, by which a resumed run knows its own."""
    whole = hashlib.sha256()
    for examples in parts:
        for one in examples:
            whole.update(json.dumps([one.id, one.text, one.question, one.answers]).encode())
        whole.update(b"\n")
    return whole.hexdigest()[:16]


def made_up_stories() -> list[QAExample]:
    """Questions about ten news stories that no model has seen, of `mbc demo`; see recipes/newswire."""
    return read_examples(Path(__file__).with_name("stories.jsonl"))


def read_examples(path: Path) -> list[QAExample]:
    """Read a file's examples. Raises DataError if it is missing, of an unknown kind, damaged, or lacks a column."""
    try:
        if not path.is_file():
            fault = f"{path} is a folder." if path.is_dir() else f"There is no file {path}."
            raise DataError(fault, hint=_WANTED)
    except OSError as error:
        raise DataError(f"{path} {reason(error)}.", hint=_WANTED) from error
    kind, compression = split_suffixes(path.name)
    if kind not in READERS:
        raise DataError(f"{path} is not a {' or '.join(READERS)} file.", hint="Compressed files end in .gz or .xz.")
    try:
        with path.open("rb") as file, OPENERS[compression](file) as unpacked:
            text = TextIOWrapper(unpacked, encoding="utf-8-sig", newline="")  # spreadsheets write a byte order mark
            rows = READERS[kind](text)
            first = next(rows, None)
            examples = [] if first is None else [*_layout_of(first).examples(chain((first,), rows), str(path))]
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8.", hint="Save it as UTF-8.") from error
    except UnreadableFile as error:
        raise DataError(f"{path} {error}.", hint=_HINT) from error
    except OSError as error:
        raise DataError(f"{path} {reason(error)}.", hint="Check its permissions, and that it is whole.") from error
    except _DAMAGE as error:
        raise DataError(
            f"{path} cannot be read: {described(error)}.", hint="Repair it, or download it again."
        ) from error
    if not examples:
        raise DataError(f"{path} holds no questions.", hint=_HINT)
    return examples


def _layout_of(row: Row) -> Layout:
    there = [str(column) for column in row] if isinstance(row, Mapping) else []
    missing = [[column for column in layout.columns if column not in there] for layout in LAYOUTS]
    if [] in missing:
        return LAYOUTS[missing.index([])]
    shown = [name if len(name) <= _MOST_LETTERS else f"{name[:_MOST_LETTERS]}…" for name in there[:_MOST_COLUMNS]]
    shown += ["…"] if len(there) > _MOST_COLUMNS else []
    fewest = min(missing, key=len)
    raise UnreadableFile(f"has no {', '.join(fewest)}; its columns are {', '.join(shown) or 'none'}")


def _jsonl(file: TextIO) -> Iterator[Row]:
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {number:,} is not JSON") from error


def _csv(file: TextIO) -> Iterator[Row]:
    csv.field_size_limit(max(csv.field_size_limit(), _CELL_CHARACTERS))
    reader = csv.DictReader(file, strict=True)
    try:
        for name, count in Counter(reader.fieldnames).items():
            if count > 1 and any(name in layout.columns for layout in LAYOUTS):  # the last would silently win
                raise UnreadableFile(f"has {count} columns {name}")
        yield from reader
    except csv.Error as error:
        raise ValueError(f"{error}, after line {reader.line_num:,}") from error


def _squad(file: TextIO) -> Iterator[Row]:
    try:
        for article in json.load(file)["data"]:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    yield {
                        "id": question.get("id"),
                        "title": article.get("title"),
                        "context": paragraph["context"],
                        "question": question["question"],
                        "answers": [answer["text"] for answer in question["answers"]],
                    }
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableFile("is not in SQuAD's format; save JSON rows as .jsonl") from error


READERS: Mapping[str, Callable[[TextIO], Iterator[Row]]] = {".jsonl": _jsonl, ".csv": _csv, ".json": _squad}
