"""Files of questions: .jsonl, .csv and .json, plain or packed (.gz, .xz).

A reader is one entry of `READERS`: a suffix and a function from an open file to rows. What the columns of the rows hold
is told by the first of `LAYOUTS` that has all of its columns there.
"""

import csv
import json
import lzma
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import TextIO

from mbc_engine.datasets import squad
from mbc_engine.datasets.layout import ARCHIVALQA_LAYOUT, STREAMINGQA_LAYOUT, BadRow, Layout, QAExample, Row
from mbc_engine.errors import DataError
from mbc_engine.text.decoding import OPENERS, split_suffixes
from mbc_engine.text.document import UnreadableFile, described, reason

_DAMAGE = (ValueError, lzma.LZMAError, zlib.error, EOFError)
# By default 131,072, less than a long article; and one limit for the whole process.
_CELL_CHARACTERS = 16 << 20
_WANTED = "--data takes a .jsonl, .csv or .json file, squad:train or newswire:train:1000."
_HINT = "Rows have text, question, answers; or question, answer, ans_paragraph, as those of ArchivalQA."
# What of a stranger's columns is told.
_MOST_COLUMNS, _MOST_LETTERS = 12, 30


def read_examples(path: Path) -> list[QAExample]:
    """The questions of a file.

    Raises:
        DataError: it is missing, of an unknown kind, damaged, lacks a column or holds no questions.
    """
    try:
        is_file = path.is_file()
    except OSError as error:
        raise DataError(f"{path} {reason(error)}.", hint=_WANTED) from error
    if not is_file:
        raise DataError(f"There is no file {path}.", hint=_WANTED)
    kind, compression = split_suffixes(path.name)
    if kind not in READERS:
        raise DataError(f"{path} is not a {' or '.join(READERS)} file.", hint="Packed ones end in .gz or .xz.")
    try:
        with path.open("rb") as file, OPENERS[compression](file) as unpacked:
            # A byte order mark, which spreadsheets write, is no part of the first column's name.
            text = TextIOWrapper(unpacked, encoding="utf-8-sig", newline="")
            examples = list(_examples(READERS[kind](text)))
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8.", hint="Save it as UTF-8.") from error
    except BadRow as error:
        raise DataError(f"{path}, {error}.", hint=_HINT) from error
    except UnreadableFile as error:
        raise DataError(f"{path} {error}.", hint=_HINT) from error
    except OSError as error:
        raise DataError(f"{path} {reason(error)}.", hint="Check its permissions, and that it is whole.") from error
    except _DAMAGE as error:
        raise DataError(f"{path} cannot be read: {described(error)}.", hint="Mend it, or get it again.") from error
    if not examples:
        raise DataError(f"{path} holds no questions.", hint=_HINT)
    return examples


def _examples(rows: Iterator[Row]) -> Iterator[QAExample]:
    first = next(rows, None)
    if first is not None:
        yield from _layout_of(first).examples(chain((first,), rows))


def _layout_of(row: Row) -> Layout:
    """How a file is laid out whose first row this is.

    Raises:
        UnreadableFile: in no way that is known.
    """
    there = list(row) if isinstance(row, Mapping) else []
    missing: list[list[str]] = []
    for layout in LAYOUTS:
        missing.append([column for column in layout.columns if column not in there])
        if not missing[-1]:
            return layout
    raise UnreadableFile(f"has no {_listed(min(missing, key=len))}; its columns are {_listed(there) or 'none'}")


def _listed(columns: Sequence[object]) -> str:
    names = [str(column) for column in columns]
    shown = [name if len(name) <= _MOST_LETTERS else f"{name[:_MOST_LETTERS]}…" for name in names[:_MOST_COLUMNS]]
    return ", ".join(shown + ["…"] * (len(names) > _MOST_COLUMNS))


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
        ours = [name for name in reader.fieldnames or () if any(name in layout.columns for layout in LAYOUTS)]
        for name, count in Counter(ours).items():
            if count > 1:  # the last would count, and nobody be told
                raise UnreadableFile(f"has {count} columns {name}")
        for number, row in enumerate(reader, 1):
            if None in row:
                raise BadRow(number, "has more cells than the header")
            yield row
    except csv.Error as error:
        raise ValueError(f"{error}, after line {reader.line_num:,}") from error


READERS: Mapping[str, Callable[[TextIO], Iterator[Row]]] = {".jsonl": _jsonl, ".csv": _csv, ".json": squad.rows}
LAYOUTS = (STREAMINGQA_LAYOUT, squad.LAYOUT, ARCHIVALQA_LAYOUT)
