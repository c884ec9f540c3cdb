"""Texts as bytes: any text comes back, and no changed byte goes unseen."""

import random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank.text_codec import LM, PLAIN, ZSTD, decode_chunk, decode_texts, encode_chunk, recoded
from mbc_engine.errors import ModelError
from mbc_engine.text import Chunk
from tests.text_models import StandIn

PROSE = (
    "The reciprocating engine remained the dominant source of power until the early 20th century, when advances in "
    "the design of electric motors gradually resulted in its replacement in commercial usage. "
) * 3
ANY = st.text(st.characters(codec=None, categories=None))


MODEL = StandIn(PROSE)


@given(text=st.one_of(ANY, ANY.map(lambda text: PROSE + text)), start=st.integers(0, 2**32 - 1))
def test_any_text_comes_back(text, start):
    encoded = encode_chunk(Chunk(text, start))
    assert decode_chunk(encoded) == Chunk(text, start)
    (under,) = recoded([encoded], MODEL, to_lm=True)
    assert decode_chunk(under, MODEL.open) == Chunk(text, start)
    assert recoded([under], MODEL, to_lm=False) == [encoded]
    assert len(under.payload) + (under.codec == LM) <= len(encoded.payload)


def test_incompressible_texts_stay():
    texts = [encode_chunk(Chunk(text, 0)) for text in (PROSE + "é", "\ud800" + PROSE, "q9!")]
    assert recoded(texts, MODEL, to_lm=True) == texts


def test_text_needs_its_own_model():
    (text,) = recoded([encode_chunk(Chunk(PROSE, 0))], MODEL, to_lm=True)
    with pytest.raises(ModelError, match=MODEL.fingerprint):
        decode_chunk(text)
    with pytest.raises(ValueError, match="checksum"):
        decode_chunk(text, StandIn(PROSE.replace("engine", "motors")).open)


def test_lengths_are_limited():
    packed = encode_chunk(Chunk(PROSE, 0))
    large = zstandard.ZstdCompressor().compress(bytes((16 << 10) + 1))
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b"abc")
    for changes, message in (
        ({"payload": large[4:]}, "too long"),
        ({"payload": unsized[4:]}, "does not say how long"),
        ({"codec": PLAIN, "payload": b"\xff"}, "utf-8"),
    ):
        with pytest.raises(ValueError, match=message):
            decode_chunk(packed._replace(**changes))
    long = encode_chunk(Chunk("a" * (16 << 10), 0))
    with pytest.raises(ValueError, match="too long together"):
        decode_texts([long] * (5 << 10))
    text = "a" * ((16 << 10) + 1)
    for stored, codec in ((text, PLAIN), (text[:-1], ZSTD), (random.Random(1).randbytes(20_000).hex(), ZSTD)):
        assert encode_chunk(Chunk(stored, 0)).codec == codec
        assert decode_chunk(encode_chunk(Chunk(stored, 0))).text == stored
    for start in (-1, 2**32):
        with pytest.raises(ValueError, match="cannot start at"):
            encode_chunk(Chunk("a", start))
