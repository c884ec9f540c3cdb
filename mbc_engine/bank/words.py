"""Inverted index of the words in a block's chunks, as Rice-coded gaps.

A word is represented by a hash of its stem, so words may collide (Witten, Moffat and Bell, Managing Gigabytes, 1999).
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain, repeat
from struct import Struct
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from mbc_engine.bank.records import Indices
from mbc_engine.text.characters import spellings

# Hash buckets; `docs/mini.md` has the size and accuracy of other numbers.
WORDS: Final = 4096
# Chinese, Japanese and Thai have no spaces between words: any two adjacent characters count as a word.
_SIGN: Final = "\u3041-\u30ff\u3400-\u9fff\u0e01-\u0e4e"
_WORD: Final = re.compile(rf"[^\W{_SIGN}]+")
# Pictures, and names like C++ and C#.
_SYMBOLS: Final = re.compile(r"[\u2600-\u27bf\u2b50\u2b55\U0001f000-\U0001faff]|\b[^\W\d_]\w?(?:\+\+|#)")
# Numbers of several parts, as 3.5 and 10:30 and 2.10.3.
_PARTED: Final = re.compile(r"\d+(?:[.,:]\d+)+")
_CAPITALISED: Final = re.compile(r"\b([A-Z]\w+) (?=([A-Z]\w+))")
_SIGNS: Final = re.compile(rf"(?=([{_SIGN}]{{2}}|(?<![{_SIGN}])[{_SIGN}](?![{_SIGN}])))")
_PLURALS: Final = (("ies", "y"), ("sses", "ss"), ("ss", "ss"), ("us", "us"), ("is", "is"), ("s", ""))
_SUFFIXES: Final = ("ing", "ed", "ly", "er", "or", "ion", "ment", "al", "ive", "e")
_SHORTEST_STEM: Final = 4
_WORD_SIZES: Final = Struct("<II")
_DECODED_AT_ONCE: Final = 1 << 20
# Where the ones of each byte are, [256, 8].
_ONES_OF_BYTES: Final = np.argsort(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1) == 0, axis=1, kind="stable"
)

Words = NDArray[np.int64]  # ascending: WORDS · chunk index + word number


def words_in(text: str) -> set[str]:
    """Runs of letters, digits and underscores, case and diacritics folded; character pairs in unspaced scripts.

    A word that is also written in another way, as 1,240 or e-mail or Müller, is there in each; see `spellings`. A number of
    several parts, as 3.5, is there as its parts and as a whole.
    """
    words = {*_SYMBOLS.findall(text.lower()), *(re.sub("[,:]", ".", number) for number in _PARTED.findall(text))}
    for spelling in spellings(text):
        words.update(_WORD.findall(spelling), _SIGNS.findall(spelling))
    return words.union(_names_of_common_words(text))


def _names_of_common_words(text: str) -> Iterator[str]:
    """Pairs of capitalised words that are left out alone, as "The Who"."""
    for match in _CAPITALISED.finditer(text):
        pair = {match[1].lower(), match[2].lower()}
        if pair <= _common_words():
            yield f"{match[1]} {match[2]}".lower()


def stems_of(text: str) -> set[str]:
    """The stems of a text's words."""
    return {_stem(word) for word in words_in(text)}


def word_numbers(text: str) -> list[int]:
    """The distinct numbers of a text's words, ascending; common words are left out."""
    return sorted(numbered_words(text))


def numbered_words(text: str) -> dict[int, str]:
    """As `word_numbers`, each with the first word, alphabetically, that has it."""
    return {number_of(word): word for word in sorted(words_in(text) - _common_words(), reverse=True)}


def words_of(texts: Iterable[str], contexts: Iterable[str] = ()) -> Words:
    """The words of chunks with these texts, and of their contexts."""
    of_context = cache(word_numbers)  # most chunks share theirs with others
    numbers = [
        WORDS * chunk + number
        for chunk, (text, context) in enumerate(zip(texts, chain(contexts, repeat("")), strict=False))
        for number in (sorted({*word_numbers(text), *of_context(context)}) if context else word_numbers(text))
    ]
    return np.array(numbers, np.int64)


