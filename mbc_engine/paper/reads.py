"""The best documents of a bank that goes by, and their shares of all of it; memory does not grow with the bank.

How a question reads a memory. A read is an entry of `READS`; whoever asks names it, and knows no more about it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mbc_engine.bank import CodeShape
from mbc_engine.config import parse_read_mode
from mbc_engine.errors import ModelError
from mbc_engine.paper.aggregator import Aggregated, Aggregator, Hierarchy, KeyValue, Result, Share
from mbc_engine.paper.codebook import Codebook, CodeMap, spread
from mbc_engine.paper.memories import Group, Memory, Router, Rows, shape_of


@dataclass(frozen=True)
class Ranked:
    """A document among the best.

    Attributes:
        chunk: the index of its best chunk.
        share: the document's share of everything, in [0, 1].
        ties: how many other documents have the same share; in a hierarchical read, so many at least.
    """

    chunk: int
    share: float
    ties: int


class Ranking:
    """Takes the chunks of documents block by block and keeps the best few documents of each question.

    A document weighs as much as its chunks together; of equal ones, the first stays. What weighs nothing is not ranked.

    Args:
        questions: how many.
        top: how many documents are kept for each.
    """

    def __init__(self, questions: int, top: int) -> None:
        self._top = top
        self._best = [_NOTHING] * questions
        self._chunks = 0

    def add(self, masses: NDArray[np.float32], lengths: NDArray[np.int64] | None = None) -> None:
        """Take the next chunks.

        Args:
            masses: logarithms of what each chunk weighs, on any one scale, [questions, chunks].
            lengths: chunks of each document, whole documents only; None if each has one.
        """
        further = [
            _best_of(own, lengths, self._top, least=best.last if len(best.masses) == self._top else -np.inf)
            for best, own in zip(self._best, masses, strict=True)
        ]
        self._append(further, masses.shape[1])

    def extend(self, other: "Ranking") -> None:
        """Take the chunks that come next from a ranking of them with the same `top`, made elsewhere: of another shard.

        What comes out is what adding these chunks here would have given, shares included.
        """
        self._append(other._best, other._chunks)  # noqa: SLF001 - one of its own kind

    def _append(self, further: Sequence["_Best"], chunks: int) -> None:
        """Take the best documents of so many chunks that come next."""
        self._best = [
            _joined(best, own, self._top, self._chunks) for best, own in zip(self._best, further, strict=True)
        ]
        self._chunks += chunks

    def result(self) -> list[list[Ranked]]:
        """The best documents of each question, best first."""
        return [best.ranked() for best in self._best]


@dataclass(frozen=True)
class _Best:
    """The best documents of some chunks for one question.

    Attributes:
        masses: logarithms of what they weigh, descending, [n].
        chunks: the index of the best chunk of each, [n].
        total: the logarithm of what all chunks weigh.
        left_out: how many documents are not among them that weigh as much as the last.
    """

    masses: NDArray[np.floating[Any]]
    chunks: NDArray[np.int64]
    total: float
    left_out: int = 0

    @property
    def last(self) -> float:
        """What the last one weighs; nothing if there is none."""
        return float(self.masses[-1]) if len(self.masses) else -np.inf

    def ranked(self) -> list[Ranked]:
        shares = np.exp(self.masses - self.total).clip(max=1.0)
        ties = (self.masses[:, None] == self.masses).sum(-1) - 1 + self.left_out * (self.masses == self.last)
        return list(map(Ranked, self.chunks.tolist(), shares.tolist(), ties.tolist()))


_NOTHING: Final = _Best(np.empty(0), np.empty(0, np.int64), -np.inf)


def _best_of(own: NDArray[np.float32], lengths: NDArray[np.int64] | None, top: int, *, least: float) -> _Best:
    """The best documents of a block of chunks, [chunks]; of no use are those that weigh less than `least`."""
    peak = float(own.max(initial=-np.inf))
    if peak == -np.inf:
        return _NOTHING
    total = float(peak + np.log(np.exp(own - peak).sum(dtype=np.float64)))
    masses, starts = own, np.arange(len(own))
    if lengths is not None and len(lengths) < len(own):
        starts = np.cumsum(lengths) - lengths
        masses = _log_sums(own, starts, lengths)
    better = np.flatnonzero((masses >= least) & (masses > -np.inf))
    if not better.size:  # as in most blocks of a long scan
        return _Best(_NOTHING.masses, _NOTHING.chunks, total)
    kept, left_out = _first(masses[better], top)
    rows = better[kept]
    ends = np.append(starts, len(own))[rows + 1]
    spans = zip(starts[rows].tolist(), ends.tolist(), strict=True)
    chunks = [start + int(own[start:end].argmax()) for start, end in spans]
    return _Best(masses[rows], np.array(chunks, np.int64), total, left_out)


def _joined(best: _Best, further: _Best, top: int, first: int) -> _Best:
    """The best documents of two stretches of chunks, the second from index `first` on."""
    total = float(np.logaddexp(best.total, further.total))
    if not len(further.masses):
        return _Best(best.masses, best.chunks, total, best.left_out)
    every = np.concatenate([best.masses, further.masses])
    kept, left_out = _first(every, top)
    # What either left out weighs as much as its own last, which may be the last of both.
    left_out += sum(part.left_out for part in (best, further) if part.last == every[kept[-1]])
    return _Best(every[kept], np.concatenate([best.chunks, first + further.chunks])[kept], total, left_out)


def _first(masses: NDArray[np.floating[Any]], top: int) -> tuple[NDArray[np.int64], int]:
    """Indices of the `top` greatest, descending, of equal ones the first; and how many more equal the last of them."""
    order = np.argsort(-masses, kind="stable")
    kept, left = order[:top], order[top:]
    return kept, int((masses[left] == masses[kept[-1:]]).sum())


def _log_sums(own: NDArray[np.float32], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    """The logarithm of what the chunks of each document weigh together."""
    peaks = np.maximum.reduceat(own, starts)
    base = np.where(np.isfinite(peaks), peaks, 0)
    with np.errstate(divide="ignore"):  # the logarithm of nothing is what it should be
        return base + np.log(np.add.reduceat(np.exp(own - np.repeat(base, lengths)), starts))


# A group's document may be worth naming in the end though it is not among the group's first few.
_REMEMBERED: Final = 50


@dataclass(frozen=True)
class Reader:
    """What a read needs of a model, for as long as its weights stay as they are; after that, make another.

    Attributes:
        aggregator: h_psi.
        codebook: what the codes of memories are indices into; None where memories hold vectors alone.
        router: None in a model trained without one.
        routed_documents: how many chunks a routed read aggregates.
        group_documents: how many chunks make a group of a hierarchical read (M in the paper).
    """

    aggregator: Aggregator
    codebook: Codebook | None
    router: Router | None
    routed_documents: int
    group_documents: int

    def attend(self, question: Tensor, rows: Rows) -> Aggregated:
        """Questions [B, T, D] read the same rows."""
        weights = None if rows.log_weights is None else rows.log_weights.unsqueeze(0)
        if rows.are_codebook:
            return self.aggregator.read(question, self._projected, weights)
        return self.aggregator(question, rows.vectors.unsqueeze(0), weights)  # type: ignore[no-any-return]

    @cached_property
    def _projected(self) -> list[KeyValue]:
        """Keys and values of the codebook for each block, computed once: ten times the work of a read with them."""
        return self.aggregator.project(self._books.books[:1].flatten(1, 2))

    @property
    def shape(self) -> CodeShape:
        """What codes look like; asked for where there are some."""
        return shape_of(self._books)

    @property
    def _books(self) -> Codebook:
        assert self.codebook is not None, "codes come with a codebook"
        return self.codebook


Rankings = list[list[Ranked]]


@dataclass(frozen=True)
class Reading:
    """What questions took from a memory.

    Attributes:
        question: the questions' own vectors, which are the modulation that an empty memory gives, [B, T, D].
        modulation: phi*, [B, T, D].
        find_sources: see `sources`.
        find_chunks: see `chunks`.
        find_codes: see `codes`.
    """

    question: Tensor
    modulation: Tensor
    find_sources: Callable[[], Rankings]
    find_chunks: Callable[[], Rankings]
    find_codes: Callable[[], CodeMap | None]

    @cached_property
    def sources(self) -> Rankings:
        """The best documents of each question, best first, with their shares of the answer.

        Found when first asked for, which may take a look at every document; the memory must still be as it was.
        """
        return self.find_sources()

    @cached_property
    def chunks(self) -> Rankings:
        """The best chunks of each question, as many as documents at most, best first, with their own shares.

        As `sources`, they are found when first asked for. A hierarchical read knows only the best of each document.
        """
        return self.find_chunks()

    @cached_property
    def codes(self) -> CodeMap | None:
        """How much of the attention each code got, [B, levels, positions, num_codes], 1 over each level.

        None if nothing was read, or no codes. As `sources`, it is found when first asked for.
        """
        return self.find_codes()


Read = Callable[[Reader, Tensor, Memory, int, int | None], Reading]


def read_flat(reader: Reader, question: Tensor, memory: Memory, top: int, _: int | None = None) -> Reading:
    """The paper's read: attention over the whole memory.

    A document's share is the attention to its rows, the mean over heads, blocks and the question's vectors; so is a
    code's.

    Raises:
        ModelError: the memory's codes are residual.
    """
    rows = memory.rows()
    read = reader.attend(question, rows)

    def find(by_document: bool) -> Rankings:
        ranking = Ranking(len(question), top)
        for masses in memory.shares(read.attention):
            ranking.add(masses.values, masses.lengths if by_document else None)
        return ranking.result()

    def find_codes() -> CodeMap | None:
        if not rows.are_codebook:
            return None
        shape, attention = reader.shape, read.attention.float().cpu().numpy()
        return attention.reshape(-1, 1, shape.positions, shape.num_codes)

    return Reading(question, read.modulation, lambda: find(True), lambda: find(False), find_codes)


def read_hierarchical(reader: Reader, question: Tensor, memory: Memory, top: int, number: int | None) -> Reading:
    """The paper's divide and conquer over groups in stored order (section 3.1), in memory for one group.

    A document's share is the product of its shares of each level, as in the flat read. Of codes no more is known than
    that: the shares of the documents remembered are spread evenly over the codes of the best chunk of each. `number` is
    the group's size, at least 2.
    """
    size = reader.group_documents if number is None else number
    remembered = max(top, _REMEMBERED)
    hierarchy = Hierarchy(lambda rows, logs: reader.aggregator(question, rows, logs), size, remembered)
    for group in memory.groups(size):
        hierarchy.add(_read_group(reader, question, group, remembered))
    last = hierarchy.last()
    remembered_shares = [list(shares.values()) for shares in last.shares]
    return Reading(
        question,
        last.modulation,
        lambda: [_ranked(shares, top) for shares in remembered_shares],
        lambda: [_ranked(shares, top) for shares in remembered_shares],
        lambda: _codes_of(remembered_shares, memory, reader),
    )


def _read_group(reader: Reader, question: Tensor, group: Group, top: int) -> Result:
    """The flat read of a group."""
    reading = read_flat(reader, question, group.memory, top)
    shares = [
        {int(group.documents[own.chunk]): Share(int(group.chunks[own.chunk]), own.share, own.share) for own in ranked}
        for ranked in reading.sources
    ]
    return Result(reading.modulation, shares, group.weight)


def _ranked(shares: Sequence[Share], top: int) -> list[Ranked]:
    """The first of the remembered documents; ties are counted among these only, so there are so many at least."""
    equal = [sum(other.share == own.share for other in shares) - 1 for own in shares[:top]]
    return [Ranked(own.chunk, own.share, ties) for own, ties in zip(shares, equal, strict=False)]


def _codes_of(shares: Sequence[Sequence[Share]], memory: Memory, reader: Reader) -> CodeMap | None:
    """The shares of each question's documents spread evenly over the codes of one chunk of each."""
    chunks = np.unique([own.chunk for several in shares for own in several])
    codes = memory.chosen(chunks[None]).codes
    if codes is None:
        return None
    maps, shape = [], reader.shape
    for several in shares:
        rows = np.searchsorted(chunks, [own.chunk for own in several])
        each = np.array([[[own.share] * shape.tokens for own in several]])
        maps.append(spread(each, codes[:, rows], shape))
    return np.concatenate(maps)


