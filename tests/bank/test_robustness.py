"""Banks damaged at random or on purpose: every operation ends, at worst in an error that a person can use."""

import collections
import json
import resource
import time
import tracemalloc
import zlib
from contextlib import contextmanager

import numpy as np
import pytest
import zstandard

from mbc_engine.bank import BankHeader, MemoryBank, Selection
from mbc_engine.bank.exchange import merge, remove_with_proof
from mbc_engine.bank.inspection import plain_texts
from mbc_engine.bank.text_codec import MOST_READ
from mbc_engine.bank.verification import verify
from mbc_engine.bank.word_index import WordIndex, read_words, write_words
from mbc_engine.bank.words import WORDS
from mbc_engine.errors import MBCError
from mbc_engine.text import Chunk


@pytest.fixture(scope="module", autouse=True)
def small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BankHeader, "block_chunks", property(lambda header: 60))
        yield


def calls(made, path):
    """Everything that can be done with a bank, reading first."""

    def opened(call, *, read_only=True):
        def run():
            with MemoryBank.open(path, read_only=read_only) as bank:
                call(bank)

        return run

    def lookups(bank):
        total = min(bank.totals().chunks, 10_000)
        bank.codes_at(range(0, total, 7))
        bank.chunks_at(range(0, total, 7))
        if bank.header.keeps_text:
            bank.texts_at(range(0, total, 7))

    def weights(bank):
        if bank.header.keeps_origins:
            chunks = sum(map(len, bank.log_weights(Selection(half_life=3.0, exclude=("/1*",)))))
            assert chunks == bank.totals().chunks

    def merged(bank):
        with made.bank(keeps_origins=bank.header.keeps_origins, keeps_text=bank.header.keeps_text) as good:
            good.put([made.item("/good", 1)])
            list(merge(good, bank))
            lines = made.lines(good)
            assert lines.count(b"\n") == good.totals().documents + 2

    def known(bank):
        for number in range(0, 60, 9):
            bank.knows(made.record(f"/{number}", number))
            bank.parts_of(f"/{number}")
            bank.lookup([(f"/{number}", "")])

    return {
        "totals": opened(lambda bank: (bank.totals(), bank.sizes())),
        "counts": opened(lambda bank: bank.counts()),
        "documents": opened(lambda bank: collections.deque(bank.documents(), 0)),
        "codes": opened(lambda bank: collections.deque((codes for codes, _ in bank.blocks()), 0)),
        "scan": opened(lambda bank: collections.deque(bank.scan(np.ones((2, 3, 2, 5), np.float32)), 0)),
        "weights": opened(weights),
        "lookups": opened(lookups),
        "known": opened(known),
        "whole": opened(lambda bank: collections.deque(bank.documents(whole=True), 0)),
        "export": opened(made.lines),
        "merge": opened(merged),
        "verify": lambda: collections.deque(verify(path), 0),
        "add": opened(lambda bank: bank.put([made.item(f"/{n}", n) for n in (3, 500, 501)]), read_only=False),
        "remove": opened(lambda bank: bank.remove([(f"/{n}", "") for n in range(0, 50, 7)]), read_only=False),
        "drop": opened(lambda bank: bank.remove((), [made.digest(8)]), read_only=False),
        "proof": opened(lambda bank: remove_with_proof(bank, [("/9", "")], []), read_only=False),
        "compact": opened(lambda bank: bank.compact(), read_only=False),
        "add after": opened(lambda bank: bank.put([made.item("/after", 502)]), read_only=False),
    }


def outcomes(made, path, slow=()):
    """How each call ends: in nothing, or in the message of one of our errors."""
    result = {}
    for name, call in calls(made, path).items():
        if name in slow:
            continue
        began = time.process_time()
        try:
            call()
            result[name] = ""
        except MBCError as error:
            assert str(path) in error.message, error.message
            assert error.hint
            result[name] = error.message.replace(str(path), "It")
        assert time.process_time() - began < 10, f"{name} took too long"
    return result


def mutated(data, random):
    """A description of the damage, and the damaged file."""
    changed, page = bytearray(data), 4096
    pages = len(data) // page
    kind = str(random.choice(["bytes", "bits", "header", "truncated", "inserted", "deleted", "zeroed", "swapped"]))
    at = int(random.integers(0, len(data)))
    if kind == "bytes":
        for _ in range(random.integers(1, 20)):
            changed[random.integers(0, len(data))] = random.integers(0, 256)
    elif kind == "bits":
        used = np.flatnonzero(np.frombuffer(data, np.uint8))
        for place in random.choice(used, random.integers(1, 6)):
            changed[place] ^= 1 << int(random.integers(0, 8))
    elif kind == "header":  # of the file, or of a page
        start = 0 if random.integers(0, 2) else int(random.integers(0, pages)) * page
        for _ in range(random.integers(1, 4)):
            changed[start + int(random.integers(0, 100))] = random.integers(0, 256)
    elif kind in ("truncated", "inserted", "deleted"):
        size = int(random.choice([1, 7, page]))
        end = {"truncated": len(data), "inserted": at, "deleted": at + size}[kind]
        changed[at:end] = random.bytes(size) if kind == "inserted" else b""
    elif kind == "zeroed":
        start = int(random.integers(0, pages)) * page
        changed[start : start + page] = bytes(page)
    elif kind == "swapped":
        one, other = (slice(page * int(number), page * int(number) + page) for number in random.integers(0, pages, 2))
        changed[one], changed[other] = data[other], data[one]
    return kind, bytes(changed)


