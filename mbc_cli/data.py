"""Reading datasets for a command: quietly, and with something to see on a terminal meanwhile."""

import os
from collections.abc import Sequence

from mbc_cli.verbosity import verbosity
from mbc_engine.datasets.by_name import load_examples
from mbc_engine.datasets.example import QAExample

# What keeps the libraries of the hub from talking and from drawing, if it is there before they are imported.
_HUSHED = {
    "DATASETS_VERBOSITY": "error",
    "HF_HUB_VERBOSITY": "error",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}


def read_data(sources: Sequence[str]) -> list[QAExample]:
    """The questions of datasets, one dataset after the other.

    Raises:
        DataError: one of them cannot be read.
    """
    from mbc_cli.render.consoles import detail, working

    if not verbosity().verbose:
        for name, value in _HUSHED.items():
            os.environ.setdefault(name, value)
    examples: list[QAExample] = []
    for source in sources:
        with working(f"Reading {source}"):
            examples += (read := load_examples(source))
        detail(f"data: {source}, {len(read):,} questions on {len({example.text for example in read}):,} documents")
    return examples
