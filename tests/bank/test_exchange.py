"""Merges, exports, imports and whole replacements; that order and detours change nothing is tested in test_histories."""

import base64
import io
import json

import numpy as np
import pytest

from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature, StoredDocument, database, exchange
from mbc_engine.bank.exchange import export, import_lines, merge, replace_content
from mbc_engine.errors import BankError, DataError, ModelMismatch
from mbc_engine.events import Progressed


def text(data):
    return base64.b64encode(data).decode()


@pytest.fixture
def lines(made):
    """An export of two documents as objects: the head, a document each, the counts."""
    with made.bank(keeps_text=True) as bank:
        bank.put([made.item("/a", 1), made.item("/b", 2, "7", "2024-05-31"), made.item("/c", 2)])
        return [json.loads(line) for line in export(bank)]


def test_export_reports_progress(made, monkeypatch):
    monkeypatch.setattr(exchange, "_DECODE_BATCH", 4)
    read: list[int] = []
    with made.bank(keeps_text=True) as bank:
        bank.put([made.item(f"/{content}", content) for content in range(5)])
        assert [document.chunks for document in bank.documents()] == [1, 2, 3, 1, 2]
        assert list(export(bank, on_read=read.append)) == list(export(bank))
    assert read == [3, 5]


def test_export_of_endless_texts_ends(made, monkeypatch):
    monkeypatch.setattr(exchange, "_EXPORTED", 1000)
    monkeypatch.setattr(exchange, "_EXPORTED_PER_STORED", 0)
    with made.bank(keeps_text=True) as bank:
        bank.put([made.item(f"/{content}", content) for content in range(9)])
        with pytest.raises(BankError, match="damaged"):
            list(export(bank))


def written(lines):
    return [json.dumps(line).encode() + b"\n" for line in lines]


def test_truncated_export_imports_nothing(made, lines, path):
    with made.bank(path) as bank:
        bank.put([made.item("/z", 9)])
        before = made.lines(bank)
        data = b"".join(written(lines))
        for end in range(0, len(data) - 2, 7):
            with pytest.raises(DataError):
                list(import_lines(io.BytesIO(data[:end]), path))
        assert made.lines(bank) == before
        assert made.damages(path) == []


def test_a_failed_import_leaves_no_new_bank(lines, path):
    path.parent.mkdir()
    for wrong, message in ((lines[:-1], "incomplete"), (lines * 2, "lines follow the counts")):
        path.touch()  # as good as none
        with pytest.raises(DataError, match=message):
            list(import_lines(written(wrong), path))
        assert not path.exists()


def test_failed_import_keeps_a_bank_in_use(made, lines, path, monkeypatch):
    monkeypatch.setattr(exchange, "_BATCH", 1)
    events = import_lines(written(lines), path)
    next(events)
    with MemoryBank.open(path) as other:
        events.close()
        other.put([made.item("/c", 3)])
    with MemoryBank.open(path) as bank:
        assert bank.totals().documents == 1


def change(lines, line, **changes):
    return [{**content, **changes} if number == line else content for number, content in enumerate(lines)]


SHAPE = {"tokens": 3, "levels": 2, "num_codes": 5, "per_position": True}
INVALID = {
    (0, "format"): ["mbc-bank-export-3", None],
    (0, "model"): [None, {"name": "\ud800", "amortizer": "a", "codebook": "b"}],
    (0, "codes"): [SHAPE | change for change in ({"tokens": 3.0}, {"per_position": "x"}, {"tokens": 0})],
    (0, "origins"): ["yes"],
    (0, "texts"): ["yes"],
    (0, "dim"): [0, 4.0, 10**400],
    (1, "digest"): ["x" * 32, "", None],
    (1, "size"): [None, 1.5, -1, 1 << 63],
    (1, "origins"): [
        [],
        [{"source": "/a"}],
        *([{"source": source, "part": "", "date": None}] for source in (1, "\ud800")),
        *([{"source": "/a", "part": "", "date": date}] for date in (2024, "foo", "2024-05", "2024-05-31T10:00")),
    ],
    (1, "chunks"): [0, 3, 2.0, 10**400],
    (1, "texts"): [
        [[0, "a"], *more]
        for more in ([], [[1]], [[1, 2]], [["1", "b"]], [[True, "b"]], [[1 << 63, "b"]], [[1, "b" * 200_000]])
    ],
    (1, "codes"): ["", "AA", text(b"\xff" * 5)],
    (3, "documents"): [1],
    (3, "counts"): [None, text(bytes(240))],
}


