"""Words of chunks: how texts become numbers, the exact bits of an index, its inverse, and damage."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank.word_index import WordIndex, find_words, read_words, words_of, write_words
from mbc_engine.bank.words import WORDS, matcher, number_of, word_numbers, words_in


@st.composite
def indexed(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """Words of some chunks, rare and frequent ones."""
    chunks = draw(st.integers(1, 300))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    numbers = np.unique(random.integers(0, WORDS, draw(st.integers(0, 3000))))
    has_word = random.random((chunks, len(numbers))) < random.choice([0.002, 0.05, 0.6], len(numbers))
    chunks_of, columns = np.nonzero(has_word)
    return WORDS * chunks_of + numbers[columns], chunks


def test_words_are_folded_and_stemmed():
    (number,) = word_numbers("Résumé")
    assert number == number_of("resume") == zlib.crc32(b"resum") % (1 << 20)
    assert word_numbers("RESUME resumes, résumé") == [number]
    for one, other in (("stories", "story"), ("invaded", "invades"), ("classes", "class"), ("gas", "gas")):
        assert number_of(one) == number_of(other)
    assert number_of("1990s") != number_of("1990")  # numbers and codes are kept whole
    assert number_of("bus") != number_of("bu")
    assert word_numbers("What kind of … is it?! \ud800") == []
    assert "1.5" in words_in(f"{'1' * 1_000_000} 1.5")  # in linear time
    numbers = word_numbers("zinc amber")
    assert words_of(["zinc amber", "", "amber"]).tolist() == [*numbers, 2 * WORDS + number_of("amber")]


@pytest.mark.parametrize(
    ("written", "sought"),
    [
        *(("Ge\u00adsamt\u00adkonzept", "Gesamtkonzept"), ("ket\u200btle", "kettle"), ("\uff2d\uff22\uff23", "mbc")),
        *(("s\0t\x1b[31mone\x1b[0m", "stone"), ("sta\ufb00 o\ufb03cer", "staff officer")),
        ("\N{PARTY POPPER} Ylva", "\N{PARTY POPPER}"),
        *(("1,240 m", "1240"), ("1.234.567", "1234567"), ("5\u2009000 bricks", "5000"), ("5 000 bricks", "5,000")),
        *(("Troms\u00f8", "Tromso"), ("M\u00fcller", "Mueller"), ("Mueller", "M\u00fcller")),
        *(("Stra\u00dfe", "Strasse"), ("an e-mail", "email"), ("an email", "e\u2011mail"), ("O'Brien", "obrien")),
        *(("the N.A.S.A. log", "NASA"), ("in C# and", "C#"), ("in C++, and", "c++"), ("INV-2024-17", "inv202417")),
        *(("The Who will play", "The Who"), ("set max_size", "size"), ("the RBC113", "RBC")),
        *(("call trimPath(url)", "path"), ("an HTTPServer of", "server")),
        *(("TideChart", "tide"), ("trimPath", "trimpath")),
        *(("a 3.5 mm plug", "3.5"), ("3,5 kg", "3.5 kilos"), ("v2.10.3", "2.10.3"), ("at 10:30", "10.30")),
    ],
)
def test_spellings_find_each_other(written, sought):
    shared = set(word_numbers(written)) & set(word_numbers(sought))
    assert shared
    assert not shared & set(word_numbers("a plain text of other words"))


@pytest.mark.parametrize("query", ["trim path", "trim_path", "trimPath"])
def test_names_with_capitals_inside_are_compared_whole_and_in_parts(query):
    shared = matcher(query)
    assert ("trim", "path") in shared("export const trimPath = (url) => {}")
    assert ("trim", "path") in shared("def trim_path(url):")
    assert not shared("the path that Trim took, OakTrim path") - {"path", "trim"}
    assert matcher("YouTube channel")("a Youtube channel") == {"youtube", "channel", ("youtube", "channel")}


def test_unspaced_scripts_use_pairs():
    bridge = "\u6771\u4eac\u306e\u6a4b"
    assert words_in(f"{bridge}1954\u5e74 wikiHow\u3092") == {
        *("\u6771\u4eac", "\u4eac\u306e", "\u306e\u6a4b"),
        *("1954", "\u5e74", "wikihow", "wiki", "how", "\u3092"),
    }


@given(indexed())
def test_read_words_inverts_write_words(case):
    words, chunks = case
    data = write_words(words, chunks)
    assert np.array_equal(read_words(data, chunks), words)
    sought = [*np.unique(words % WORDS)[::37].tolist(), 417]
    index = WordIndex(data, chunks)
    for number, found in zip(sought, find_words(sought, [index.part_with(sought, data)] * 2), strict=True):
        same = {number, (1 << 20) + number % 4096}  # by which earlier versions indexed several words
        own = np.unique(words[np.isin(words % WORDS, [*same])] // WORDS)
        assert found.tolist() == [*own, *own + chunks]


@given(indexed(), st.data())
def test_damaged_words_are_detected(case, data):
    words, chunks = case
    written = bytearray(write_words(words, chunks))
    written[data.draw(st.integers(0, len(written) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        again = read_words(bytes(written), chunks)
    except ValueError:
        return
    assert not np.array_equal(again, words)


@pytest.mark.parametrize(
    "data",
    [b"", b"x" * 99, struct.pack("<II", 9, 99), write_words(np.array([3]), 1)[:-2], struct.pack("<III", 0, 0, 9)],
)
def test_invalid_index_is_refused(data):
    with pytest.raises(ValueError, match="word"):
        read_words(data, 10)
