"""How a question reads a memory: flat, hierarchical (both paper, section 3.1) or routed; `READS` lists the reads."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Final

import numpy as np
import torch
from torch import Tensor

from mbc_engine.bank import CodeMap, CodeShape, spread
from mbc_engine.errors import ModelError
from mbc_engine.names import parse_read_mode
from mbc_engine.paper.aggregator import Aggregated, Aggregator, KeyValue
from mbc_engine.paper.codebook import Codebook
from mbc_engine.paper.memories import ReadableMemory, Router
from mbc_engine.ranking import Hit, Ranking, log_of

# Documents kept per group: one may rank high in the end though it is not among the group's first few.
_REMEMBERED: Final = 50

Hits = list[list[Hit]]


@dataclass(frozen=True)
class Reader:
    """What a read needs of a model whose weights do not change: its parts, and how much it reads."""

    aggregator: Aggregator
    codebook: Codebook | None
    router: Router | None
    routed_documents: int
    group_documents: int

    def attend(self, question: Tensor, vectors: Tensor | None, log_weights: Tensor | None) -> Aggregated:
        weights = None if log_weights is None else log_weights.unsqueeze(0)
        if vectors is None:
            return self.aggregator.read(question, self._projected, weights)
        return self.aggregator(question, vectors.unsqueeze(0), weights)  # type: ignore[no-any-return]

    @cached_property
    def _projected(self) -> list[KeyValue]:
        assert self.codebook is not None, "codes come with a codebook"
        return [*self.aggregator.project(self.codebook.books[:1].flatten(1, 2))]

    @property
    def code_shape(self) -> CodeShape:
        assert self.codebook is not None, "codes come with a codebook"
        return self.codebook.shape


@dataclass(frozen=True)
class Reading:
    """What questions read from a memory: phi*, the modulation [B, T, D], and its sources, found on demand.

    `question` [B, T, D] holds the questions' own vectors; `find(True)` returns the best documents for each question,
    `find(False)` the best chunks.
    """

    question: Tensor
    modulation: Tensor
    find: Callable[[bool], Hits]
    find_codes: Callable[[], CodeMap | None]

    @cached_property
    def sources(self) -> Hits:
        return self.find(True)

    @cached_property
    def chunks(self) -> Hits:
        """The best chunks for each question; a hierarchical read knows only one per document."""
        return self.find(False)

    @cached_property
    def codes(self) -> CodeMap | None:
        """Each code's share of the attention, [B, levels, positions, num_codes], summing to 1 over each level."""
        return self.find_codes()


def read_flat(reader: Reader, question: Tensor, memory: ReadableMemory, top: int, _: int | None = None) -> Reading:
    """The paper's read: attention over the whole memory. Raises ModelError if the memory's codes are residual.

    A document's share is the attention to its rows, averaged over heads, blocks and the question's vectors.
    """
    vectors, log_weights = memory.rows()
    read = reader.attend(question, vectors, log_weights)

    def find(by_document: bool) -> Hits:
        rankings = [Ranking(top) for _ in question]
        for log_scores, lengths in memory.shares(read.attention):
            for ranking, row in zip(rankings, log_scores, strict=True):
                ranking.add(row, lengths if by_document else None)
        return [ranking.result() for ranking in rankings]

    def find_codes() -> CodeMap | None:
        if vectors is not None:
            return None
        shape, attention = reader.code_shape, read.attention.float().cpu().numpy()
        return attention.reshape(-1, 1, shape.positions, shape.num_codes)

    return Reading(question, read.modulation, find, find_codes)


# By document index: its share of a result, the largest part of that from a single group, and the index of the
# document's best chunk in that group.
Shares = dict[int, tuple[float, float, int]]


@dataclass(frozen=True)
class GroupResult:
    """A group's modulation [B, T, D], each question's documents with the largest shares, and its weight."""

    modulation: Tensor
    shares: Sequence[Shares]
    weight: float


def divide_and_conquer(
    results: Iterable[GroupResult], size: int, combine: Callable[[Sequence[GroupResult]], GroupResult]
) -> GroupResult:
    """Combine results, at least one, `size` at a time until one is left; at most `size` per level are held."""
    stream = iter(results)
    first = list(islice(stream, 2))
    if len(first) < 2:
        return first[0]
    every = chain(first, stream)
    del first  # it would keep these two alive to the end
    groups = iter(lambda: list(islice(every, size)), [])
    return divide_and_conquer(map(combine, groups), size, combine)


def read_hierarchical(
    reader: Reader, question: Tensor, memory: ReadableMemory, top: int, number: int | None
) -> Reading:
    """The paper's divide and conquer over groups of `number` chunks in stored order (section 3.1).

    A document's share is the product of its shares at each level; the codes of its best chunk get it.
    """
    size = reader.group_documents if number is None else number
    remembered = max(top, _REMEMBERED)

    def results() -> Iterator[GroupResult]:
        for group, chunks, documents in memory.groups(size):
            reading = read_flat(reader, question, group, remembered)
            shares = [
                {int(documents[hit.chunk]): (hit.share, hit.share, int(chunks[hit.chunk])) for hit in hits}
                for hits in reading.sources
            ]
            yield GroupResult(reading.modulation, shares, group.total_weight())

    last = divide_and_conquer(results(), size, lambda group: combined(reader.aggregator, question, group, remembered))
    ranked = [list(shares.values()) for shares in last.shares]
    hits = [
        # Ties are counted among the remembered documents only.
        [Hit(chunk, share, sum(other == share for other, *_ in shares) - 1) for share, _, chunk in shares]
        for shares in ranked
    ]
    return Reading(
        question, last.modulation, lambda _: [row[:top] for row in hits], lambda: _codes_of(hits, memory, reader)
    )


