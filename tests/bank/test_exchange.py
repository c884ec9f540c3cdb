"""Exports byte for byte, and imports of invalid files."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbc_engine.bank import MemoryBank, exchange, export, import_lines
from mbc_engine.errors import BankError, DataError, MBCError, ModelMismatch
from mbc_engine.events import Progressed


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture
def lines(made: Any) -> list[dict[str, Any]]:
    """An export of two documents as objects: the head, a document each, the counts."""
    with made.bank(keeps_text=True) as bank:
        bank.put([made.item("/a", 1), made.item("/b", 2, "7", "2024"), made.item("/c", 2)])
        return [json.loads(line) for line in export(bank)]


def test_export_reports_progress(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_DECODE_BATCH", 4)
    read: list[int] = []
    with made.bank(keeps_text=True) as bank:
        bank.put([made.item(f"/{content}", content) for content in range(5)])
        assert [document.chunks for document in bank.documents()] == [1, 2, 3, 1, 2]
        assert list(export(bank, on_read=read.append)) == list(export(bank))
    assert read == [3, 5]


def written(lines: list[Any]) -> list[bytes]:
    return [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]


def test_export_lines(made: Any) -> None:
    with made.bank(keeps_text=True) as bank:
        bank.put([made.item("/ä", 1), made.item("/b", 2, "7", "2024"), made.item("/c", 2)])
        lines = b"".join(export(bank)).decode().split("\n")
    assert lines.pop() == ""
    digests = sorted(made.digest(content)[:32] for content in (1, 2))
    assert digests[0] == made.digest(1)[:32]
    expected = [
        {
            "format": "mbc-bank-export-2",
            "model": {"name": "mini", "amortizer": "aa" * 8, "codebook": "bb" * 8},
            "codes": {"tokens": 3, "levels": 2, "num_codes": 5, "per_position": True},
            "dim": 4,
            "origins": True,
            "texts": True,
        },
        {
            "digest": digests[0],
            "size": 101,
            "origins": [{"source": "/ä", "part": "", "date": None}],
            "chunks": 2,
            "codes": text(made.codes(1).astype("<u2").tobytes()),
            "texts": [[0, "Ä"], [200, "1"]],
        },
        {
            "digest": digests[1],
            "size": 102,
            "origins": [
                {"source": "/b", "part": "7", "date": "2024"},
                {"source": "/c", "part": "", "date": None},
            ],
            "chunks": 3,
            "codes": text(made.codes(2).astype("<u2").tobytes()),
            "texts": [[0, ""], [400, "\ud83d", "\ude00 \ud8002"], [800, "日本語" * 50 + "2"]],
        },
        {"documents": 2, "chunks": 5, "counts": text(made.counts([1, 2]).astype("<i8").tobytes())},
    ]
    assert lines == [json.dumps(line, separators=(",", ":")) for line in expected]


def test_import_requires_texts_if_kept(made: Any, lines: list[Any], path: Path) -> None:
    with made.bank(path) as bank:
        list(import_lines(written(lines), path))
        assert bank.totals().documents == 2
        bare = list(export(bank))
    other = path.with_name("other.mbc")
    made.bank(other, keeps_text=True).close()
    with pytest.raises(BankError, match="The export does not keep the text"):
        list(import_lines(bare, other))


def test_large_exports_are_sorted_on_the_disk(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with made.bank() as bank:
        bank.put([made.item(f"/{number}", number) for number in range(50)])
        at_once = made.lines(bank)
        assert [json.loads(line)["digest"] for line in at_once.splitlines()[1:-1]] == sorted(
            made.digest(number)[:32] for number in range(50)
        )
        monkeypatch.setattr(exchange, "_SHARE_BYTES", 1)
        for shares in (1, 7, 256):
            monkeypatch.setattr(exchange, "_SHARES", shares)
            assert made.lines(bank) == at_once


def test_import_creates_or_extends_a_bank(made: Any, path: Path) -> None:
    with made.bank() as other:
        other.put([made.item("/a", 1), made.item("/b", 2)])
        lines = list(export(other))
    for _ in range(2):
        assert list(import_lines(lines, path)) == [Progressed("copy documents", 2, 2)]
        with MemoryBank.open(path) as bank:
            assert list(export(bank)) == lines
    with MemoryBank.open(path) as bank:
        bank.put([made.item("/a", 3)])
        list(import_lines(lines, path))
        assert list(export(bank)) == lines


def test_import_into_other_kind_is_refused(made: Any, path: Path, lines: list[Any]) -> None:
    with made.bank(path):
        pass
    with pytest.raises(BankError, match="The export does not record where"):
        list(import_lines(written([{**lines[0], "origins": False}, *lines[1:]]), path))
    lines[0]["model"]["codebook"] = "cc" * 8
    with pytest.raises(ModelMismatch):
        list(import_lines(written(lines), path))


def change(lines: list[Any], line: int, **changes: Any) -> list[Any]:
    return [{**content, **changes} if number == line else content for number, content in enumerate(lines)]


HEADS = [
    {"format": "mbc-bank-export-3"},
    {"format": None},
    {"model": None},
    {"model": {"name": "\ud800", "amortizer": "a", "codebook": "b"}},
    {"codes": {"tokens": 3.0, "levels": 2, "num_codes": 5, "per_position": True}},
    {"codes": {"tokens": 3, "levels": 2, "num_codes": 5, "per_position": "x"}},
    {"codes": {"tokens": 0, "levels": 2, "num_codes": 5, "per_position": True}},
    {"origins": "yes"},
    {"texts": "yes"},
    {"dim": 0},
    {"dim": 4.0},
    {"dim": 10**400},
]
DOCUMENTS = [
    {"digest": "x" * 32},
    {"digest": ""},
    {"digest": None},
    {"size": None},
    {"size": 1.5},
    {"origins": []},
    {"origins": [{"source": "/a"}]},
    {"origins": [{"source": 1, "part": "", "date": None}]},
    {"origins": [{"source": "\ud800", "part": "", "date": None}]},
    {"origins": [{"source": "/a", "part": "", "date": 2024}]},
    {"chunks": 0, "codes": ""},
    {"chunks": 3},
    {"chunks": 2.0},
    {"chunks": 10**400},
    {"texts": [[0, "a"]]},
    {"texts": [[0, "a"], [1]]},
    {"texts": [[0, "a"], [1, 2]]},
    {"texts": [[0, "a"], ["1", "b"]]},
    {"texts": [[0, "a"], [True, "b"]]},
    {"texts": [[0, "a"], [-1, "b"]]},
    {"texts": [[0, "a"], [1 << 63, "b"]]},
    {"codes": "AA"},
    {"codes": text(b"\xff" * 5)},
]
LASTS = [
    {"documents": 1},
    {"counts": None},
    {"counts": text(bytes(240))},
]


@pytest.mark.parametrize(
    ("line", "changes"),
    [*((0, changes) for changes in HEADS), *((1, changes) for changes in DOCUMENTS), *((-1, last) for last in LASTS)],
)
def test_invalid_line_is_named(lines: list[Any], path: Path, line: int, changes: dict[str, Any]) -> None:
    place = line % len(lines)
    with pytest.raises(DataError, match=f"Line {place + 1} is not a valid line of a bank export") as caught:
        list(import_lines(written(change(lines, place, **changes)), path))
    assert caught.value.hint
    assert not path.exists()


def test_truncated_export_imports_nothing(made: Any, lines: list[Any], path: Path) -> None:
    with made.bank(path) as bank:
        bank.put([made.item("/z", 9)])
        before = made.lines(bank)
        data = b"".join(written(lines))
        for end in range(0, len(data) - 2, 7):
            with pytest.raises(DataError):
                list(import_lines(io.BytesIO(data[:end]), path))
        assert made.lines(bank) == before
        assert made.damages(path) == []


def test_mutated_exports(made: Any, tmp_path: Path, rounds: Any) -> None:
    random = np.random.default_rng(5)
    with made.bank() as other:
        other.put([made.item(f"/{number}", number, date="2024-01-01") for number in range(12)])
        data = made.lines(other)
    path = tmp_path / "imported.mbc"
    taken = 0
    for _ in range(rounds(full=3000, reduced=150)):
        changed = bytearray(data)
        for _ in range(random.integers(1, 4)):
            kind, at = random.integers(0, 5), int(random.integers(0, len(changed)))
            if kind == 0:
                changed[at] = random.integers(0, 256)
            elif kind == 1:
                changed[at] = random.choice(list(b'0123456789"[]{},:enul-.\\'))
            elif kind == 2:
                del changed[at : at + random.integers(1, 50)]
            elif kind == 3:
                changed[at:at] = random.bytes(random.integers(1, 20))
            else:
                start = int(random.integers(0, len(changed)))
                changed[at:at] = changed[start : start + random.integers(1, 200)]
        try:
            list(import_lines(io.BytesIO(bytes(changed)), path))
        except MBCError:
            assert not path.exists()
        else:
            taken += 1
            assert made.damages(path) == []
            path.unlink()
    assert taken < rounds(full=3000, reduced=150) // 2


def test_codes_of_another_shape_are_refused(made: Any, lines: list[Any], path: Path) -> None:
    with made.bank(path):
        for key, value in (("num_codes", 4096), ("per_position", not lines[0]["codes"]["per_position"])):
            with pytest.raises(DataError, match="different shape"):
                list(import_lines(written(change(lines, 0, codes=lines[0]["codes"] | {key: value})), path))


def test_failed_import_keeps_a_bank_in_use(
    made: Any, lines: list[Any], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_BATCH", 1)
    events = import_lines(written(lines), path)
    next(events)
    with MemoryBank.open(path) as other:
        events.close()
        other.put([made.item("/c", 3)])
    with MemoryBank.open(path) as bank:
        assert bank.totals().documents == 1


def test_lines_after_the_counts_are_refused(lines: list[Any], path: Path) -> None:
    with pytest.raises(DataError, match="lines follow the counts"):
        list(import_lines([*written(lines), *written(lines)], path))
    assert not path.exists()
