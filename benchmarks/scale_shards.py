"""One bank and the same documents in shards: what each shard finds, put together, against what is found in the whole.

Every shard is scanned by the code that scans a whole bank. S nodes would take as long as the slowest shard, and what
puts the shards' results together. What is put together is compared with the whole: scores and counts bit by bit, order
and chunks exactly, shares by their largest relative difference (sums of logarithms in another order round otherwise).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import bank as banks
import numpy as np
import read
import torch
from measuring import seconds_of
from numpy.typing import NDArray
from scale_banks import SHARDS, TOP, paths_of, routing_of

from mbc_engine import load_model
from mbc_engine.bank import MemoryBank
from mbc_engine.bank.words import word_numbers
from mbc_engine.mini.model import RetrieverReader
from mbc_engine.paper import reads
from mbc_engine.paper.memories import BankMemory, LogScores, Router
from mbc_engine.paper.reads import GroupResult, read_flat
from mbc_engine.paper.reads import read as read_memory
from mbc_engine.ranking import Hit, Ranking, log_of

RUNS: Final = 3
GROUP: Final = 4
QUESTION: Final = "Who was appointed to lead the harbour authority after the storm?"


Made = TypeVar("Made")


def each_timed(work: Sequence[Callable[[], Made]], times: int = RUNS) -> tuple[list[Made], list[float]]:
    """What each piece of work gives, and the least of the seconds it takes, all in one process."""
    found, seconds = [], []
    for piece in work:
        runs = [seconds_of(piece) for _ in range(times)]
        found.append(runs[-1][0])
        seconds.append(min(taken for _, taken in runs))
    return found, seconds


@contextmanager
def opened(paths: Sequence[Path]) -> Iterator[list[MemoryBank]]:
    """Banks to be read, each in one snapshot."""
    with ExitStack() as stack:
        banks = [stack.enter_context(MemoryBank.open(path, read_only=True)) for path in paths]
        for bank in banks:
            stack.enter_context(bank.snapshot())
        yield banks


def ranked(blocks: Iterator[LogScores]) -> Ranking:
    """The best documents of one question, as a routed read ranks them."""
    ranking = Ranking(TOP)
    for (log_scores,), lengths in blocks:
        ranking.add(log_scores, lengths)
    return ranking


def rank(memory: BankMemory, router: Router, vectors: torch.Tensor) -> Ranking:
    """A shard's routed scan."""
    return ranked(memory.scores(router, vectors))


def merged(rankings: Sequence[Ranking]) -> Ranking:
    """The ranking of all shards."""
    whole = Ranking(TOP)
    for shard in rankings:
        # ruff: noqa: SLF001 - a bank needs no such thing
        whole._total = float(np.logaddexp(whole._total, shard._total))
        first, whole._seen = whole._seen, whole._seen + shard._seen
        if len(shard._scores):
            whole._merge(shard._scores, first + shard._chunks, shard._left_out)
    return whole


def scores_of(memory: BankMemory, router: Router, vectors: torch.Tensor) -> NDArray[np.float32]:
    """The scores of all chunks."""
    return np.concatenate([scores for scores, _ in memory.scores(router, vectors)], axis=1)


def difference(found: Sequence[Hit], expected: Sequence[Hit]) -> float:
    """The largest relative difference of shares.

    Raises:
        AssertionError: other chunks, in another order, or with other ties.
    """
    assert [(own.chunk, own.ties) for own in found] == [(own.chunk, own.ties) for own in expected]
    return max(abs(own.share / other.share - 1) for own, other in zip(found, expected, strict=True) if other.share)


def of_paper(folder: str) -> dict[str, list[dict[str, Any]]]:
    """The routed and the flat read of the paper's codes."""
    return {"routed": routed("paper", folder), "flat": flat(folder)}


