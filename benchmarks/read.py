"""The cost of one question: reading all of a bank's vectors, as the released code does, against reading its codes.

    python benchmarks/performance.py --only read

`dense` is the published way: look up the vectors of all codes, project them to keys and values in each block of the
aggregator, attend. The others are ours, from a bank file: `flat` (the same result, from the bank's counts and the
codebook's cached keys and values), `sources` (the scan that finds the flat read's documents), `hierarchical:256`
and `routed`. Parts have the paper's shapes and random weights, which do not affect the time. Every figure comes from a new process, one question at a time, on one thread, with files in the page
cache. Banks are created once and kept in the folder; those of ten million documents take minutes.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import bank as banks
import numpy as np
import torch
from measuring import growth_of, in_a_new_process, seconds_of
from torch import Tensor
from torch.nn import functional

from mbc_engine import load_preset
from mbc_engine.bank import CodeShape, MemoryBank, delete
from mbc_engine.paper.aggregator import Aggregator, AttentionBlock, CrossAttention, KeyValue
from mbc_engine.paper.codebook import Codebook
from mbc_engine.paper.memories import BankMemory, Router
from mbc_engine.paper.read_modes import Reader, Reading, read

FOLDER: Final = Path("build/performance")
WIDTHS: Final = {"distilgpt2": 768, "llama2-7b": 4096}  # D, by preset, which has the rest
SHAPES: Final = ("distilgpt2", "llama2-7b")
SEED: Final = 0

DENSE_SIZES: Final = (200, 1_665, 20_000)  # 1,665 paragraphs are the paper's test bank
GROWTH: Final = (1_000, 10_000_000)
SIZES: Final = (200, 1_000, 1_665, 20_000, 100_000, 1_000_000, 10_000_000)
HIERARCHICAL: Final = "hierarchical:256"

MEMORY_GB: Final = 14.0  # limit for a dense read
SLICE: Final = 16_384  # rows projected at a time if all at once would exceed it

Result = dict[str, Any]
Ask = Callable[[], Any]
Cell = tuple[str, str, int]  # shape, mode, documents


@dataclass(frozen=True)
class Parts:
    """What reads need, for one shape, with random weights."""

    codebook: Codebook
    aggregator: Aggregator
    reader: Reader
    question: Tensor


def bank_layout(name: str) -> banks.BankLayout:
    """The bank of a shape's model: one chunk per document, no sources."""
    model = load_preset(name).model
    shape = CodeShape(model.tokens, model.codebook.levels, model.codebook.codes, model.codebook.per_position)
    return banks.BankLayout(name, shape, WIDTHS[name], chunks_per_document=1, keeps_origins=False)


def make_parts(name: str) -> Parts:
    """Random parts around a random codebook, and a random question."""
    torch.manual_seed(SEED)
    settings = load_preset(name).model
    sizes, dim = settings.aggregator, WIDTHS[name]
    codebook = Codebook(
        settings.codebook.codes,
        dim,
        settings.tokens,
        levels=settings.codebook.levels,
        per_position=settings.codebook.per_position,
    )
    codebook.books.normal_()
    aggregator = Aggregator(
        dim, blocks=sizes.blocks, heads=sizes.heads, head_dim=sizes.head_dim, hidden=min(dim, sizes.hidden)
    )
    reader = Reader(aggregator, codebook, Router(dim), settings.routed_documents, settings.group_documents)
    return Parts(codebook, aggregator, reader, torch.randn(1, settings.tokens, dim))


def make_bank(name: str, documents: int, path: str) -> None:
    """Create a bank under a temporary name first, so that an interrupted run leaves no incomplete one."""
    unfinished = Path(f"{path}.part")
    delete(unfinished)
    banks.fill_bank(unfinished, bank_layout(name), documents)
    unfinished.replace(path)


def bank_of(name: str, documents: int, folder: Path) -> Path:
    """The bank of a shape and a number of documents, created if missing."""
    path = folder / "banks" / f"{name}-{documents}.mbc"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        in_a_new_process("read", "make_bank", name, documents, str(path))  # keeps its memory out of the measurement
    return path


def small_bank(name: str) -> MemoryBank:
    """A bank of some documents for a warm-up read."""
    layout = bank_layout(name)
    codebooks = np.zeros((layout.shape.levels, layout.shape.positions, layout.shape.num_codes, layout.dim), np.float32)
    bank = MemoryBank.create(None, banks.signature(codebooks), layout.shape, layout.dim, keeps_origins=False)
    bank.put(next(banks.batches(layout, 300, 300)))
    return bank


def dense(parts: Parts, bank: MemoryBank, *, in_slices: bool = False) -> Callable[[], Tensor]:
    """The published read: the vectors of all codes, and in each block their keys and values."""
    codes = torch.from_numpy(np.concatenate([codes for codes, _ in bank.blocks()])[..., 0].astype(np.int64))

    def ask() -> Tensor:
        rows = functional.embedding(codes, parts.codebook.books[0, 0]).flatten(0, 1).unsqueeze(0)
        queries = parts.question
        for block in parts.aggregator.blocks:
            assert isinstance(block, AttentionBlock)
            attention = block.attention
            projected = project_in_slices(attention, rows) if in_slices else attention.project(rows)
            queries, _ = block(queries, projected, None)
            del projected  # freed before the next block's are computed
        return queries

    return ask


