"""Texts as bytes: any text comes back, and no changed byte goes unseen."""

import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank.text_codec import (
    LM,
    MAX_DECOMPRESSED,
    PLAIN,
    ZSTD,
    decode_chunk,
    encode_chunk,
    recoded,
)
from mbc_engine.errors import ModelError
from mbc_engine.text import Chunk
from tests.text_models import StandIn

PROSE = (
    "The reciprocating engine remained the dominant source of power until the early 20th century, when advances in "
    "the design of electric motors gradually resulted in its replacement in commercial usage. "
) * 3
ANY = st.text(st.characters(codec=None, categories=None))
MAGIC = b"\x28\xb5\x2f\xfd"


MODEL = StandIn(PROSE)


@given(text=st.one_of(ANY, ANY.map(lambda text: PROSE + text)), start=st.integers(0, 2**32 - 1))
def test_any_text_comes_back(text: str, start: int) -> None:
    encoded = encode_chunk(Chunk(text, start))
    assert decode_chunk(encoded) == Chunk(text, start)
    (under,) = recoded([encoded], MODEL, to_lm=True)
    assert decode_chunk(under, MODEL.open) == Chunk(text, start)
    assert recoded([under], MODEL, to_lm=False) == [encoded]
    assert len(under.payload) + (under.codec == LM) <= len(encoded.payload)


def test_the_bytes_are_those_of_the_format() -> None:
    plain = "é".encode()
    assert encode_chunk(Chunk("é", 300)) == (300, PLAIN, zlib.crc32(plain) % 2**24, plain, "")
    prose = encode_chunk(Chunk(PROSE, 0))
    assert (prose.codec, prose.check) == (ZSTD, zlib.crc32(PROSE.encode()) % 2**24)
    assert zstandard.frame_content_size(MAGIC + prose.payload) == len(PROSE)
    payload = MODEL.encode([PROSE])[0]
    assert recoded([prose], MODEL, to_lm=True) == [(0, LM, prose.check, payload, MODEL.fingerprint)]


def test_incompressible_texts_stay() -> None:
    texts = [encode_chunk(Chunk(text, 0)) for text in (PROSE + "é", "\ud800" + PROSE, "q9!")]
    assert recoded(texts, MODEL, to_lm=True) == texts


def test_text_needs_its_own_model() -> None:
    (text,) = recoded([encode_chunk(Chunk(PROSE, 0))], MODEL, to_lm=True)
    with pytest.raises(ModelError, match=MODEL.fingerprint):
        decode_chunk(text)
    with pytest.raises(ValueError, match="checksum"):
        decode_chunk(text, StandIn(PROSE.replace("engine", "motors")).open)


def test_decompression_is_limited() -> None:
    compressor = zstandard.ZstdCompressor()
    large = bytes(MAX_DECOMPRESSED + 1)
    packed = encode_chunk(Chunk(PROSE, 0))
    with pytest.raises(ValueError, match="too long"):
        decode_chunk(packed._replace(payload=compressor.compress(large)[4:]))
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b"abc")
    with pytest.raises(ValueError, match="does not say how long"):
        decode_chunk(packed._replace(payload=unsized[4:]))
    with pytest.raises(ValueError, match="utf-8"):
        decode_chunk(packed._replace(codec=PLAIN, payload=b"\xff"))


def test_oversized_text_is_stored_plain() -> None:
    text = "a" * (MAX_DECOMPRESSED + 1)
    for own, codec in ((text, PLAIN), (text[:-1], ZSTD)):
        assert encode_chunk(Chunk(own, 0)).codec == codec
        assert decode_chunk(encode_chunk(Chunk(own, 0))).text == own


@pytest.mark.parametrize("start", [-1, 2**32])
def test_invalid_start_is_refused(start: int) -> None:
    with pytest.raises(ValueError, match="cannot start at"):
        encode_chunk(Chunk("a", start))