@pytest.fixture(scope="module", params=[True, False])
def good(request, made, tmp_path_factory):
    """The file of a bank without damage, with and without the sources of its documents."""
    path = tmp_path_factory.mktemp("good") / "good.mbc"
    with made.bank(path, keeps_origins=request.param, keeps_text=True) as bank:
        for start in range(0, 120, 30):
            bank.put([made.item(f"/{number}", number, date="2024") for number in range(start, start + 30)])
            bank.put([made.item(f"/copy/{number}", number, "7") for number in range(start, start + 30, 5)])
        bank.remove([(f"/{number}", "") for number in range(3, 120, 11)])
    return path.read_bytes()


def test_mutated_files_raise_clear_errors(made, tmp_path, rounds, good):
    random = np.random.default_rng(0)
    path = tmp_path / "mutated.mbc"
    path.write_bytes(good)
    assert set(outcomes(made, path).values()) == {""}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sound = refused = 0
    for _ in range(rounds(full=1000, reduced=8)):
        kind, changed = mutated(good, random)
        path.write_bytes(changed)
        (tmp_path / "mutated.mbc-wal").unlink(missing_ok=True)
        (tmp_path / "mutated.mbc-shm").unlink(missing_ok=True)
        try:
            *_, last = verify(path)
            damaged = last.damages > 0
        except MBCError:
            damaged = True
        # Starting a process for every file would take most of the time.
        ended = outcomes(made, path, slow=() if random.integers(0, 10) == 0 else ("proof",))
        refused += any(ended.values())
        if not damaged:  # one byte says that only a newer SQLite may write
            sound += 1
            assert set(ended.values()) <= {"", "It cannot be written."}, (kind, ended)
    print(f"{sound} not found damaged by verify, {refused} refused by some call")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 300_000


HUGE = 2**63 - 1
VALUES = {
    "blocks": {
        "chunks": ["'text'", 1.5, HUGE],
        "documents": ["'text'", HUGE],
        "origins": ["'text'"],
        "keys": ["'text'", "x'00'"],
        "digests": ["'text'", "hex(zeroblob(length(digests) / 2))"],
        **{column: ["'text'", "x''"] for column in ("lengths", "described", "texts")},
        "id": ["-id", f"{HUGE} WHERE id = (SELECT max(id) FROM blocks)", f"id + {2**32}"],
    },
    "codes": {"id": [f"id + {2**32}"], "data": ["'text'"]},
    "texts": {"data": ["'text'"], "crc": ["'x'"], "id": ["-id", f"{HUGE} WHERE id = (SELECT max(id) FROM texts)"]},
    "bank": {
        "counts": ["hex(zeroblob(length(counts) / 2))", "zeroblob(240)"],
        "text_bytes": ["'text'"],
        "state_crc": ["x'00'"],
    },
}
DAMAGES = ["DELETE FROM codes", "DELETE FROM texts", "INSERT INTO bank SELECT * FROM bank"] + [
    f"UPDATE {table} SET {column} = {value}"
    for table, columns in VALUES.items()
    for column, values in columns.items()
    for value in values
]


@pytest.mark.parametrize("good", [True], indirect=True)
@pytest.mark.parametrize("damage", DAMAGES)
def test_invalid_values_raise_clear_errors(made, tmp_path, damage, good):
    path = tmp_path / "bank.mbc"
    path.write_bytes(good)
    made.execute(path, damage)
    if "SET id" in damage and "blocks" in damage and str(2**32) not in damage:
        made.execute(path, damage.replace("blocks", "codes"))
    assert any(outcomes(made, path).values())


@pytest.mark.parametrize("good", [True], indirect=True)
@pytest.mark.parametrize("statement", ["DELETE FROM blocks WHERE id = 1", "INSERT INTO bank SELECT * FROM bank"])
def test_missing_and_further_rows_are_noticed_when_opened(made, tmp_path, statement, good):
    path = tmp_path / "bank.mbc"
    path.write_bytes(good)
    made.tampered(path, statement)
    with pytest.raises(MBCError, match="is damaged"), MemoryBank.open(path, read_only=True) as bank:
        list(bank.scan(np.ones((2, 3, 2, 5), np.float32)))


def described(**changes):
    columns = {"sizes": [1], "origins": [1], "sources": ["/1"], "parts": [""], "dates": [None], **changes}
    return json.dumps(columns).encode()


