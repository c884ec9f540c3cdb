"""Words of chunks: how texts become numbers, the exact bits of an index, its inverse, and damage."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank.words import WORDS, WordIndex, number_of, read_words, word_numbers, words_in, words_of, write_words


@st.composite
def indexed(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """Words of some chunks, rare and frequent ones."""
    chunks = draw(st.integers(1, 300))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    has_word = random.random((chunks, WORDS)) < random.choice([0, 0, 0.002, 0.05, 0.6], WORDS)
    return np.flatnonzero(has_word), chunks


def test_words_are_folded_and_stemmed() -> None:
    (number,) = word_numbers("Résumé")
    assert number == number_of("resume") == zlib.crc32(b"resum") % WORDS
    assert word_numbers("RESUME resumes, résumé") == [number]
    for one, other in (("stories", "story"), ("invaded", "invades"), ("classes", "class"), ("gas", "gas")):
        assert number_of(one) == number_of(other)
    assert number_of("1990s") != number_of("1990")  # numbers and codes are kept whole
    assert number_of("bus") != number_of("bu")
    assert word_numbers("What kind of … is it?! \ud800 \N{GRINNING FACE}") == []
    numbers = word_numbers("zinc amber")
    assert words_of(["zinc amber", "", "amber"]).tolist() == [*numbers, 2 * WORDS + number_of("amber")]


def test_unspaced_scripts_use_pairs() -> None:
    bridge = "\u6771\u4eac\u306e\u6a4b"
    assert words_in(f"{bridge}1954\u5e74 wikiHow\u3092") == {
        *("\u6771\u4eac", "\u4eac\u306e", "\u306e\u6a4b"),
        *("1954", "\u5e74", "wikihow", "\u3092"),
    }


@given(indexed())
def test_read_words_inverts_write_words(case: tuple[np.ndarray, int]) -> None:
    words, chunks = case
    data = write_words(words, chunks)
    assert np.array_equal(read_words(data, chunks), words)
    for number, found in zip(range(0, WORDS, 37), WordIndex(data, chunks).find(range(0, WORDS, 37)), strict=True):
        assert found.tolist() == (words[words % WORDS == number] // WORDS).tolist()


@given(indexed(), st.data())
def test_damaged_words_are_detected(case: tuple[np.ndarray, int], data: st.DataObject) -> None:
    words, chunks = case
    written = bytearray(write_words(words, chunks))
    written[data.draw(st.integers(0, len(written) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        again = read_words(bytes(written), chunks)
    except ValueError:
        return
    assert not np.array_equal(again, words)


@pytest.mark.parametrize(
    "data", [b"", b"x" * 99, struct.pack("<II", 9, 99), write_words(np.array([3]), 1)[:-2], struct.pack("<II", 0, 9)]
)
def test_invalid_index_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="word"):
        read_words(data, 10)