@torch.no_grad()
def routed(name: str, folder: str, numbers: Sequence[int] = SHARDS) -> list[dict[str, Any]]:
    """The routed scan of one question: a row for each number of shards."""
    torch.set_num_threads(1)
    book, router, vectors = routing_of(name, 1)
    rows: list[dict[str, Any]] = []
    expected: tuple[list[Hit], NDArray[np.float32]] | None = None
    for shards in numbers:
        with opened(paths_of(folder, name, shards)) as banks:
            memories = [BankMemory(bank, book) for bank in banks]
            rankings, taken = each_timed([partial(rank, own, router, vectors) for own in memories])
            (together,), (merge,) = each_timed([partial(merged, rankings)])
            scores = np.concatenate([scores_of(own, router, vectors) for own in memories], axis=1)
        best = together.result()
        expected = expected or (best, scores)
        assert np.array_equal(scores, expected[1])
        rows.append(row_of(shards, taken, merge, difference(best, expected[0])))
    return rows


def row_of(shards: int, seconds: Sequence[float], merge: float, differs: float) -> dict[str, Any]:
    """What is kept of a number of shards, each of which took so many seconds."""
    return {"shards": shards, "slowest": max(seconds), "merge": merge, "difference": differs}


@torch.no_grad()
def passages(folder: str, numbers: Sequence[int] = SHARDS) -> list[dict[str, Any]]:
    """Mini's own search for one question, in two rounds: how many chunks have its words, then the scan."""
    torch.set_num_threads(1)
    model = load_model("mini")
    assert isinstance(model, RetrieverReader)
    with opened(paths_of(folder, "mini", 1)) as (whole,):
        assert whole.header.shape == model.code_shape
        scope = model.scope(whole)
        whitened = seconds_of(lambda: scope.whitening)[1]
        expected, taken = seconds_of(lambda: model.find([QUESTION], scope, top=TOP)[0])
    tables = scope.tables(model.sentence_vectors([QUESTION])).unsqueeze(2).numpy()
    numbers_asked = word_numbers(QUESTION)
    rows: list[dict[str, Any]] = []
    for shards in numbers:
        with opened(paths_of(folder, "mini", shards)) as banks:
            words, in_first = each_timed([partial(bank.chunks_with, numbers_asked) for bank in banks])
            chunks = sum(bank.totals().chunks for bank in banks)
            holding = np.sum([[len(chunks) for chunks in own] for own in words], axis=0)
            added = model.settings.word_weight * np.log((chunks + 1) / (holding + 0.5))
            scans = [partial(rank_by_both, bank, tables, own, added) for bank, own in zip(banks, words, strict=True)]
            found, in_second = each_timed(scans)
            (together,), (merge,) = each_timed([partial(merged, found)])
        # The second round waits for all of the first.
        row = row_of(shards, [max(in_first) + max(in_second)], merge, difference(together.result(), expected))
        rows.append(row | {"first": max(in_first), "whole": taken, "whitening": whitened})
    return rows


def rank_by_both(
    bank: MemoryBank, tables: NDArray[np.float32], words: Sequence[NDArray[np.int64]], added: NDArray[np.float64]
) -> Ranking:
    """A shard's chunks by what their codes are worth, and the words that each of these chunks has."""
    ranking, start = Ranking(TOP), 0
    for (sums,), _ in bank.scan(tables):
        for chunks, bonus in zip(words, added, strict=True):
            first, last = np.searchsorted(chunks, (start, start + len(sums)))
            sums[chunks[first:last] - start] += np.float32(bonus)
        ranking.add(sums)
        start += len(sums)
    return ranking


@torch.no_grad()
def flat(folder: str, numbers: Sequence[int] = SHARDS) -> list[dict[str, Any]]:
    """The flat read from summed counts, and its sources from a scan of each shard."""
    torch.set_num_threads(1)
    with opened(paths_of(folder, "paper", 1)) as (whole,):
        parts = read.make_parts("distilgpt2")
        reading = read_memory("flat", parts.reader, parts.question, BankMemory(whole, parts.book), top=TOP)
        counts, expected = whole.counts(), reading.sources[0]
        attention = parts.reader.attend(parts.question, *BankMemory(whole, parts.book).rows()).attention
    rows: list[dict[str, Any]] = []
    for shards in numbers:
        with opened(paths_of(folder, "paper", shards)) as banks:
            each, counting = each_timed([bank.counts for bank in banks])
            (total,), (adding,) = each_timed([partial(np.sum, each, axis=0)])
            assert np.array_equal(total, counts)
            own_shares = attention.numpy() / np.maximum(total.ravel(), 1)
            shape = (1, parts.book.tokens, 1, parts.book.num_codes)
            tables = np.broadcast_to(own_shares.reshape(1, 1, 1, -1), shape).astype(np.float32)
            rankings, taken = each_timed([partial(rank_by_attention, own, tables) for own in banks])
            (together,), (merge,) = each_timed([partial(merged, rankings)])
        row = row_of(shards, taken, merge, difference(together.result(), expected))
        rows.append(row | {"counts": max(counting), "sum": adding})
    return rows