MALICIOUS = {
    "described": [
        described(sources=["\ud800"]),
        described(sizes=[10**300]),
        described(sizes=[-1]),
        described(sources=["/1\0"], parts=["\0"]),
        b"[" * 1_000_000,
        b'{"sizes":' + b"9" * 10_000 + b"}",
        b" " * (1 << 24),
    ],
    "texts": [bytes(1 << 24), b"\xff" * 7 + b"\x7f", bytes(8)],
    "outlines": [b"[" * 1_000_000, b"{}", b'{"titles":[1],"headings":[]}'],
    "lengths": [bytes(1 << 24), b"\xff\xff\xff\xff", bytes(4)],
}


@pytest.mark.parametrize(
    ("column", "number"), [(column, number) for column, several in MALICIOUS.items() for number in range(len(several))]
)
def test_malicious_columns_raise_clear_errors(made, tmp_path, monkeypatch, column, number):
    monkeypatch.setattr("mbc_engine.bank.block._MOST_JSON", 1 << 20)
    path = tmp_path / "bank.mbc"
    with made.bank(path, keeps_text=True) as bank:
        bank.put([made.item("/1", 1)])
    made.tampered(path, f"UPDATE blocks SET {column} = :data", data=zlib.compress(MALICIOUS[column][number]))
    assert made.damages(path)
    outcomes(made, path)


@contextmanager
def less_memory_than(size):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


# What each would expand to has at least 32 MB.
BOMBS = {
    "UPDATE blocks SET described = :data": lambda: zlib.compress(b'{"sizes":[' + b"[]," * (1 << 20) + b"1]}"),
    "UPDATE blocks SET outlines = :data": (
        lambda: zlib.compress(b'{"titles":["' + b"a" * (32 << 20) + b'"],"headings":[]}')
    ),
    "UPDATE blocks SET documents = 8 << 20, lengths = :data": lambda: zlib.compress(bytes(32 << 20)),
    "UPDATE blocks SET documents = 8 << 20, origins = 8 << 20, texts = :data": lambda: zlib.compress(bytes(32 << 20)),
    "UPDATE blocks SET chunks = 16 << 20, lengths = :data": lambda: zlib.compress(bytes([0, 0, 0, 1])),
    "UPDATE bank SET tokens = 65536, levels = 256, num_codes = 65536, counts = :data": (
        lambda: zlib.compress(bytes(32 << 20))
    ),
    "UPDATE texts SET columns = :data": lambda: zlib.compress(bytes(13 << 20)),
    # A bit a chunk, in a file that cannot have their texts.
    "UPDATE blocks SET chunks = 800000, lengths = :data": lambda: zlib.compress(bytes([0, 53, 12, 0])),
    "UPDATE texts SET columns = deflate(x'0100000000000000000e000000'), data = CAST(x'000000' || :data AS BLOB)": (
        lambda: zstandard.ZstdCompressor().compress(bytes(64 << 20))[4:18]
    ),
}


@pytest.mark.parametrize("statement", BOMBS)
def test_small_files_do_not_expand(made, tmp_path, statement):
    path = tmp_path / "bank.mbc"
    with made.bank(path, keeps_text=True) as bank:
        bank.put([made.item("/1", 3)])  # one chunk
    made.tampered(path, statement, data=BOMBS[statement]())
    assert path.stat().st_size < 200_000
    with less_memory_than(16 << 20):
        ended = outcomes(made, path)
    assert "It is damaged." in ended.values()


def test_only_the_beginning_of_a_huge_chunk_is_read(made):
    with made.bank(keeps_text=True) as bank:
        bank.put([made.item("/1", 3, texts=[Chunk("x" * 100_000, 0)])])
        assert plain_texts(bank, [0]) == ["x" * MOST_READ]


def test_repetitive_columns_are_written_so_that_they_can_be_read(made, bank, path):
    """Whatever compresses better than a reader accepts is compressed less."""
    bank.put([made.item(f"/{'a' * 5000}", number, str(number)) for number in range(300)])
    bank.put([made.item("/copies", 1, f"{'b' * 5000}{number}") for number in range(300)])
    assert made.damages(path) == []
    assert bank.totals().origins == 600


def test_words_that_would_expand_too_much_are_refused_and_not_written(monkeypatch):
    """Number 5 is in all chunks, and 3 and 900,000 in few of them."""
    words = np.sort(np.append(WORDS * np.arange(4000) + 5, [3, WORDS + 3, WORDS + 900_000]))
    data = write_words(words, 4000)
    monkeypatch.setattr("mbc_engine.bank.word_index._FEW_WORDS", 10)
    with pytest.raises(ValueError, match="too many words"):
        WordIndex(data, 4000)
    written = write_words(words, 4000)
    assert read_words(written, 4000).tolist() == [3, WORDS + 3, WORDS + 900_000]