def read_routed(reader: Reader, question: Tensor, memory: Memory, top: int, number: int | None) -> Reading:
    """Score every chunk by its own codes, aggregate the best few; `number` says how many.

    A document's share is the probability of its chunks under the softmax of all scores; a code's is the attention to
    the vectors of these few that it is part of.

    Raises:
        ModelError: the model has no router.
    """
    if reader.router is None:
        raise ModelError(
            "This model was trained without a router.", hint="Ask with --read flat, or --read hierarchical."
        )
    count = reader.routed_documents if number is None else number
    chunks, documents = Ranking(len(question), max(count, top)), Ranking(len(question), top)
    for masses in memory.scores(reader.router, question):
        chunks.add(masses.values)
        documents.add(masses.values, masses.lengths)
    best = np.array([[own.chunk for own in ranked[:count]] for ranked in chunks.result()])
    chosen = memory.chosen(best)
    weights = None if chosen.log_weights is None else chosen.log_weights.repeat_interleave(chosen.vectors.shape[2], 1)
    read = reader.aggregator(question, chosen.vectors.flatten(1, 2), weights)
    codes = chosen.codes

    def find_codes() -> CodeMap | None:
        if codes is None:
            return None
        shares = read.attention.float().cpu().numpy().reshape(chosen.vectors.shape[:3])
        return spread(shares, codes, reader.shape)

    return Reading(
        question,
        read.modulation,
        documents.result,
        lambda: [ranked[:top] for ranked in chunks.result()],
        find_codes,
    )


READS: dict[str, Read] = {"flat": read_flat, "hierarchical": read_hierarchical, "routed": read_routed}


def read(mode: str, reader: Reader, question: Tensor, memory: Memory, *, top: int = 5) -> Reading:
    """Read a memory, NAME or NAME:NUMBER. An empty one leaves the question as its own modulation, without sources.

    Args:
        mode: a name of `READS`; the number is what that read makes of it.
        reader: the model's parts.
        question: the questions' vectors, [B, T, D].
        memory: what is read.
        top: how many documents the sources are, at least 1.

    Raises:
        ConfigError: there is no such read, or it makes nothing of the number.
        MBCError: the read does not fit the model.
    """
    name, number = parse_read_mode(mode)
    if len(memory) == 0:
        return Reading(question, question, lambda: [[] for _ in question], lambda: [[] for _ in question], lambda: None)
    return READS[name](reader, question, memory, top, number)
