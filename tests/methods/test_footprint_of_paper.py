"""What the paper's bank sizes are made of: MiB, a row a question, float32 vectors or int64 indices and a codebook.

Its table (section 4.4.3) gives MAC's bank and MBC's for the same documents. The number of rows follows from MAC's, and
with it MBC's has to come out to the printed digits.
"""

from typing import Final

import pytest

from mbc_engine.config import load_preset
from mbc_engine.methods.method import Footprint
from mbc_engine.paper.builder import config_of

DATASETS: Final = ("StreamingQA", "SQuAD", "ArchivalQA")
# By preset, then after 200 and 1,600 documents: MAC and MBC of each dataset, as printed.
PRINTED: Final = {
    "distilgpt2": {
        200: (("8.21", "1.52"), ("38.1", "1.60"), ("10.91", "1.53")),
        1600: (("65.67", "1.67"), ("304.77", "2.29"), ("87.26", "1.73")),
    },
    "gpt2-large": {
        200: (("27.36", "2.54"), ("126.99", "2.7"), ("36.36", "2.56")),
        1600: (("218.91", "2.84"), ("1015.9", "4.09"), ("290.86", "2.95")),
    },
    "gpt2-xl": {
        200: (("34.2", "3.16"), ("158.73", "3.32"), ("45.45", "3.18")),
        1600: (("273.63", "3.46"), ("1269.87", "4.71"), ("363.57", "3.58")),
    },
    "llama2-7b": {
        200: (("87.56", "8.04"), ("406.36", "8.2"), ("116.34", "8.06")),
        1600: (("700.5", "8.34"), ("3250.88", "9.59"), ("930.75", "8.45")),
    },
}
MIB: Final = 1 << 20


def counts(preset: str) -> tuple[Footprint, Footprint]:
    """What MAC's bank and MBC's are made of."""
    settings = load_preset(preset).model
    dim: int = config_of(settings.base).hidden_size
    book = settings.codebook
    mac = Footprint(0, settings.tokens * dim * 4)
    return mac, Footprint(0, settings.tokens * book.levels * 8, book.levels * book.codes * dim * 4)


# Two of GPT2-XL's are cut where all others are rounded.
CUT: Final = {("gpt2-xl", 200, "StreamingQA"): "3.17", ("gpt2-xl", 1600, "StreamingQA"): "3.47"}


@pytest.mark.parametrize("documents", [200, 1600])
@pytest.mark.parametrize("preset", PRINTED)
def test_bank_sizes_follow_from_the_number_of_questions(preset: str, documents: int) -> None:
    mac, mbc = counts(preset)
    for dataset, (vectors, codes) in zip(DATASETS, PRINTED[preset][documents], strict=True):
        rows = float(vectors) * MIB / mac.paper_row
        computed = f"{(mbc.paper_fixed + rows * mbc.paper_row) / MIB:.2f}"
        assert float(computed) == float(CUT.get((preset, documents, dataset), codes)), dataset


def test_all_bases_were_given_the_same_questions() -> None:
    """And 1,600 documents have eight times the rows of 200, so that the rows are a mean over the stream."""
    for place, dataset in enumerate(DATASETS):
        rows = [float(PRINTED[preset][1600][place][0]) * MIB / counts(preset)[0].paper_row for preset in PRINTED]
        assert max(rows) - min(rows) < 0.001 * max(rows), (dataset, rows)
        few = float(PRINTED["llama2-7b"][200][place][0]) * MIB / counts("llama2-7b")[0].paper_row
        assert rows[-1] == pytest.approx(8 * few, rel=2e-4)
