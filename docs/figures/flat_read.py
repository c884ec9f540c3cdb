"""The flat read against attention over every vector: how many rows each covers, and by how much they differ."""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import torch
from look import BLUE, FAINT, RED
from matplotlib.figure import Figure

from mbc_engine.config import load_preset
from mbc_engine.paper.aggregator import Aggregator
from mbc_engine.paper.codebook import Codebook
from mbc_engine.paper.memories import CodeMemory, VectorMemory
from mbc_engine.paper.read_modes import Reader, read

WIDTH = 768  # of DistilGPT2


@dataclass(frozen=True)
class Compared:
    """Both reads of one memory.

    Attributes:
        rows: number of codebook rows that occur in it, and number of its vectors.
        difference: largest absolute difference between the two modulations.
        change: largest absolute change that the read makes to the question.
    """

    rows: tuple[int, int]
    difference: float
    change: float


def draw(sizes: Sequence[int] = (1, 4, 16, 64, 256, 1024)) -> Figure:
    """Compare both reads of memories of these sizes."""
    compared = [compare(size) for size in sizes]
    for size, own in zip(sizes, compared, strict=True):
        print(f"{size} documents: rows {own.rows}, difference {own.difference:.2g}, change {own.change:.2g}")
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.1), layout="constrained")
    left.plot(sizes, [own.rows[1] for own in compared], color=RED, marker="o", ms=4, label="every vector")
    left.plot(sizes, [own.rows[0] for own in compared], color=BLUE, marker="o", ms=4, label="the codebook, by counts")
    left.set_title("Rows that the attention goes over")
    left.legend(frameon=False)
    right.plot(sizes, [own.change for own in compared], color=FAINT, marker="o", ms=4, label="what the read changes")
    right.plot(sizes, [own.difference for own in compared], color=BLUE, marker="o", ms=4, label="between the two reads")
    right.set_title("Largest difference of any number")
    right.set_ylim(1e-8, 30)
    right.legend(frameon=False, loc="center right")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="documents in the bank")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes], minor=False)
        axes.minorticks_off()
        axes.grid(visible=True, alpha=0.3)
    return figure


@torch.no_grad()
def compare(documents: int) -> Compared:
    """Read random codes with an untrained model of the paper's DistilGPT2 shape; the result holds for any weights."""
    settings = load_preset("distilgpt2").model
    torch.manual_seed(0)
    aggregator = Aggregator(WIDTH, **settings.aggregator.model_dump())
    codebook = Codebook(settings.codebook.codes, WIDTH, settings.tokens)
    torch.nn.init.normal_(codebook.books)
    question = torch.randn(1, settings.tokens, WIDTH)
    codes = np.random.default_rng(0).integers(codebook.num_codes, size=(documents, settings.tokens, 1), dtype=np.uint16)
    reader = Reader(aggregator, codebook, None, settings.routed_documents, settings.group_documents)
    flat = read("flat", reader, question, CodeMemory(codes, codebook)).modulation
    vectors = codebook.lookup(torch.from_numpy(codes.astype(np.int64)))
    dense = read("flat", reader, question, VectorMemory(vectors)).modulation
    return Compared(
        rows=(len(np.unique(codes)), codes.size),
        difference=float((flat - dense).abs().max()),
        change=float((flat - question).abs().max()),
    )
