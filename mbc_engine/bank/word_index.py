"""Inverted index of the words in a block's chunks, as Rice-coded gaps.

After Witten, Moffat and Bell, Managing Gigabytes, 1999.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, repeat
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.records import Indices, distinct
from mbc_engine.bank.words import BUCKETS, EARLIER_BUCKETS, WORDS, indexed_numbers

_TOTAL: Final = struct.Struct("<I")
# On average; fewer take more bytes for where ranges start, more take longer to read.
_WORDS_OF_A_RANGE: Final = 256
# Bytes that are decoded, or words, since both take many times the memory of the result.
_AT_ONCE: Final = 1 << 17
# Of a block; or three for each byte of the index. Those of a prose text take about five bits each.
_FEW_WORDS: Final = 1 << 21
_MOST_BITS: Final = 40  # of the chunks of a bank

Words = NDArray[np.int64]  # ascending: WORDS · chunk index + word number


def words_of(texts: Iterable[str], contexts: Iterable[tuple[str, ...]] = ()) -> Words:
    """The words of chunks with these texts, and of their contexts."""
    of_context = cache(indexed_numbers)  # most chunks share theirs with others
    numbers = (
        WORDS * chunk + number
        for chunk, (text, context) in enumerate(zip(texts, chain(contexts, repeat(())), strict=False))
        for number in sorted(indexed_numbers(text).union(*map(of_context, context)))
    )
    return np.fromiter(numbers, np.int64)


def write_words(words: Words, chunks: int) -> bytes:
    """The inverted index of this many chunks: which numbers occur, in how many of them, and the gaps between these.

    The numbers are divided into ranges, each of which can be read alone. Of so many words, and such repetitive ones, that
    a reader would refuse them, only those in the fewest chunks are written.
    """
    ordered = words % WORDS
    ordered *= chunks
    ordered += words // WORDS
    ordered.sort()
    distinct = int(np.count_nonzero(np.diff(ordered // chunks, prepend=-1)))
    ranges, shift = _ranges_of(len(words)), int(_shifts(distinct, WORDS))
    bounds = _bounds(np.arange(ranges + 1), ranges)
    places = np.searchsorted(ordered, bounds * chunks)
    pieces = [
        _write_ranges(ordered[places[some[0]] : places[some[-1] + 1]], bounds[some[0] : some[-1] + 2], chunks, shift)
        for some in _pieces(places[:-1])
    ]
    directory = np.cumsum(np.concatenate([sizes for _, sizes in pieces]), 0).astype("<u4").tobytes()
    data = b"".join([_TOTAL.pack(len(words)), directory, *(written for written, _ in pieces)])
    if len(words) <= _most_words(data):
        return data
    occurrences = np.bincount(words % WORDS, minlength=WORDS)
    rarest = np.argsort(occurrences, kind="stable")
    rarest = rarest[np.cumsum(occurrences[rarest]) <= _FEW_WORDS]
    return write_words(words[np.isin(words % WORDS, rarest)], chunks)


def _write_ranges(ordered: Indices, bounds: Indices, chunks: int, shift: int) -> tuple[bytes, Indices]:
    """Adjacent ranges of numbers, given chunks · number + chunk; returns their bytes, and how many numbers and bytes each has."""
    firsts = np.flatnonzero(np.diff(ordered // chunks, prepend=-1))
    distinct, counts = ordered[firsts] // chunks, np.diff(firsts, append=len(ordered))
    ranges = len(bounds) - 1
    ends = np.searchsorted(distinct, bounds)  # of the numbers in each range, [ranges + 1]
    sizes, of_range = np.diff(ends), np.repeat(np.arange(ranges), np.diff(ends))
    gaps = np.diff(distinct, prepend=0) - 1
    gaps[ends[:-1][sizes > 0]] = (distinct - bounds[of_range])[ends[:-1][sizes > 0]]
    # In few bytes, as there may be millions in a range.
    between = (np.diff(ordered, prepend=0) - 1).astype(np.int32)
    between[firsts] = ordered[firsts] % chunks
    shifts = np.repeat(_shifts(counts, chunks).astype(np.int8), counts)
    lengths = np.frexp(counts)[1].astype(np.int64)  # bits of the counts
    places = np.append(0, np.cumsum(counts))[ends]
    # Of each value the sizes of the fields in which it is written, and its bits; in the order of the fields in a range.
    fields = [
        ((gaps >> shift) + 1, np.ones_like(gaps), ends),
        (lengths, np.ones_like(lengths), ends),
        (np.full_like(gaps, shift), gaps, ends),
        (lengths - 1, counts, ends),
        ((between >> shifts) + 1, np.ones_like(between), places),
        (shifts, between, places),
    ]
    totals = np.array([np.diff(np.append(0, np.cumsum(widths))[bounds_of]) for widths, _, bounds_of in fields])
    in_bytes = -(-totals.sum(0) // 8)
    starts = 8 * (np.cumsum(in_bytes) - in_bytes) + np.cumsum(np.vstack([np.zeros(ranges, np.int64), totals]), 0)[:-1]
    bits = np.zeros(8 * int(in_bytes.sum()), np.uint8)
    for (widths, values, bounds_of), start in zip(fields, starts, strict=True):
        last = _runs(widths, bounds_of, start) - 1
        for bit in range(int(np.frexp(values.max(initial=0))[1])):
            is_set = (widths > bit) & (values >> bit & 1).astype(np.bool_)
            bits[last[is_set] - bit] = 1
    return np.packbits(bits).tobytes(), np.stack([sizes, in_bytes], 1)


def read_words(data: bytes, chunks: int) -> Words:
    """The inverse of `write_words`. Raises ValueError if `data` is not exactly what it writes."""
    index = WordIndex(data, chunks)
    words, start = np.empty(index.total, np.int64), 0
    for part in index.pieces(data):
        _, numbers, counts, places = _read([part])
        end = start + len(places)
        if end > index.total:
            raise ValueError("words do not add up")
        words[start:end] = WORDS * places + np.repeat(numbers, counts)
        start = end
    if start != index.total:
        raise ValueError("words do not add up")
    words.sort()
    return words


def read_earlier_words(data: bytes, chunks: int, *, compressed_counts: bool) -> Words:
    """The words that formats 4 (with compressed counts) to 6 wrote, with fewer numbers: all that each may have now.

    Raises ValueError if they are too many, or in no chunk.
    """

    def values(first: int, start: int, shifts: Indices) -> Indices:
        """From the `first` on, with low bits from `start` on."""
        stops, rest = start + np.cumsum(shifts), zeros[first : first + len(shifts)] << shifts
        for bit in range(int(shifts.max(initial=0))):
            there = shifts > bit
            rest[there] |= low[stops[there] - bit - 1].astype(np.int64) << bit
        return rest

    if compressed_counts:
        stream, first, start = zlib.decompressobj(), 0, 0
        counts = np.frombuffer(stream.decompress(data, 2 * EARLIER_BUCKETS), "<u4").astype(np.int64)
        rest = stream.unused_data
        size = -(-int(counts @ _shifts(counts, chunks)) // 8)
        low_bytes, high_bytes = rest[:size], rest[size:]
    else:
        total, size = struct.unpack_from("<II", data)
        high_bytes, low_bytes = data[8 : 8 + size], data[8 + size :]
    low, high = (np.unpackbits(np.frombuffer(part, np.uint8)) for part in (low_bytes, high_bytes))
    most = max(_FEW_WORDS, 2 * len(data))  # five bits each is usual
    if np.count_nonzero(high) > EARLIER_BUCKETS + most:
        raise ValueError("there are too many words")
    zeros = np.diff(np.flatnonzero(high), prepend=-1) - 1
    if not compressed_counts:
        shifts = np.full(EARLIER_BUCKETS, _shifts(EARLIER_BUCKETS, total))
        first, start, counts = len(shifts), int(shifts.sum()), values(0, 0, shifts)
    if counts.sum() > len(zeros) - first:
        raise ValueError("words do not add up")
    ends = np.append(0, np.cumsum(counts))
    gaps = values(first, start, np.repeat(_shifts(counts, chunks), counts)) + 1
    places = _runs(gaps, ends, np.zeros_like(counts)) - 1
    if places.max(initial=-1) >= chunks:
        raise ValueError("no chunk has such an index")
    words = WORDS * places + np.repeat(np.arange(len(counts)), counts)
    # Each stands for all words whose hash has these lowest bits.
    now = [BUCKETS + bucket for bucket in range(0, EARLIER_BUCKETS, len(counts))]
    return np.sort((words[:, None] + now).ravel())


class WordIndex:
    """Where each range of numbers is in what `write_words` wrote. Raises ValueError if that is malformed."""

    def __init__(self, data: bytes, chunks: int) -> None:
        self.total = _TOTAL.unpack_from(data)[0] if len(data) >= _TOTAL.size else 0
        self.chunks, self.ranges = chunks, _ranges_of(self.total)
        self._start = _TOTAL.size + 8 * self.ranges
        if len(data) < self._start:
            raise ValueError("the word index is missing")
        self.ends = np.zeros((self.ranges + 1, 2), np.uint32)  # of numbers and bytes
        self.ends[1:] = np.frombuffer(data, "<u4", 2 * self.ranges, _TOTAL.size).reshape(-1, 2)
        numbers, size = self.ends[-1].tolist()
        if self.total > _most_words(data) or numbers > min(self.total, WORDS):
            raise ValueError("there are too many words")
        if (self.ends[1:] < self.ends[:-1]).any() or self._start + size != len(data):
            raise ValueError("words are too long or cut off")
        self.shift = int(_shifts(numbers, WORDS))

    def pieces(self, data: bytes) -> Iterator["WordPart"]:
        """All ranges, a few at a time."""
        return (self._part(some, data) for some in _pieces(self.ends[:-1, 1].astype(np.int64)))

    def part_with(self, numbers: Sequence[int], data: Any) -> "WordPart":
        """The ranges that hold some numbers, from what it is the index of: bytes, or a blob of SQLite's."""
        return self._part(distinct(_sought(numbers) * self.ranges // WORDS), data)

    def _part(self, ranges: Indices, data: Any) -> "WordPart":
        spans = zip(*(self._start + self.ends[at, 1].astype(np.int64) for at in (ranges, ranges + 1)), strict=True)
        return WordPart(self, ranges, b"".join(data[start:end] for start, end in spans))


class WordPart(NamedTuple):
    """Some ranges of numbers of an index, and the bytes that hold them."""

    owner: WordIndex
    ranges: Indices
    data: bytes


def _sought(numbers: Sequence[int]) -> Indices:
    """The numbers, and those that they had in an earlier version."""
    return np.array([*numbers, *(BUCKETS + number % EARLIER_BUCKETS for number in numbers)], np.int64)


def find_words(numbers: Sequence[int], parts: Sequence[WordPart]) -> list[Indices]:
    """The chunks that contain each word, ascending, numbered on from one index to the next.

    Where an earlier version indexed them, those that may.
    """
    sought = _sought(numbers)
    lengths = np.array([len(part.data) for part in parts], np.int64)
    chunks = np.array([part.owner.chunks for part in parts], np.int64)
    first_chunks, chunks_of = np.cumsum(chunks) - chunks, [[np.empty(0, np.int64)] for _ in sought]
    for some in _pieces(np.cumsum(lengths) - lengths):  # together, as most of the time goes into numpy's many calls
        owners, known, counts, places = _read(parts[some[0] : some[-1] + 1])
        wanted = WORDS * np.arange(len(some))[:, None] + sought
        known = np.append(WORDS * owners + known, -1)
        rows = np.searchsorted(known[:-1], wanted)
        places += np.repeat(first_chunks[some][owners], counts)
        starts = np.cumsum(counts) - counts
        for of_number, of_word, are_known in zip(chunks_of, rows.T, (known[rows] == wanted).T, strict=True):
            of_number.append(places[_within(starts[of_word[are_known]], counts[of_word[are_known]])])
    now, earlier = (list(map(np.concatenate, half)) for half in (chunks_of[: len(numbers)], chunks_of[len(numbers) :]))
    return [np.union1d(one, other) if len(other) else one for one, other in zip(now, earlier, strict=True)]


def _read(parts: Sequence[WordPart]) -> tuple[Indices, Indices, Indices, Indices]:
    """The numbers in some parts: the part that each is in, the number, in how many chunks, and in which."""
    sizes, lengths = np.concatenate([index.ends[at + 1] - index.ends[at] for index, at, _ in parts]).T.astype(np.int64)
    ranges, owners = (
        np.concatenate([at for _, at, _ in parts]),
        np.repeat(np.arange(len(parts)), [len(at) for _, at, _ in parts]),
    )
    of_index = np.array([(index.ranges, index.shift, index.chunks, index.total) for index, *_ in parts], np.int64)
    ranges_of_all, shift, chunks_of, totals = of_index[owners].T
    shift, chunks_of, totals = (np.repeat(each, sizes) for each in (shift, chunks_of, totals))
    data = [part.data for part in parts]
    # Fields are read in windows of eight bytes.
    bits = _Bits(np.frombuffer(b"".join([*data, bytes(8)]), np.uint8))
    ends = np.append(0, np.cumsum(sizes))
    starts = 8 * (np.cumsum(lengths) - lengths)
    high, starts = bits.unary(starts, ends)
    widths, starts = bits.unary(starts, ends)
    low, starts = bits.numbers(starts, ends, shift)
    if widths.max(initial=0) > _MOST_BITS:
        raise ValueError("no word is in so many chunks")
    counts, starts = bits.numbers(starts, ends, widths)
    counts += 1 << widths
    if (counts > totals).any() or counts.sum() > of_index[:, 3].sum():
        raise ValueError("words do not add up")
    numbers = _runs((high << shift) + low + 1, ends, _bounds(ranges, ranges_of_all)) - 1
    if (numbers >= np.repeat(_bounds(ranges + 1, ranges_of_all), sizes)).any():
        raise ValueError("a word is where it is not looked for")
    # The chunks of some numbers at a time: those from each of the `bounds` on, which are in one range.
    stops, shifts = np.append(0, np.cumsum(counts)), _shifts(counts, chunks_of)
    low_bits = np.append(0, np.cumsum(counts * shifts))
    bounds = distinct(np.concatenate([ends, *(some[:1] for some in _pieces(stops[:-1]))]))
    of_range = np.searchsorted(ends, bounds[:-1], side="right") - 1
    high_starts = bits.after(starts[of_range], stops[bounds[:-1]] - stops[ends][of_range])
    after = bits.after(starts, np.diff(stops[ends]))
    low_starts = after[of_range] + low_bits[bounds[:-1]] - low_bits[ends][of_range]
    bits.require_ends(after + np.diff(low_bits[ends]), 8 * np.cumsum(lengths))
    chunks = np.empty(stops[-1], np.int64)
    for some in _pieces(stops[bounds[:-1]]):
        first, last = bounds[some[[0, -1]] + [0, 1]]
        widths = np.repeat(shifts[first:last], counts[first:last])
        places = stops[bounds[some[0] : some[-1] + 2]] - stops[first]
        zeros, rest = bits.unary(high_starts[some], places)[0], bits.numbers(low_starts[some], places, widths)[0]
        gaps, none = (zeros << widths) + rest + 1, np.zeros(last - first, np.int64)
        chunks[stops[first] : stops[last]] = _runs(gaps, stops[first : last + 1] - stops[first], none) - 1
    if (chunks[stops[1:] - 1] >= chunks_of).any():
        raise ValueError("no chunk has such an index")
    return np.repeat(owners, sizes), numbers, counts, chunks


class _Bits:
    """Reads fields of bits, of which those of each range follow one another."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self._windows = np.ndarray((len(data) - 7,), ">u8", data, strides=(1,))
        self._ones = np.flatnonzero(np.unpackbits(data).view(np.bool_))  # faster than of numbers

    def unary(self, starts: Indices, ends: Indices) -> tuple[Indices, Indices]:
        """How many zeros are before each one, for as many ones as there are values in each range; and where they end."""
        sizes = np.diff(ends)
        if sizes.sum() > len(self._ones):
            raise ValueError("words do not add up")
        after = self.after(starts, sizes)
        stops = self._ones[_within(np.searchsorted(self._ones, starts), sizes)]
        before = np.append(-1, stops[:-1])
        before[ends[:-1][sizes > 0]] = starts[sizes > 0] - 1
        return stops - before - 1, after

    def after(self, starts: Indices, sizes: Indices) -> Indices:
        """Where so many values in unary end."""
        orders, after = np.searchsorted(self._ones, starts) + sizes, starts.copy()
        if orders.max(initial=0) > len(self._ones):
            raise ValueError("words do not add up")
        after[sizes > 0] = self._ones[orders[sizes > 0] - 1] + 1
        return after

    def numbers(self, starts: Indices, ends: Indices, widths: Indices) -> tuple[Indices, Indices]:
        """Numbers of these widths in bits, and where those of each range end."""
        stops = _runs(widths, ends, starts)
        after = starts + np.diff(np.append(0, np.cumsum(widths))[ends])
        byte, offset = np.divmod(stops - widths, 8)
        if byte.max(initial=0) >= len(self._windows):
            raise ValueError("words do not add up")
        windows = self._windows[byte].astype(np.uint64)
        numbers = windows << offset.astype(np.uint64) >> np.uint64(1) >> (63 - widths).astype(np.uint64)
        return numbers.astype(np.int64), after

    def require_ends(self, ends: Indices, stops: Indices) -> None:
        """Raise ValueError unless the fields of each range end in its last byte, and zeros fill that."""
        filled = np.searchsorted(self._ones, ends) == np.searchsorted(self._ones, stops)
        if not (filled & (ends <= stops) & (stops < ends + 8)).all():
            raise ValueError("words are too long or cut off")


def _runs(values: Indices, ends: Indices, starts: Indices) -> Indices:
    """Cumulative sums of values, which begin anew at each of the `ends` (the first is 0), from `starts` on."""
    sums = np.cumsum(values)
    before = np.append(0, sums)[ends[:-1]]
    return np.asarray(sums + np.repeat(starts - before, np.diff(ends)))


def _pieces(starts: Indices) -> list[Indices]:
    """The indices of ascending starts, those together that are near each other."""
    pieces = np.split(np.arange(len(starts)), np.flatnonzero(np.diff(starts // _AT_ONCE, prepend=0)))
    return [piece for piece in pieces if len(piece)]


def _most_words(data: bytes) -> int:
    return max(_FEW_WORDS, 3 * len(data))


def _ranges_of(words: int) -> int:
    return max(1, words // _WORDS_OF_A_RANGE)


def _bounds(ranges: Indices, total: Indices | int) -> Indices:
    """The first numbers of ranges."""
    return np.asarray(-(-ranges * WORDS // total))


def _within(starts: Indices, lengths: Indices) -> Indices:
    ends = np.cumsum(lengths)
    return np.asarray(np.arange(int(lengths.sum())) + np.repeat(starts - ends + lengths, lengths))


def _shifts(counts: Indices | int, chunks: Indices | int) -> Indices:
    """The Rice parameter for the gaps between `counts` of the chunks: how many low bits are stored verbatim."""
    ratios = 9 * chunks // (13 * np.maximum(counts, 1))
    return np.asarray(np.frexp(np.maximum(ratios, 1))[1].astype(np.int64) - 1)
