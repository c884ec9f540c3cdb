"""Question files: JSON Lines and CSV with `text, question, answers`, plain or packed (.gz, .xz), and generated news.

A reader is one entry of `READERS`: a suffix and a function from an open file to rows.
"""

import csv
import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from mbc_engine.datasets import newswire
from mbc_engine.datasets.example import QAExample
from mbc_engine.errors import DataError

NEWSWIRE = "newswire:"
COLUMNS = ("text", "question", "answers")


def load_examples(source: str) -> list[QAExample]:
    """Examples by file name, or `newswire:SPLIT:STORIES[:SEED]` for generated stories.

    Raises:
        DataError: the file is missing, of an unknown kind, or lacks a column.
    """
    if source.startswith(NEWSWIRE):
        return _generated(source)
    path = Path(source)
    if not path.is_file():
        raise DataError(
            f"There is no file {source}.", hint="--data takes a .jsonl or .csv file, or newswire:train:1000."
        )
    opener: Callable[..., TextIO] = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)  # type: ignore[assignment]
    kind = Path(path.stem).suffix if path.suffix in (".gz", ".xz") else path.suffix
    if kind not in READERS:
        raise DataError(f"{source} is not a .jsonl or .csv file.", hint="Packed ones end in .gz or .xz.")
    try:
        with opener(path, "rt", encoding="utf-8", newline="") as file:
            return [_example(row, number, source) for number, row in enumerate(READERS[kind](file), 1)]
    except (OSError, ValueError, csv.Error, lzma.LZMAError, zlib.error, EOFError) as error:
        raise DataError(f"{source} cannot be read: {error}") from error


def _jsonl(file: TextIO) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ValueError(f"line {number} is not JSON") from error


def _csv(file: TextIO) -> Iterator[Mapping[str, Any]]:
    for row in csv.DictReader(file):
        yield {**row, "answers": (row.get("answers") or "").split("\\")} if "answers" in row else row


READERS: dict[str, Callable[[TextIO], Iterator[Mapping[str, Any]]]] = {".jsonl": _jsonl, ".csv": _csv}


def _example(row: Mapping[str, Any], number: int, source: str) -> QAExample:
    missing = [column for column in COLUMNS if not isinstance(row, Mapping) or not row.get(column)]
    given = row["answers"] if not missing else None
    if missing or not isinstance(given, str | list):
        raise DataError(
            f"{source}, row {number} has no {' and no '.join(missing or ['list of answers'])}.",
            hint=f"Each row needs {', '.join(COLUMNS)}; answers is a list.",
        )
    answers = (given,) if isinstance(given, str) else tuple(str(answer) for answer in given)
    return QAExample(
        id=str(row.get("id", number)),
        text=str(row["text"]),
        question=str(row["question"]),
        answers=answers,
        title=str(row.get("title") or ""),
    )


def _generated(source: str) -> list[QAExample]:
    parts = source.removeprefix(NEWSWIRE).split(":")
    try:
        split, count, *seed = parts
        stories = newswire.stories(split, int(count), int(seed[0]) if seed else 0)  # type: ignore[arg-type]
        return list(newswire.examples(islice(stories, int(count))))
    except (ValueError, KeyError, IndexError) as error:
        raise DataError(
            f"{source!r} is not newswire:SPLIT:STORIES[:SEED].",
            hint="For example newswire:train:5000 or newswire:test:64.",
        ) from error
