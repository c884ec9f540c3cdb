"""Datasets by name: your own files and the paper's SQuAD splits.

Appending `[FROM:TO]` selects a range of documents.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from mbc_engine.datasets.examples import SQUAD, QAExample, Row, read_examples
from mbc_engine.errors import DataError
from mbc_engine.machine import installing
from mbc_engine.text.document import described

# SQuAD v1.1 (Rajpurkar et al., 2016), from the hub or from its original files, in the paper's splits. The hub keeps the
# order of the original files, so an index range selects the same questions from either.
_SQUAD = "squad:"
HUB_ID = "rajpurkar/squad"
# The two published parts by their hub names: original file and number of questions.
ORIGINALS = {"train": ("train-v1.1.json", 87_599), "validation": ("dev-v1.1.json", 10_570)}
# Each split's part and range of questions there (paragraphs for the test split). The ranges are those of the released
# CaMeLS code, which MAC and the paper build on; base LMs for fine-tuning train on the questions before them.
SPLITS = {
    "train": ("train", slice(42_118, 82_011)),
    "validation": ("train", slice(82_011, 87_599)),
    "test": ("validation", slice(1_665)),
    "base-train": ("train", slice(40_000)),
}
_WITH_FOLDER = "squad:SPLIT:FOLDER."
_PART = re.compile(r"(?P<whole>.+)\[(?P<start>\d*):(?P<end>\d*)\]", re.DOTALL)


def load_examples(source: str) -> list[QAExample]:
    """The questions of a dataset.

    `source` is a .jsonl, .csv or .json file (SQuAD's layout), optionally compressed; or `squad:SPLIT[:FOLDER]` for the
    paper's splits of SQuAD v1.1, from the hub or from a folder with its original files. Appending `[FROM:TO]` selects
    documents FROM to TO - 1, numbered from 0 in order of their first question, with all their questions.
    Raises DataError if it is missing, of an unknown kind, lacks a column or holds no questions.
    """
    whole, part = _split_part(source)
    examples = _squad(whole) if whole.startswith(_SQUAD) else read_examples(Path(whole))
    if part is not None:
        documents = list(dict.fromkeys(example.text for example in examples))
        taken = set(documents[part])
        examples = [example for example in examples if example.text in taken]
        if not examples:
            raise DataError(f"{source} holds no questions.", hint=f"{whole} has {len(documents):,} documents.")
    return examples


def absolute(source: str, folder: Path | None = None) -> str:
    """The source with an absolute path; a relative path is resolved against `folder`, or the working directory."""
    path = file_of(source)
    if path is None:
        return source
    whole, path = _split_part(source)[0], (folder or Path()).absolute() / path
    split = f"{_SQUAD}{_parse_squad(whole)[0]}:" if whole.startswith(_SQUAD) else ""
    return f"{split}{path}{source[len(whole) :]}"


def file_of(source: str) -> Path | None:
    """The file or folder a dataset is read from; None if it comes from the hub."""
    whole, _ = _split_part(source)
    return _parse_squad(whole)[1] if whole.startswith(_SQUAD) else Path(whole)


def is_of_hub(source: str) -> bool:
    """Whether a dataset is downloaded from the hub."""
    return file_of(source) is None


def own_validation(sources: Sequence[str]) -> str | None:
    """The paper's validation set for training on `sources`: SQuAD's if they are just `squad:train`, else None."""
    if len(sources) != 1 or not sources[0].startswith(_SQUAD):
        return None
    split, folder = _parse_squad(_split_part(sources[0])[0])
    suffix = f":{folder}" if folder else ""
    return f"{_SQUAD}validation{suffix}" if split == "train" else None


def _split_part(source: str) -> tuple[str, slice | None]:
    match = _PART.fullmatch(source)
    if match is None:
        return source, None
    start, end = (int(number) if number else None for number in match.group("start", "end"))
    return match["whole"], slice(start, end)


def _parse_squad(source: str) -> tuple[str, Path | None]:
    """The split of `squad:SPLIT[:FOLDER]`, and the folder of the original files, or None for the hub."""
    _, split, *folder = source.split(":", 2)
    if split not in SPLITS or folder == [""]:
        raise DataError(f"{source!r} is not squad:SPLIT[:FOLDER].", hint=f"The splits are {', '.join(SPLITS)}.")
    return split, Path(os.path.expanduser(folder[0])) if folder else None  # noqa: PTH111 - "~nobody" stays


def _squad(source: str) -> list[QAExample]:
    split, folder = _parse_squad(source)
    part = SPLITS[split][0]
    file, questions = ORIGINALS[part]
    origin = str(folder / file) if folder else f"{HUB_ID}, {part}"
    examples = read_examples(folder / file) if folder else list(SQUAD.examples(_hub_rows(part), origin))
    if len(examples) != questions:
        published = " and ".join(name for name, _ in ORIGINALS.values())
        raise DataError(
            f"{origin} has {len(examples):,} questions, not the {questions:,} of SQuAD v1.1.",
            hint=f"The splits of the paper are cut from {published} as they were published.",
        )
    return cut_squad(split, examples)


def cut_squad(split: str, examples: Sequence[QAExample]) -> list[QAExample]:
    """The questions of a split, given all questions of the part it is taken from."""
    part = SPLITS[split][1]
    if split != "test":
        return list(examples[part])
    paragraphs = set(list(dict.fromkeys(example.text for example in examples))[part])
    return [example for example in examples if example.text in paragraphs]


def _hub_rows(part: str) -> list[Row]:
    try:
        from datasets import load_dataset
        from datasets.exceptions import DatasetsError
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        raise DataError(
            f"SQuAD is downloaded with the package datasets, which does not work here: {described(error)}.",
            hint=f"{installing('hub')}, or give the folder of the original files: {_WITH_FOLDER}",
        ) from error
    # The base of the hub client's HTTP errors, whichever HTTP library it uses.
    broken_connection: type[Exception] = HfHubHTTPError.__bases__[0]
    try:
        rows: list[Row] = load_dataset(HUB_ID, split=part).to_list()
    except (DatasetsError, broken_connection, OSError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{HUB_ID} could not be downloaded from the hub: {described(error)}.",
            hint=f"Check the network, or give the folder of the original files: {_WITH_FOLDER}",
        ) from error
    return rows
