"""SQuAD v1.1 (Rajpurkar et al., 2016), from the hub or from its original files, in the splits of the paper.

The hub's rows are the original's questions in their order: article by article, paragraph by paragraph. So one range of
numbers names the same questions in both.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TextIO

from mbc_engine.datasets.layout import Layout, QAExample, Row
from mbc_engine.errors import DataError
from mbc_engine.machine import installing
from mbc_engine.text.document import UnreadableFile, described

NAME = "squad"
HUB_ID = "rajpurkar/squad"
LAYOUT = Layout(text="context", question="question", answers="answers")
_WITH_FOLDER = "squad:SPLIT:FOLDER."


@dataclass(frozen=True)
class Original:
    """One of the two parts that SQuAD v1.1 is published in.

    Attributes:
        hub_split: what the hub calls it.
        file: what its authors call it.
        questions: how many it has.
    """

    hub_split: str
    file: str
    questions: int


@dataclass(frozen=True)
class Split:
    """Questions of the paper: `cut` takes them from all of `original`."""

    original: Original
    cut: Callable[[Sequence[QAExample]], list[QAExample]]


def _from_to(start: int, end: int) -> Callable[[Sequence[QAExample]], list[QAExample]]:
    return lambda examples: list(examples[start:end])


def _of_first_paragraphs(count: int) -> Callable[[Sequence[QAExample]], list[QAExample]]:
    def cut(examples: Sequence[QAExample]) -> list[QAExample]:
        paragraphs = set(list(dict.fromkeys(example.text for example in examples))[:count])
        return [example for example in examples if example.text in paragraphs]

    return cut


_TRAIN = Original("train", "train-v1.1.json", 87_599)
_DEV = Original("validation", "dev-v1.1.json", 10_570)

# The ranges of the released code of CaMeLS, on which MAC and the paper build. The questions before 42,118 are for the
# base LMs of fine-tuning: 40,000 to train them, the rest to validate them.
SPLITS = {
    "train": Split(_TRAIN, _from_to(42_118, 82_011)),
    "validation": Split(_TRAIN, _from_to(82_011, 87_599)),
    "test": Split(_DEV, _of_first_paragraphs(1_665)),
    "base-train": Split(_TRAIN, _from_to(0, 40_000)),
}


@dataclass(frozen=True)
class Spec:
    """`squad:SPLIT[:FOLDER]`.

    Attributes:
        split: one of `SPLITS`.
        folder: where the original files are; None for the hub.
    """

    split: str
    folder: Path | None

    @classmethod
    def parse(cls, source: str) -> Self:
        """Take a spec apart.

        Raises:
            DataError: it is none.
        """
        _, split, *folder = source.split(":", 2)
        if split not in SPLITS or folder == [""]:
            raise DataError(f"{source!r} is not squad:SPLIT[:FOLDER].", hint=f"The splits are {', '.join(SPLITS)}.")
        return cls(split, Path(folder[0]).expanduser() if folder else None)

    def absolute(self, here: Path) -> Self:
        """The same in every working folder, relative to one."""
        return replace(self, folder=self.folder and (here / self.folder).absolute())

    def __str__(self) -> str:
        return ":".join((NAME, self.split, *([str(self.folder)] if self.folder else [])))


def rows(file: TextIO) -> Iterator[Row]:
    """The questions of an original file, in its order.

    Raises:
        ValueError, UnreadableFile: it is not JSON, or laid out differently.
    """
    try:
        articles = json.load(file)["data"]
        for article in articles:
            for paragraph in article["paragraphs"]:
                for asked in paragraph["qas"]:
                    yield {
                        "id": asked.get("id"),
                        "title": article.get("title"),
                        "context": paragraph["context"],
                        "question": asked["question"],
                        "answers": [answer["text"] for answer in asked["answers"]],
                    }
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableFile("is not laid out like SQuAD's; rows of JSON go into a .jsonl file") from error


def hub_rows(hub_split: str) -> Iterator[Row]:
    """The questions of one of the hub's splits, in its order; the columns are those of `rows`.

    Raises:
        DataError: they cannot be had.
    """
    try:
        from datasets import load_dataset
        from datasets.exceptions import DatasetsError
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        raise DataError(
            f"SQuAD comes from the hub with the package datasets, which does not work here: {described(error)}.",
            hint=f"{installing('hub')}, or give the folder of the original files: {_WITH_FOLDER}",
        ) from error
    # What a connection that breaks raises, whichever package the hub's client makes it with.
    broken_connection: type[Exception] = HfHubHTTPError.__bases__[0]
    try:
        dataset = load_dataset(HUB_ID, split=hub_split).to_list()
    except (DatasetsError, broken_connection, OSError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{HUB_ID} could not be had from the hub: {described(error)}.",
            hint=f"Check the network, or give the folder of the original files: {_WITH_FOLDER}",
        ) from error
    yield from dataset


def require_all(examples: Sequence[QAExample], original: Original, place: str) -> None:
    """Make sure that the numbers of the paper's splits mean the questions that they should.

    Args:
        examples: everything that was read.
        original: what it should be.
        place: where it was read, for the message.

    Raises:
        DataError: it is something else.
    """
    if len(examples) != original.questions:
        raise DataError(
            f"{place} has {len(examples):,} questions, not the {original.questions:,} of SQuAD v1.1.",
            hint=f"The splits of the paper are cut from {_TRAIN.file} and {_DEV.file} as they were published.",
        )