def write_words(words: Words, chunks: int) -> bytes:
    """The inverted index of this many chunks: how many contain each word, and the gaps between them; Rice-coded."""
    numbers, chunks_of = words % WORDS, words // WORDS
    order = np.argsort(numbers, kind="stable")
    numbers, chunks_of = numbers[order], chunks_of[order]
    counts = np.bincount(numbers, minlength=WORDS)
    is_first = np.diff(numbers, prepend=-1) > 0
    gaps = np.where(is_first, chunks_of, np.diff(chunks_of, prepend=0) - 1)
    values = np.append(counts, gaps)
    shifts = np.append(np.repeat(_shifts(WORDS, len(words)), WORDS), _shifts(counts, chunks)[numbers])
    ends = np.cumsum(shifts)
    low = np.zeros(int(ends[-1]), np.uint8)
    for bit in range(int(shifts.max())):
        has_bit = shifts > bit
        low[ends[has_bit] - 1 - bit] = values[has_bit] >> bit & 1
    stops = np.cumsum((values >> shifts) + 1) - 1
    high = np.zeros(int(stops[-1]) + 1, np.uint8)
    high[stops] = 1
    packed = np.packbits(high).tobytes()
    return _WORD_SIZES.pack(len(words), len(packed)) + packed + np.packbits(low).tobytes()


