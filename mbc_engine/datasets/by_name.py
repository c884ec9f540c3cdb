"""Datasets by name: files of one's own, the datasets of the paper, and generated news.

`[FROM:TO]` after any of them is a part of its documents.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from mbc_engine.datasets import newswire, squad
from mbc_engine.datasets.layout import QAExample, read_examples
from mbc_engine.errors import DataError

_PART = re.compile(r"(?P<whole>.+)\[(?P<start>\d*):(?P<end>\d*)\]", re.DOTALL)


def load_examples(source: str) -> list[QAExample]:
    """The questions of a dataset.

    `source` is a .jsonl, .csv or .json file (SQuAD's layout), plain or packed; `squad:SPLIT[:FOLDER]` for the paper's
    splits of SQuAD v1.1, from the hub or from the folder of its original files; or `newswire:SPLIT:STORIES[:SEED]` for
    generated stories. `[FROM:TO]` after any of them takes the documents FROM to TO - 1 with all their questions,
    counted from 0 in order of their first question.
    Raises DataError if it is missing, of an unknown kind, lacks a column or holds no questions.
    """
    whole, part = _split_part(source)
    name = _name_of(whole)
    examples = NAMED[name](whole) if name else read_examples(Path(whole))
    if part is not None:
        documents = list(dict.fromkeys(example.text for example in examples))
        taken = set(documents[part])
        examples = [example for example in examples if example.text in taken]
    if not examples:
        hint = f"{whole} has {len(documents):,} documents." if part else "Ask for more of it."
        raise DataError(f"{source} holds no questions.", hint=hint)
    return examples


def absolute(source: str, folder: Path | None = None) -> str:
    """The same dataset by absolute paths; relative ones begin in `folder`, or in the working folder."""
    place = file_of(source)
    if place is None:
        return source
    whole, here = _split_part(source)[0], (folder or Path()).absolute() / place
    split = f"{squad.NAME}:{squad.parse(whole)[0]}:" if _name_of(whole) else ""
    return f"{split}{here}{source[len(whole) :]}"


def file_of(source: str) -> Path | None:
    """The file or folder that a dataset is read from; None for those of the hub and generated ones."""
    whole, _ = _split_part(source)
    name = _name_of(whole)
    return Path(whole) if name is None else squad.parse(whole)[1] if name == squad.NAME else None


def is_of_hub(source: str) -> bool:
    """Whether a dataset is downloaded from the hub."""
    return _name_of(source) == squad.NAME and file_of(source) is None


def own_validation(sources: Sequence[str]) -> str | None:
    """What the paper validates on if it trains on `sources`: a part of SQuAD for `squad:train` alone."""
    if len(sources) != 1 or _name_of(sources[0]) != squad.NAME:
        return None
    split, folder = squad.parse(_split_part(sources[0])[0])
    place = f":{folder}" if folder else ""
    return f"{squad.NAME}:validation{place}" if split == "train" else None


def _name_of(source: str) -> str | None:
    name, colon, _ = source.partition(":")
    return name if colon and name in NAMED else None


def _split_part(source: str) -> tuple[str, slice | None]:
    found = _PART.fullmatch(source)
    if found is None:
        return source, None
    start, end = (int(number) if number else None for number in found.group("start", "end"))
    return found["whole"], slice(start, end)


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


NAMED: Mapping[str, Callable[[str], list[QAExample]]] = {squad.NAME: squad.load, "newswire": _newswire}