@pytest.mark.parametrize(
    ("line", "key", "value"), [(*place, value) for place, values in INVALID.items() for value in values]
)
def test_invalid_line_is_named(lines, path, line, key, value):
    with pytest.raises(DataError, match=f"Line {line + 1} is not a valid line of a bank export") as caught:
        list(import_lines(written(change(lines, line, **{key: value})), path))
    assert caught.value.hint
    assert not path.exists()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"origins": False}, BankError, "does not record where"),
        ({"texts": False}, BankError, "does not keep the text"),
        ({"codes": SHAPE | {"num_codes": 4096}}, DataError, "different shape"),
        ({"codes": SHAPE | {"per_position": False}}, DataError, "different shape"),
        ({"model": {"name": "mini", "amortizer": "aa" * 8, "codebook": "cc" * 8}}, ModelMismatch, "aaaaaaaa-cccccccc"),
    ],
)
def test_import_into_other_kind_is_refused(made, path, lines, changes, error, message):
    with made.bank(path, keeps_text=True):
        pass
    with pytest.raises(error, match=message):
        list(import_lines(written(change(lines, 0, **changes)), path))


@pytest.mark.parametrize(
    ("missing", "message"), [("origins", "does not record where its documents"), ("text", "does not keep the text")]
)
def test_merge_may_drop_but_not_invent(made, missing, message):
    def new(**kind):
        return made.bank(**{"keeps_text": True} | kind)

    without = {f"keeps_{missing}": False}
    with new() as full, new(**without) as bare, new(**without) as expected:
        documents = [made.item("/a", 1), made.item("/b", 1), made.item("/c", 2)]
        full.put(documents)
        expected.put(documents)
        list(merge(bare, full))
        before = made.lines(full)
        assert made.lines(bare) == made.lines(expected) != before
        with pytest.raises(BankError, match=message) as caught:
            list(merge(full, bare))
        assert caught.value.hint
        assert made.lines(full) == before


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_abandoned_merge_changes_nothing(made, monkeypatch, batch):
    monkeypatch.setattr(exchange, "_BATCH", batch)
    with made.bank() as bank, made.bank() as other:
        bank.put([made.item("/a", 1)])
        other.put([made.item(f"/{number}", number) for number in range(2, 8)])
        before = made.lines(bank)
        events = merge(bank, other)
        assert next(events) == Progressed("copy documents", batch, 6)
        events.close()
        assert made.lines(bank) == before
        assert list(merge(bank, other))[-1] == Progressed("copy documents", 6, 6)
        assert np.array_equal(bank.counts(), made.counts(range(1, 8)))


OTHER = ModelSignature("other", "cc" * 8, "dd" * 8)


@pytest.fixture
def replaced(made, path):
    """The path of a bank of two documents."""
    with made.bank(path) as bank:
        bank.put([made.item("/a", 1), made.item("/b", 2)])
    return path


@pytest.fixture
def new(tmp_path):
    """The path of a bank of another model and shape, with one document."""
    path = tmp_path / "100% new.mbc"
    with MemoryBank.create(path, OTHER, CodeShape(2, 1, 9, False), 2, keeps_origins=False) as bank:
        bank.put([StoredDocument("ab" * 32, 1, None, (), np.full((1, 2, 1), 8))])
    return path


def test_all_content_is_replaced(made, replaced, new, monkeypatch):
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.0)

    def write():
        with MemoryBank.open(replaced) as other, pytest.raises(BankError, match="written by another process"):
            other.put([made.item("/c", 3)])

    with MemoryBank.open(replaced, read_only=True) as reader:
        with reader.snapshot():
            before = made.lines(reader)
            replace_content(replaced, new, check=write)
            assert made.lines(reader) == before
        with pytest.raises(BankError, match="was replaced by another bank"), reader.snapshot():
            reader.counts()
        with pytest.raises(BankError, match="was replaced by another bank"):
            list(reader.documents())
    assert made.damages(replaced) == []
    with MemoryBank.open(replaced) as bank, MemoryBank.open(new) as source:
        assert bank.header.signature == OTHER
        assert made.lines(bank) == made.lines(source)
        bank.put([])


def test_refused_replacement_changes_nothing(replaced, new, tmp_path):
    before = replaced.read_bytes()
    (tmp_path / "text").write_text("not a bank")
    for other, words in ((tmp_path / "none", "No bank"), (tmp_path / "text", "is not a bank"), (tmp_path, "folder")):
        with pytest.raises(BankError, match=words):
            replace_content(replaced, other)

    def refuse():
        raise BankError("was given documents meanwhile")

    with pytest.raises(BankError, match="meanwhile"):
        replace_content(replaced, new, check=refuse)
    assert replaced.read_bytes() == before