def rank_by_attention(bank: MemoryBank, tables: NDArray[np.float32]) -> Ranking:
    """A shard's chunks by what they have of the attention to the whole."""
    return ranked((log_of(sums), lengths) for sums, lengths in bank.scan(tables))


@torch.no_grad()
def hierarchical(chunks: int = GROUP * 64, numbers: Sequence[int] = (1, 4, 64)) -> list[dict[str, Any]]:
    """Groups on each node, and groups of groups as far as they are full; what is left is combined in one place."""
    torch.set_num_threads(1)
    assert chunks % (GROUP * max(numbers)) == 0, "groups do not cross shards"
    codes = np.random.default_rng(0).integers(0, 512, (chunks, 12, 1), dtype=np.uint16)
    with small_bank(codes) as whole:
        parts = read.make_parts("distilgpt2")
        mode = f"hierarchical:{GROUP}"
        expected = read_memory(mode, parts.reader, parts.question, BankMemory(whole, parts.book), top=TOP)
    rows: list[dict[str, Any]] = []
    for shards in numbers:
        timed, results = [], []
        for place, own in enumerate(np.split(codes, shards)):
            with small_bank(own) as bank:
                memory, first = BankMemory(bank, parts.book), place * len(own)
                found, taken = seconds_of(lambda: of_node(parts, group_results(parts, memory, first)))  # noqa: B023
            timed.append(taken)
            results.extend(found)
        last, merge = seconds_of(lambda: conquered(parts, results))  # noqa: B023
        assert torch.equal(last.modulation, expected.modulation)
        best = [Hit(chunk, share, 0) for share, _, chunk in last.shares[0].values()]
        differs = difference(best, [Hit(own.chunk, own.share, 0) for own in expected.sources[0]])
        rows.append(row_of(shards, timed, merge, differs))
    return rows


def conquered(parts: read.Parts, results: Sequence[GroupResult]) -> GroupResult:
    """What results, all of one level, become in the end."""
    return reads.divide_and_conquer(
        results, GROUP, lambda group: reads.combined(parts.aggregator, parts.question, group, TOP)
    )


def of_node(parts: read.Parts, results: list[GroupResult]) -> list[GroupResult]:
    """A node's results: groups of them become one each, for as long as all are full."""
    while len(results) % GROUP == 0:
        groups = [results[start : start + GROUP] for start in range(0, len(results), GROUP)]
        results = [conquered(parts, group) for group in groups]
    return results


def small_bank(codes: NDArray[np.uint16]) -> MemoryBank:
    """Codes of the paper's shape as a bank in memory."""
    books = np.random.default_rng(1).standard_normal((1, 1, 512, banks.T5_WIDTH), dtype=np.float32)
    made = MemoryBank.create(None, banks.signature(books), banks.PAPER, banks.T5_WIDTH, keeps_origins=False)
    form = banks.Form("", banks.PAPER, banks.T5_WIDTH, 1, False)
    documents = zip(banks.documents(form, len(codes)), codes, strict=True)
    made.put([replace(document, codes=own[None]) for document, own in documents])
    return made


def group_results(parts: read.Parts, memory: BankMemory, first: int) -> list[GroupResult]:
    """What each of a node's groups becomes, its chunks numbered as in the whole."""
    results = []
    for group, chunks, documents in memory.groups(GROUP):
        reading = read_flat(parts.reader, parts.question, group, TOP)
        shares = [
            {
                first + int(documents[own.chunk]): (own.share, own.share, first + int(chunks[own.chunk]))
                for own in several
            }
            for several in reading.sources
        ]
        results.append(GroupResult(reading.modulation, shares, group.total_weight()))
    return results
