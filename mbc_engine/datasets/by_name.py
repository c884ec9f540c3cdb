"""Datasets by name: files of one's own, the datasets of the paper, and generated news.

Datasets that need no file are one entry of `NAMED`. `[FROM:TO]` behind any of them is a part of its documents.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from mbc_engine.datasets import newswire, squad
from mbc_engine.datasets.files import read_examples
from mbc_engine.datasets.layout import BadRow, QAExample
from mbc_engine.errors import DataError

_NEWSWIRE = "newswire"
_PART = re.compile(r"(?P<whole>.+)\[(?P<start>\d*):(?P<end>\d*)\]", re.DOTALL)


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
    examples = NAMED[name](whole) if name else read_examples(Path(whole))
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
        examples = read_examples(Path(place))
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


NAMED: Mapping[str, Callable[[str], list[QAExample]]] = {squad.NAME: _squad, _NEWSWIRE: _newswire}