def combined(
    aggregator: Callable[[Tensor, Tensor, Tensor | None], Aggregated],
    question: Tensor,
    group: Sequence[GroupResult],
    remembered: int,
) -> GroupResult:
    """Aggregate a group's modulations as rows, weighted by their chunks, and merge their best documents."""
    rows, weights = torch.cat([result.modulation for result in group], dim=1), [result.weight for result in group]
    logs = None
    if len(set(weights)) > 1:
        logs = torch.from_numpy(log_of(np.array(weights))).to(rows.device)
        logs = logs.repeat_interleave(rows.shape[1] // len(group)).unsqueeze(0)
    read = aggregator(question, rows, logs)
    parts = read.attention.unflatten(1, (len(group), -1)).sum(-1).tolist()
    shares = [
        _best_shares([result.shares[row] for result in group], part, remembered) for row, part in enumerate(parts)
    ]
    return GroupResult(read.modulation, shares, sum(weights))


def _best_shares(groups: Sequence[Shares], parts: Sequence[float], remembered: int) -> Shares:
    total: Shares = {}
    for shares, part in zip(groups, parts, strict=True):
        for document, (share, largest, chunk) in shares.items():
            total_share, best, best_chunk = total.get(document, (0.0, 0.0, chunk))
            if largest * part > best:
                best, best_chunk = largest * part, chunk
            total[document] = total_share + share * part, best, best_chunk
    return dict(sorted(total.items(), key=lambda item: -item[1][0])[:remembered])


def _codes_of(hits: Hits, memory: ReadableMemory, reader: Reader) -> CodeMap | None:
    chunks = np.unique([hit.chunk for row in hits for hit in row])
    codes = memory.codes_at(chunks)
    if codes is None:
        return None
    maps, shape = [], reader.code_shape
    for row in hits:
        indices = np.searchsorted(chunks, [hit.chunk for hit in row])
        shares = np.array([[[hit.share] * shape.tokens for hit in row]])
        maps.append(spread(shares, codes[None, indices], shape))
    return np.concatenate(maps)


def read_routed(reader: Reader, question: Tensor, memory: ReadableMemory, top: int, number: int | None) -> Reading:
    """Score every chunk by its own codes and aggregate the best `number`. Raises ModelError if there is no router.

    A document's share is the probability of its chunks under the softmax of all scores.
    """
    if reader.router is None:
        raise ModelError(
            "This model was trained without a router.", hint="Ask with --read flat, or --read hierarchical."
        )
    count = reader.routed_documents if number is None else number
    rankings = [(Ranking(top), Ranking(max(count, top))) for _ in question]
    for log_scores, lengths in memory.scores(reader.router, question):
        for (documents, chunks), row in zip(rankings, log_scores, strict=True):
            documents.add(row, lengths)
            chunks.add(row)
    best_chunks = [chunks.result() for _, chunks in rankings]
    best = np.array([[hit.chunk for hit in hits[:count]] for hits in best_chunks])
    vectors, weights = memory.vectors_at(best), None
    if memory.weights is not None:
        logs = torch.from_numpy(log_of(memory.weights[best])).to(vectors.device)
        weights = logs.repeat_interleave(vectors.shape[2], 1)
    read = reader.aggregator(question, vectors.flatten(1, 2), weights)

    def find(by_document: bool) -> Hits:
        return (
            [documents.result() for documents, _ in rankings] if by_document else [hits[:top] for hits in best_chunks]
        )

    def find_codes() -> CodeMap | None:
        codes = memory.codes_at(best.ravel())
        if codes is None:
            return None
        shares = read.attention.float().cpu().numpy().reshape(vectors.shape[:3])
        return spread(shares, codes.reshape(*best.shape, *codes.shape[1:]), reader.code_shape)

    return Reading(question, read.modulation, find, find_codes)


READS: dict[str, Callable[[Reader, Tensor, ReadableMemory, int, int | None], Reading]] = {
    "flat": read_flat,
    "hierarchical": read_hierarchical,
    "routed": read_routed,
}


def read(mode: str, reader: Reader, question: Tensor, memory: ReadableMemory, *, top: int = 5) -> Reading:
    """Read a memory for questions [B, T, D] and find their `top` documents; `mode`: NAME or NAME:NUMBER of `READS`.

    An empty memory gives `Aggregator.empty_modulation`. Raises ConfigError for an unknown mode, MBCError if it does not
    fit the model.
    """
    name, number = parse_read_mode(mode)
    if len(memory) == 0:
        empty = reader.aggregator.empty_modulation(question)
        return Reading(question, empty, lambda _: [[] for _ in question], lambda: None)
    return READS[name](reader, question, memory, top, number)
