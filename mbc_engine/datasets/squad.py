"""SQuAD v1.1 (Rajpurkar et al., 2016), from the hub or from its original files, in the splits of the paper.

The hub's rows are the original's questions in their order: article by article, paragraph by paragraph. So one range of
numbers names the same questions in both.
"""

from collections.abc import Sequence
from pathlib import Path

from mbc_engine.datasets.layout import SQUAD, QAExample, Row, read_examples
from mbc_engine.errors import DataError
from mbc_engine.machine import installing
from mbc_engine.text.document import described

NAME = "squad"
HUB_ID = "rajpurkar/squad"
# The two parts that it is published in, by the hub's names: the original file, and how many questions it has.
ORIGINALS = {"train": ("train-v1.1.json", 87_599), "validation": ("dev-v1.1.json", 10_570)}
# The part that a split is cut from, and its questions there; of the test split, paragraphs. The ranges are those of the
# released code of CaMeLS, on which MAC and the paper build; base LMs of fine-tuning train on the questions before.
SPLITS = {
    "train": ("train", slice(42_118, 82_011)),
    "validation": ("train", slice(82_011, 87_599)),
    "test": ("validation", slice(1_665)),
    "base-train": ("train", slice(40_000)),
}
_WITH_FOLDER = "squad:SPLIT:FOLDER."


def parse(source: str) -> tuple[str, Path | None]:
    """The split of `squad:SPLIT[:FOLDER]`, and the folder of the original files; None is the hub."""
    _, split, *folder = source.split(":", 2)
    if split not in SPLITS or folder == [""]:
        raise DataError(f"{source!r} is not squad:SPLIT[:FOLDER].", hint=f"The splits are {', '.join(SPLITS)}.")
    return split, Path(folder[0]).expanduser() if folder else None


def load(source: str) -> list[QAExample]:
    """The questions of `squad:SPLIT[:FOLDER]`."""
    split, folder = parse(source)
    part = SPLITS[split][0]
    file, questions = ORIGINALS[part]
    place = str(folder / file) if folder else f"{HUB_ID}, {part}"
    examples = read_examples(Path(place)) if folder else list(SQUAD.examples(_hub_rows(part), place))
    if len(examples) != questions:
        published = " and ".join(name for name, _ in ORIGINALS.values())
        raise DataError(
            f"{place} has {len(examples):,} questions, not the {questions:,} of SQuAD v1.1.",
            hint=f"The splits of the paper are cut from {published} as they were published.",
        )
    return cut(split, examples)


def cut(split: str, examples: Sequence[QAExample]) -> list[QAExample]:
    """The questions of a split, out of all those of the part that it is cut from."""
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
    # What a connection that breaks raises, whichever package the hub's client makes it with.
    broken_connection: type[Exception] = HfHubHTTPError.__bases__[0]
    try:
        rows: list[Row] = load_dataset(HUB_ID, split=part).to_list()
    except (DatasetsError, broken_connection, OSError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{HUB_ID} could not be downloaded from the hub: {described(error)}.",
            hint=f"Check the network, or give the folder of the original files: {_WITH_FOLDER}",
        ) from error
    return rows
