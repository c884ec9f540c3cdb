"""Texts as bytes: any text comes back, and no changed byte goes unseen."""

import subprocess
import sys
import threading
import zlib
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import text_codec
from mbc_engine.bank.text_codec import MAX_UNFOLDED, decode_chunk, decode_row, encode_chunk, row_checksum
from mbc_engine.text import Chunk

PROSE = (
    "The reciprocating engine remained the dominant source of power until the early 20th century, when advances in "
    "the design of electric motors gradually resulted in its replacement in commercial usage. "
) * 3
ANY = st.text(st.characters(codec=None, categories=None))
MAGIC = b"\x28\xb5\x2f\xfd"


def encode(text: str) -> bytes:
    """A chunk that starts at 0, which takes a byte."""
    return encode_chunk(Chunk(text, 0))


@given(text=st.one_of(ANY, ANY.map(lambda text: PROSE + text)), start=st.integers(0, 2**63 - 1))
def test_any_text_comes_back(text: str, start: int) -> None:
    assert decode_chunk(encode_chunk(Chunk(text, start))) == Chunk(text, start)


@pytest.mark.parametrize("text", ["", "\ud800", "\ude00\ud83d", "😀", "\0", "a\r\nb", "\ufeff"])
def test_texts_that_others_lose_come_back(text: str) -> None:
    assert decode_chunk(encode(text)) == Chunk(text, 0)


def test_the_bytes_are_those_of_the_format() -> None:
    plain = "é".encode()
    assert encode("é") == b"\0\0" + zlib.crc32(b"\0\0" + plain + plain).to_bytes(4, "little") + plain
    assert encode("") == b"\0\0" + zlib.crc32(b"\0\0").to_bytes(4, "little")
    start = bytes([0b1010_1100, 0b0000_0010])  # 300
    assert encode_chunk(Chunk("é", 300)) == (
        start + b"\0" + zlib.crc32(start + b"\0" + plain + plain).to_bytes(4, "little") + plain
    )
    before, crc, payload = encode(PROSE)[:2], encode(PROSE)[2:6], encode(PROSE)[6:]
    assert before == b"\0\1"
    assert crc == zlib.crc32(b"\0\1" + payload + PROSE.encode()).to_bytes(4, "little")
    assert zstandard.frame_content_size(MAGIC + payload) == len(PROSE)


def test_prose_takes_less_than_half_its_length() -> None:
    once = PROSE[: len(PROSE) // 3]
    assert len(encode(once)) < len(once) / 2


def test_a_text_is_never_longer_than_its_bytes_and_six() -> None:
    for text in ("x", "q9!", "日本語", PROSE):
        assert len(encode(text)) <= len(text.encode()) + 6


@pytest.mark.parametrize("chunk", [Chunk(PROSE, 300), Chunk("short", 0), Chunk("", 2**40)])
def test_every_changed_byte_is_found(chunk: Chunk) -> None:
    data = encode_chunk(chunk)
    for at in range(len(data)):
        for other in range(256):
            if other != data[at]:
                with pytest.raises(ValueError, match=r"."):
                    decode_chunk(data[:at] + bytes([other]) + data[at + 1 :])
    for end in range(len(data)):
        with pytest.raises(ValueError, match=r"."):
            decode_chunk(data[:end])
    with pytest.raises(ValueError, match=r"."):
        decode_chunk(data + b"\0")


@given(st.binary())
def test_other_bytes_are_refused_and_nothing_else_happens(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_chunk(data)  # four bytes of it are no checksum, but by a chance of one in 2**32


@given(number=st.integers(1, 2**63 - 1), others=st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**32 - 1)))
def test_a_row_is_read_with_its_own_number_and_checksum_alone(number: int, others: tuple[int, int]) -> None:
    data = encode("short")
    crc = zlib.crc32(number.to_bytes(8, "little") + data)
    assert row_checksum(number, data) == crc
    assert decode_row(number, crc, data) == Chunk("short", 0)
    for row in ((others[0], crc), (number, others[1])):
        if row != (number, crc):
            with pytest.raises(ValueError, match="checksum"):
                decode_row(*row, data)


def signed(codec: int, payload: bytes, plain: bytes) -> bytes:
    """A chunk that starts at 0, with a checksum that matches."""
    before = bytes([0, codec])
    return before + zlib.crc32(before + payload + plain).to_bytes(4, "little") + payload


def test_a_payload_that_unfolds_to_too_much_is_refused() -> None:
    compressor = zstandard.ZstdCompressor()
    large = bytes(MAX_UNFOLDED + 1)
    with pytest.raises(ValueError, match="too long"):
        decode_chunk(signed(1, compressor.compress(large)[4:], large))
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b"abc")
    with pytest.raises(ValueError, match="does not say how long"):
        decode_chunk(signed(1, unsized[4:], b"abc"))
    with pytest.raises(ValueError, match="unknown codec"):
        decode_chunk(signed(2, b"abc", b"abc"))
    with pytest.raises(ValueError, match="utf-8"):
        decode_chunk(signed(0, b"\xff", b"\xff"))


def test_a_text_too_long_to_unfold_is_kept_as_it_is() -> None:
    text = "a" * (MAX_UNFOLDED + 1)
    assert encode(text)[1] == 0
    assert decode_chunk(encode(text)).text == text
    assert encode(text[:-1])[1] == 1
    assert decode_chunk(encode(text[:-1])).text == text[:-1]


@pytest.mark.parametrize("start", [-1, 2**63])
def test_a_start_that_is_no_place_is_refused(start: int) -> None:
    with pytest.raises(ValueError, match="cannot start at"):
        encode_chunk(Chunk("a", start))


def test_many_threads_write_and_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text_codec._dictionary.cache_clear()
    text_codec._parameters.cache_clear()
    start, faults = threading.Barrier(6), []

    def work(number: int) -> None:
        start.wait()
        for round in range(20):
            text = f"{number} {round} {PROSE}"
            if decode_chunk(encode(text)).text != text:
                faults.append(text)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_nothing_is_loaded_before_a_text_is_coded() -> None:
    program = "import sys, mbc_engine.bank; sys.exit('zstandard' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_rows_are_the_same_each_time(made: Any) -> None:
    chunks = [chunk for content in range(9) for chunk in made.chunks(content)]
    assert list(map(encode_chunk, chunks)) == list(map(encode_chunk, chunks))