def project_in_slices(attention: CrossAttention, rows: Tensor) -> KeyValue:
    """The same keys and values, without a normalised copy of all rows in memory."""
    shape = (1, rows.shape[1], attention.heads, attention.head_dim)
    key, value = torch.empty(shape), torch.empty(shape)
    for start in range(0, rows.shape[1], SLICE):
        part = slice(start, start + SLICE)
        some = attention.project(rows[:, part])
        key[:, part], value[:, part] = some
    return key, value


def dense_needs(name: str, documents: int) -> tuple[int, int]:
    """Minimum bytes of a dense read, with all rows at once and in slices."""
    settings = load_preset(name).model
    sizes, rows = settings.aggregator, documents * settings.tokens
    vectors, keys = 4 * rows * WIDTHS[name], 4 * rows * sizes.heads * sizes.head_dim
    scores = 3 * 4 * rows * sizes.heads * settings.tokens  # products, scaled products, weights
    attending = vectors + 3 * keys + scores  # the product needs a reordered copy of the keys
    return max(attending, 2 * vectors + 2 * keys), attending


def run_read(mode: str, parts: Parts, bank: MemoryBank) -> Reading:
    """What `model.read` does after encoding the question."""
    return read(mode, parts.reader, parts.question, BankMemory(bank, parts.codebook))


def make_read(mode: str) -> Callable[[Parts, MemoryBank], Ask]:
    """One of our reads, without sources unless the mode finds them anyway."""

    def prepared(parts: Parts, bank: MemoryBank) -> Ask:
        def ask() -> Tensor:
            with bank.snapshot():
                return run_read(mode, parts, bank).modulation

        return ask

    return prepared


def make_source_scan(parts: Parts, bank: MemoryBank) -> Ask:
    """The scan for sources that the flat read defers."""
    with bank.snapshot():
        reading = run_read("flat", parts, bank)

    def ask() -> None:
        with bank.snapshot():
            reading.find(True)

    return ask


MODES: Final[dict[str, Callable[[Parts, MemoryBank], Ask]]] = {
    "dense": dense,
    "flat": make_read("flat"),
    "sources": make_source_scan,
    HIERARCHICAL: make_read(HIERARCHICAL),
    "routed": make_read("routed"),
}


def time_runs(ask: Ask, first: float, *, seconds: float = 4.0, max_runs: int = 101) -> list[float]:
    """Seconds of single runs after the first, at least three; a run of over a minute is not repeated."""
    if first > 60:
        return [first]
    times: list[float] = []
    while len(times) < 3 or (sum(times) < seconds and len(times) < max_runs):
        times.append(seconds_of(ask)[1])
    return times


@torch.no_grad()
def measure(name: str, mode: str, documents: int, folder: str, memory_gb: float = MEMORY_GB) -> Result:
    """Measure one cell in this process.

    Returns:
        `seconds` (the median of `runs`), `least`, `grown` (bytes of memory); for a dense read also `in_slices`,
        `difference` (the largest from the flat read) and `change` (the largest that the read makes to the question). Or
        `skipped`, a reason.
    """
    torch.set_num_threads(1)
    path = bank_of(name, documents, Path(folder))
    in_slices = False
    if mode == "dense":
        whole, sliced = dense_needs(name, documents)
        if sliced > memory_gb * 1e9:
            return {"skipped": f"needs {sliced / 1e9:.1f} GB, and the limit is {memory_gb:g} GB"}
        in_slices = whole > memory_gb * 1e9
    with MemoryBank.open(path, read_only=True) as bank:
        parts = make_parts(name)
        with small_bank(name) as small:
            MODES[mode](parts, small)()  # keeps one-time allocations of torch and numpy out of the measurement
        ask = dense(parts, bank, in_slices=in_slices) if mode == "dense" else MODES[mode](parts, bank)
        result, grown, first = growth_of(ask)
        times = time_runs(ask, first)
        found = {"seconds": statistics.median(times), "least": min(times), "runs": len(times), "grown": grown}
        if mode != "dense":
            return found
        with bank.snapshot():
            difference = (run_read("flat", parts, bank).modulation - result).abs().max()
    return found | {
        "in_slices": in_slices,
        "difference": float(difference),
        "change": float((result - parts.question).abs().max()),
    }


@torch.no_grad()
def measure_growth(name: str, folder: str, sizes: Sequence[int] = GROWTH) -> Result:
    """How much longer the flat read of a large bank takes than that of a small one.

    The two alternate in one process, so that other load on the machine affects both.

    Returns:
        `small`, `large`: median seconds; `ratio`; `sizes`; `runs`.
    """
    torch.set_num_threads(1)
    small, large = (MemoryBank.open(bank_of(name, size, Path(folder)), read_only=True) for size in sizes)
    with small, large:
        parts = make_parts(name)
        asks = [MODES["flat"](parts, bank) for bank in (small, large)]
        turns = [[seconds_of(ask)[1] for ask in asks] for _ in range(110)][9:]  # the first warm up
    medians = [statistics.median(times) for times in zip(*turns, strict=True)]
    return {
        "sizes": list(sizes),
        "small": medians[0],
        "large": medians[1],
        "ratio": medians[1] / medians[0],
        "runs": len(turns),
    }


def plan(largest: int) -> list[Cell]:
    """The cells of the comparison, the quick ones first."""
    sizes = {
        "flat": SIZES,
        "sources": SIZES,
        "routed": SIZES,
        HIERARCHICAL: tuple(size for size in SIZES if size <= DENSE_SIZES[-1]),
        "dense": DENSE_SIZES,
    }
    return [
        (name, mode, size) for name in SHAPES for mode, several in sizes.items() for size in several if size <= largest
    ]
