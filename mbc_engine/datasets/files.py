"""Datasets by name: files of one's own, the datasets of the paper, and generated news.

A reader is one entry of `READERS`: a suffix and a function from an open file, plain or packed (.gz, .xz), to rows. What
the columns of the rows hold is told by the first of `LAYOUTS` that has all of its columns there. Datasets that need no
file are one entry of `NAMED`. `[FROM:TO]` behind any of them is a part of its documents.
"""

import csv
import json
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

from mbc_engine.datasets import archivalqa, newswire, squad, streamingqa
from mbc_engine.datasets.example import QAExample
from mbc_engine.datasets.layout import BadRow, Layout, Row
from mbc_engine.documents.byte_stream import OPENERS, split_suffixes
from mbc_engine.documents.unreadable import UnreadableFile, described, reason
from mbc_engine.errors import DataError

_NEWSWIRE = "newswire"
_PART = re.compile(r"(?P<whole>.+)\[(?P<start>\d*):(?P<end>\d*)\]", re.DOTALL)
_DAMAGE = (ValueError, lzma.LZMAError, zlib.error, EOFError)
# By default 131,072, less than a long article; and one limit for the whole process.
_CELL_CHARACTERS = 16 << 20
_WANTED = "--data takes a .jsonl, .csv or .json file, squad:train or newswire:train:1000."
_HINT = "Rows have text, question, answers; or question, answer, ans_paragraph, as those of ArchivalQA."
# What of a stranger's columns is told.
_MOST_COLUMNS, _MOST_LETTERS = 12, 30


def load_examples(source: str) -> list[QAExample]:
    """The questions of a dataset.

    Args:
        source: a .jsonl, .csv or .json file (SQuAD's layout), plain or packed; `squad:SPLIT[:FOLDER]` for the paper's
            splits of SQuAD v1.1, from the hub or from the folder of its original files; or
            `newswire:SPLIT:STORIES[:SEED]` for generated stories. Of any of these, `[FROM:TO]` behind it takes the
            documents FROM to TO - 1 with all their questions, counted from 0 in order of their first question.

    Raises:
        DataError: it is missing, of an unknown kind, lacks a column or holds no questions.
    """
    whole, start, end = _part_of(source)
    name = _name_of(whole)
    examples = NAMED[name](whole) if name else _from_file(Path(whole))
    if not examples:
        raise DataError(f"{source} holds no questions.", hint="Ask for more of it.")
    if whole == source:
        return examples
    documents = set(list(dict.fromkeys(example.text for example in examples))[start:end])
    if not documents:
        count = len({example.text for example in examples})
        raise DataError(f"{source} holds no questions.", hint=f"{whole} has {count:,} documents.")
    return [example for example in examples if example.text in documents]


def absolute(source: str, folder: Path | None = None) -> str:
    """The same dataset by a name that means the same in every working folder.

    Args:
        source: as `load_examples` takes it.
        folder: where relative paths begin; None is the working folder.

    Raises:
        DataError: it names no dataset.
    """
    whole, _, _ = _part_of(source)
    part, here = source[len(whole) :], (folder or Path()).absolute()
    match _name_of(whole):
        case None:
            return f"{here / whole}{part}"
        case squad.NAME:
            return f"{squad.Spec.parse(whole).absolute(here)}{part}"
    return source


def file_of(source: str) -> Path | None:
    """The file or folder that a dataset is read from; None for those of the hub and generated ones.

    Raises:
        DataError: it names no dataset.
    """
    whole, _, _ = _part_of(source)
    match _name_of(whole):
        case None:
            return Path(whole)
        case squad.NAME:
            return squad.Spec.parse(whole).folder
    return None


def is_of_hub(source: str) -> bool:
    """Whether a dataset has to be had from the hub.

    Raises:
        DataError: it names no dataset.
    """
    return _name_of(source) == squad.NAME and file_of(source) is None


def own_validation(sources: Sequence[str]) -> str | None:
    """What the paper validates on where it trains on `sources`: a part of SQuAD, if they are its `squad:train` alone.

    Raises:
        DataError: they name no dataset.
    """
    if len(sources) != 1 or _name_of(sources[0]) != squad.NAME:
        return None
    spec = squad.Spec.parse(_part_of(sources[0])[0])
    return str(squad.Spec("validation", spec.folder)) if spec.split == "train" else None


def _name_of(source: str) -> str | None:
    name, colon, _ = source.partition(":")
    return name if colon and name in NAMED else None


def _part_of(source: str) -> tuple[str, int | None, int | None]:
    """What a dataset is a part of, and which documents of it; None is all on that side."""
    found = _PART.fullmatch(source)
    if found is None:
        return source, None, None
    start, end = (int(number) if number else None for number in found.group("start", "end"))
    return found["whole"], start, end


def _from_file(path: Path) -> list[QAExample]:
    try:
        is_file = path.is_file()
    except OSError as error:
        raise DataError(f"{path} {reason(error)}.", hint=_WANTED) from error
    if not is_file:
        raise DataError(f"There is no file {path}.", hint=_WANTED)
    kind, compression = split_suffixes(path.name)
    if kind not in READERS:
        raise DataError(f"{path} is no {' or '.join(READERS)} file.", hint="Packed ones end in .gz or .xz.")
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


def _squad(source: str) -> list[QAExample]:
    spec = squad.Spec.parse(source)
    split = squad.SPLITS[spec.split]
    if spec.folder is None:
        place = f"{squad.HUB_ID}, {split.original.hub_split}"
        try:
            examples = list(squad.LAYOUT.examples(squad.hub_rows(split.original.hub_split)))
        except BadRow as error:
            raise DataError(f"{place}, {error}.", hint=f"It is not the dataset {squad.HUB_ID} of the hub.") from error
    else:
        place = str(spec.folder / split.original.file)
        examples = _from_file(Path(place))
    squad.require_all(examples, split.original, place)
    return split.cut(examples)


def _newswire(source: str) -> list[QAExample]:
    try:
        _, split, count, *seed = source.split(":")
        stories = newswire.stories(split, int(count), int(seed[0]) if seed else 0)  # type: ignore[arg-type]
        return list(newswire.examples(islice(stories, int(count))))
    except (ValueError, KeyError, IndexError) as error:
        raise DataError(
            f"{source!r} is not newswire:SPLIT:STORIES[:SEED].",
            hint="For example newswire:train:5000 or newswire:test:64.",
        ) from error


READERS: Mapping[str, Callable[[TextIO], Iterator[Row]]] = {".jsonl": _jsonl, ".csv": _csv, ".json": squad.rows}
LAYOUTS = (streamingqa.LAYOUT, squad.LAYOUT, archivalqa.LAYOUT)
NAMED: Mapping[str, Callable[[str], list[QAExample]]] = {squad.NAME: _squad, _NEWSWIRE: _newswire}
