"""A block: against the list of documents it stands for, and its columns by hand."""

import json
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import BankHeader, Origin, pack, unpack
from mbc_engine.bank.block import Block, read_block

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ORIGINS = st.builds(Origin, TEXTS, TEXTS, st.one_of(st.none(), TEXTS))
READ = st.lists(ORIGINS, min_size=1, max_size=3, unique_by=lambda origin: origin[:2])
DOCUMENTS = st.lists(st.tuples(st.integers(0, 50), READ), max_size=6)

Documents = list[tuple[int, list[Origin]]]


def header(made: Any, keeps_origins: bool) -> BankHeader:
    return BankHeader(made.signature, made.shape, 4, keeps_origins, False, "2025-01-01T00:00:00+00:00")


def block_of(made: Any, documents: Documents) -> Block:
    block = Block.empty(made.shape)
    for content, origins in documents:
        digest, codes = bytes.fromhex(made.digest(content))[:16], made.codes(content)
        block += Block(
            [digest], [len(codes)], [content], [tuple(sorted(origins, key=lambda origin: origin[:2]))], [0], codes
        )
    return block


def as_list(block: Block) -> list[tuple[bytes, int, int | None, tuple[Origin, ...], list[Any]]]:
    documents = list(block.documents())
    assert [block.document(row) for row in range(len(block))] == documents
    assert sum(document.chunks for document in documents) == len(block.known_codes)
    return [
        (bytes.fromhex(own.digest), own.chunks, own.size, own.origins, [] if own.codes is None else own.codes.tolist())
        for own in documents
    ]


def read(block: Block, header: BankHeader) -> Block:
    """Read back what was written."""
    row = block.row()
    return read_block(row, header, unpack(pack(block.known_codes, header.shape), header.shape, row.chunks))


def test_columns_by_hand(made: Any) -> None:
    documents = [(1, [Origin("/ä", "", None)]), (2, [Origin("/b", "3", "2024"), Origin("/c", "", None)])]
    row = block_of(made, documents).row()
    assert (row.documents, row.origins, row.chunks) == (2, 3, 2 + 3)
    assert row.digests.hex() == made.digest(1)[:32] + made.digest(2)[:32]
    assert zlib.decompress(row.lengths) == bytes([2, 0, 0, 0, 3, 0, 0, 0])
    assert json.loads(zlib.decompress(row.described)) == {
        "sizes": [1, 2],
        "origins": [1, 2],
        "sources": ["/ä", "/b", "/c"],
        "parts": ["", "3", ""],
        "dates": [None, "2024", None],
    }
    keys = sorted(zlib.crc32(text.encode()) for text in ("/ä", "/b", "/c", "/b\x003"))
    assert row.keys == b"".join(number.to_bytes(4, "little") for number in keys)
    numbers = b"".join(number.to_bytes(8, "little") for number in (2, 3, 5))
    assert row.crc == zlib.crc32(numbers + row.keys + row.digests + row.lengths + row.described)


@given(documents=DOCUMENTS)
def test_block_round_trip(made: Any, documents: Documents) -> None:
    block = block_of(made, documents)
    if documents:
        assert as_list(read(block, header(made, True))) == as_list(block)


@given(contents=st.lists(st.integers(0, 50), min_size=1, max_size=6))
def test_block_round_trip_without_origins(made: Any, contents: list[int]) -> None:
    codes = [made.codes(content) for content in contents]
    digests = [bytes.fromhex(made.digest(content))[:6] for content in contents]
    none, lengths = [None] * len(codes), list(map(len, codes))
    block = Block(digests, lengths, none, [()] * len(codes), [0] * len(codes), np.concatenate(codes))
    row = block.row()
    assert (row.described, row.keys, row.origins) == (b"", b"", 0)
    assert as_list(read(block, header(made, False))) == as_list(block)


@given(documents=DOCUMENTS, data=st.data())
def test_where_and_filling(made: Any, documents: Documents, data: st.DataObject) -> None:
    block = block_of(made, documents)
    rows = data.draw(st.sets(st.sampled_from(range(len(documents))))) if documents else set()
    left = [document for row, document in enumerate(documents) if row not in rows]
    assert as_list(block.where(np.array([row not in rows for row in range(len(documents))], np.bool_))) == as_list(
        block_of(made, left)
    )
    start, room = data.draw(st.integers(0, len(documents))), data.draw(st.integers(1, 9))
    end, filled = start, 0
    while end < len(documents) and filled < room:
        filled += len(made.codes(documents[end][0]))
        end += 1
    assert as_list(block.filling(start, room)) == as_list(block_of(made, documents[start:end]))


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": [1, 2]},
        {"sizes": ["1"]},
        {"sizes": [True]},
        {"origins": [0]},
        {"origins": [2]},
        {"origins": "x"},
        {"sources": [None]},
        {"sources": ["\ud800"]},
        {"sources": []},
        {"parts": [1]},
        {"dates": [5]},
        {"dates": []},
    ],
)
def test_inconsistent_columns_are_refused(made: Any, changes: dict[str, Any]) -> None:
    block = block_of(made, [(1, [Origin("/a", "", None)])])
    row = block.row()
    columns = {**json.loads(zlib.decompress(row.described)), **changes}
    changed = row._replace(described=zlib.compress(json.dumps(columns).encode()))
    with pytest.raises((ValueError, TypeError, KeyError)):
        read_block(changed, header(made, True))
