"""The paper's results: its methods are known, and its bank sizes are MiB of a row a question.

Rows are float32 vectors, or int64 indices beside a codebook. Its table (section 4.4.3) gives MAC's bank and MBC's for
the same documents: the number of rows follows from MAC's, and with it MBC's has to come out to the printed digits.
"""

import pytest

from mbc_engine.config import load_preset
from mbc_engine.evaluation.methods import METHODS, published, published_scores
from mbc_engine.paper.builder import config_of

PRESETS = ("distilgpt2", "gpt2-large", "gpt2-xl", "llama2-7b")
DATASETS = ("streamingqa", "squad", "archivalqa")
MIB = 1 << 20


# Two of GPT2-XL's are cut where all others are rounded.
CUT = {("gpt2-xl", 200, "streamingqa"): 3.17, ("gpt2-xl", 1600, "streamingqa"): 3.47}


def printed(preset, dataset, method, documents):
    """The size of a bank of so many documents, in MiB."""
    steps = published_scores(preset, dataset, method)["retention"]
    (size,) = (step["bank_bytes"] for step in steps if step["documents"] == documents)
    return float(round(size / MIB, 2))


@pytest.mark.parametrize("documents", [200, 1600])
@pytest.mark.parametrize("preset", PRESETS)
def test_bank_sizes_follow_from_the_number_of_questions(preset, documents):
    settings = load_preset(preset).model
    dim, book = config_of(settings.base).hidden_size, settings.codebook
    row_of_mac, row = settings.tokens * dim * 4, settings.tokens * book.levels * 8
    for dataset in DATASETS:
        rows = printed(preset, dataset, "mac", documents) * MIB / row_of_mac
        computed = f"{(book.levels * book.codes * dim * 4 + rows * row) / MIB:.2f}"
        expected = CUT.get((preset, documents, dataset), printed(preset, dataset, "mbc", documents))
        assert float(computed) == expected, dataset


def test_every_method_is_one_that_can_be_evaluated():
    for datasets in published()["answers"].values():
        assert all(set(methods) <= METHODS.keys() for methods in datasets.values())
    assert published_scores("nobody", "squad", "mbc") is published_scores("documents", "squad", "mbc") is None