def read_words(data: bytes, chunks: int) -> Words:
    """The inverse of `write_words`. Raises ValueError if `data` is not exactly what it writes."""
    index = WordIndex(data, chunks)
    # A few at a time, as decoding takes many times the memory of the result.
    starts = np.flatnonzero(np.diff(np.cumsum(index.counts) // _DECODED_AT_ONCE, prepend=0))
    decoded = (
        WORDS * index.places(some)[0] + np.repeat(some, index.counts[some])
        for some in np.split(np.arange(WORDS), starts)
    )
    words = np.empty(int(index.counts.sum()), np.int64)
    end = 0
    for some in decoded:
        words[end : end + len(some)] = some
        end += len(some)
    words.sort()
    return words


class WordIndex:
    """Looks up words in what `write_words` wrote. Raises ValueError if `data` is malformed."""

    def __init__(self, data: bytes, chunks: int) -> None:
        if len(data) < _WORD_SIZES.size:
            raise ValueError("the word index is missing")
        words, size = _WORD_SIZES.unpack_from(data)
        low_bytes = len(data) - _WORD_SIZES.size - size
        # Low bits are read in windows of eight bytes.
        streams = np.append(np.frombuffer(data, np.uint8)[_WORD_SIZES.size :], np.zeros(8, np.uint8))
        self.chunks, self._high = chunks, streams[:size]
        stops, shift = _Ones(self._high), int(_shifts(WORDS, words))
        if stops.total != WORDS + words or 8 * low_bytes < WORDS * shift:
            raise ValueError("words do not add up")
        self._low = sliding_window_view(streams[size:], 8)
        zeros = np.diff(stops.places(np.arange(WORDS)), prepend=-1) - 1
        self.counts = self._values(zeros, np.arange(WORDS) * shift, shift)
        if self.counts.sum() != words:
            raise ValueError("words do not add up")
        self._shifts = _shifts(self.counts, chunks)
        starts = np.cumsum(self.counts) - self.counts
        self._high_starts = stops.places(np.append(WORDS - 1 + starts, stops.total - 1)) + 1
        low_ends = WORDS * shift + np.cumsum(self.counts * self._shifts)
        self._low_starts = low_ends - self.counts * self._shifts
        high_end, low_end = int(self._high_starts[-1]), int(low_ends[-1])
        if (size, low_bytes) != (-(-high_end // 8), -(-low_end // 8)):
            raise ValueError("words are too long or cut off")
        if low_end % 8 and streams[size + low_bytes - 1] & (0xFF >> low_end % 8):
            raise ValueError("the bits that fill the last byte of the words are not zero")

    def find(self, numbers: Sequence[int]) -> list[Indices]:
        """The chunks that contain each word, ascending."""
        chunks, sizes = self.places(np.array(numbers, np.int64))
        return np.split(chunks, np.cumsum(sizes)[:-1])

    def places(self, chosen: Indices) -> tuple[Indices, Indices]:
        """As `find`, but concatenated, and the number of chunks per word."""
        sizes, firsts = self.counts[chosen], self._high_starts[chosen]
        lengths = self._high_starts[chosen + 1] - firsts
        shift = np.repeat(self._shifts[chosen], sizes)
        bits = _ranges(firsts, lengths)
        stops = np.flatnonzero((self._high[bits >> 3] >> (7 - (bits & 7)) & 1).astype(np.bool_))
        low_starts = np.repeat(self._low_starts[chosen], sizes) + _ranges(np.zeros_like(sizes), sizes) * shift
        # One cumulative sum over all gaps, minus each word's offset.
        sums = np.append(0, np.cumsum(self._values(np.diff(stops, prepend=-1) - 1, low_starts, shift) + 1))
        ends = np.cumsum(sizes)
        places = sums[1:] - 1 - np.repeat(sums[ends - sizes], sizes)
        if places.max(initial=0) >= self.chunks:
            raise ValueError("no chunk has such an index")
        return places, sizes

    def _values(self, zeros: Indices, low_starts: Indices, shift: Indices | int) -> Indices:
        byte, offset = np.divmod(low_starts, 8)
        windows = np.ascontiguousarray(self._low[byte]).view(">u8")[..., 0].astype(np.uint64)
        low = windows << offset.astype(np.uint64) >> np.uint64(1) >> np.asarray(63 - shift, np.uint64)
        return np.asarray((zeros << shift) + low.astype(np.int64))


class _Ones:
    """Finds the ones in a stream of bits by their order, without unpacking it."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self._data, self._ends = data, np.cumsum(np.bitwise_count(data), dtype=np.int64)
        self.total = int(self._ends[-1]) if len(data) else 0

    def places(self, orders: Indices) -> Indices:
        """The indices of bits that are ones, each given by how many ones are before it."""
        byte = np.searchsorted(self._ends, orders, side="right")
        values = self._data[byte]
        before = orders - self._ends[byte] + np.bitwise_count(values)
        return np.asarray(8 * byte + _ONES_OF_BYTES[values, before])


def _ranges(starts: Indices, lengths: Indices) -> Indices:
    ends = np.cumsum(lengths)
    return np.asarray(np.arange(int(lengths.sum())) + np.repeat(starts - ends + lengths, lengths))


def _shifts(counts: Indices | int, chunks: int) -> Indices:
    """The Rice parameter for the gaps between `counts` of the chunks: how many low bits are stored verbatim."""
    ratios = 9 * chunks // (13 * np.maximum(counts, 1))
    return np.asarray(np.frexp(np.maximum(ratios, 1))[1].astype(np.int64) - 1)


@cache
def _common_words() -> frozenset[str]:
    return frozenset(files(__package__).joinpath("common_words.txt").read_text(encoding="utf-8").split())


@lru_cache(1 << 16)
def number_of(word: str) -> int:
    """The CRC-32 of a word's stem, modulo `WORDS`."""
    return zlib.crc32(_stem(word).encode()) % WORDS


def _stem(word: str) -> str:
    if not word.isalpha():
        return word
    if len(word) >= _SHORTEST_STEM:
        end, other = next((pair for pair in _PLURALS if word.endswith(pair[0])), ("", ""))
        word = word.removesuffix(end) + other
    for suffix in _SUFFIXES:
        if len(word) >= _SHORTEST_STEM + len(suffix):
            word = word.removesuffix(suffix)
    return word[:-1] if word.endswith("y") and len(word) > _SHORTEST_STEM else word
