"""Read a bank without mbc, by docs/bank-format.md alone: its documents, their codes and texts, and the words of chunks.

    python examples/read_bank.py BANK

It needs only zstandard, and `text.dict`, which comes with mbc.
"""

import json
import sqlite3
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

DICTIONARY = Path(__file__).parents[1] / "mbc_engine/bank/text.dict"


class BankDocument(NamedTuple):
    """A document of a bank: its origins as (source, part, date), and of each chunk its codes, its start and its text.

    Without `decode`, the texts that need the language model are None.
    """

    digest: str
    origins: list[tuple[str, str, str | None]]
    codes: list[list[int]]
    texts: list[tuple[int, str | None]]


def documents(file: sqlite3.Connection, decode: Callable[[bytes], str] | None = None) -> Iterator[BankDocument]:
    """Every document of a bank; `decode` turns a payload of the language model into text."""
    assert file.execute("PRAGMA application_id").fetchone()[0] == int.from_bytes(b"mbc\0", "big")
    assert file.execute("PRAGMA user_version").fetchone()[0] == 7
    tokens, levels, num_codes, keeps_origins, keeps_text = file.execute(
        "SELECT tokens, levels, num_codes, keeps_origins, keeps_text FROM bank"
    ).fetchone()
    bits, width = (num_codes - 1).bit_length(), 16 if keeps_origins else 6
    found = texts(file, decode)
    for size, described, digests, lengths, gaps, data in file.execute(
        "SELECT documents, described, digests, lengths, texts, data FROM blocks JOIN codes USING (id) ORDER BY id"
    ):
        chunks = struct.unpack(f"<{size}I", zlib.decompress(lengths))
        firsts = struct.unpack(f"<{size}q", zlib.decompress(gaps)) if keeps_text else ()
        columns: dict[str, list[Any]] = json.loads(zlib.decompress(described)) if keeps_origins else {}
        origins = zip(columns["sources"], columns["parts"], columns["dates"], strict=True) if columns else iter(())
        stream = "".join(format(byte, "08b") for byte in data)
        codes = (int(stream[start : start + bits], 2) for start in range(0, len(stream) - bits + 1, bits))
        number = 0
        for row in range(size):
            number += firsts[row] if keeps_text else 0
            yield BankDocument(
                digests[row * width : (row + 1) * width].hex(),
                [next(origins) for _ in range(columns["origins"][row])] if columns else [],
                [[next(codes) for _ in range(tokens * levels)] for _ in range(chunks[row])],
                [found[number + chunk] for chunk in range(chunks[row])] if keeps_text else [],
            )
            number += chunks[row]


def texts(file: sqlite3.Connection, decode: Callable[[bytes], str] | None) -> dict[int, tuple[int, str | None]]:
    """Where each chunk starts, and its text, by text number."""
    zstd = zstandard.ZstdDecompressor(zstandard.ZstdCompressionDict(DICTIONARY.read_bytes()))
    found: dict[int, tuple[int, str | None]] = {}
    for first, crc, packed, data in file.execute("SELECT id, crc, columns, data FROM texts ORDER BY id"):
        assert crc == zlib.crc32(struct.pack("<q", first) + packed + data)
        columns = zlib.decompress(packed)
        count = len(columns) // 13
        gaps, starts, sizes = (
            [int.from_bytes(columns[begin + at : begin + 4 * count : count], "little") for at in range(count)]
            for begin in (count, 5 * count, 9 * count)
        )
        end, number = 3 * count, first - 1
        for at, codec in enumerate(columns[:count]):
            payload, end, number = data[end : end + sizes[at]], end + sizes[at], number + 1 + gaps[at]
            match codec:
                case 0:
                    text = payload
                case 1:
                    text = zstd.decompress(b"\x28\xb5\x2f\xfd" + payload)
                case _ if decode:
                    text = decode(payload).encode()
                case _:
                    found[number] = starts[at], None
                    continue
            assert data[3 * at : 3 * at + 3] == struct.pack("<I", zlib.crc32(text))[:3]
            found[number] = starts[at], text.decode("utf-8", "surrogatepass")
    return found


def words(data: bytes, chunks: int) -> list[list[int]]:
    """The numbers of the words of each chunk of a block, from `data` of its row of `words`."""
    (total,) = struct.unpack_from("<I", data)
    ranges, numbers = max(1, total // 256), (1 << 20) + 4096
    directory = struct.unpack_from(f"<{2 * ranges}I", data, 4)
    stream = "".join(format(byte, "08b") for byte in data[4 + 8 * ranges :])
    found: list[list[int]] = [[] for _ in range(chunks)]
    shift, before, start = low_bits(directory[-2], numbers), 0, 0
    for at, (end, stop) in enumerate(zip(directory[::2], directory[1::2], strict=True)):
        bits = iter(stream[8 * start : 8 * stop])
        gaps = [zeros(bits) << shift for _ in range(end - before)]
        widths = [zeros(bits) for _ in gaps]
        gaps = [gap + low(bits, shift) for gap in gaps]
        counts = [(1 << width) + low(bits, width) for width in widths]
        shifts = [low_bits(count, chunks) for count in counts for _ in range(count)]
        high = [zeros(bits) << own for own in shifts]
        values = iter([value + low(bits, own) for value, own in zip(high, shifts, strict=True)])
        number, before, start = -(-at * numbers // ranges) - 1, end, stop
        for gap, count in zip(gaps, counts, strict=True):
            number, chunk = number + 1 + gap, -1
            for _ in range(count):
                chunk += 1 + next(values)
                found[chunk].append(number)
    return found


def low_bits(count: int, among: int) -> int:
    """How many low bits a gap has, if `count` of so many are listed."""
    return max(0, (9 * among // (13 * max(1, count))).bit_length() - 1)


def zeros(bits: Iterator[str]) -> int:
    """How many zeros come before the next one."""
    return sum(1 for _ in iter(lambda: next(bits), "1"))


def low(bits: Iterator[str], width: int) -> int:
    """The number in the next bits."""
    return int("0" + "".join(next(bits) for _ in range(width)), 2)


if __name__ == "__main__":
    with closing(sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)) as bank:
        for document in documents(bank):
            print(document.digest, *(source for source, *_ in document.origins))
            for start, text in document.texts:
                print(f"{start:8}: {'under the language model' if text is None else repr(text)}")
