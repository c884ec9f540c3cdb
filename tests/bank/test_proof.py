"""Proof of removal: it holds for every removal and reports whatever is left."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import BankHeader, MemoryBank, exchange
from mbc_engine.bank.exchange import Proof, remove_with_proof
from mbc_engine.bank.text_codec import encode_chunk
from mbc_engine.errors import BankBusy
from mbc_engine.text import Chunk


@pytest.fixture
def bank(made, path, monkeypatch):
    monkeypatch.setattr(BankHeader, "block_chunks", property(lambda header: 5))
    with made.bank(path, keeps_text=True) as bank:
        bank.put([made.item(f"/{number}", number) for number in range(8)])
        bank.put([made.item("/copy", 1), made.item("/0", 0, "2")])
        yield bank


SENTENCE = Chunk("Nobody knew in Trondheim why the ferry of 1911 had been painted green and yellow overnight.", 0)


@pytest.mark.parametrize("trace", ["digest", "first half of text", "second half of text"])  # as pages may part it
def test_trace_is_found(made, bank, path, monkeypatch, trace):
    payload = encode_chunk(SENTENCE).payload
    bank.put([made.item("/sentence", 20, codes=made.codes(0), texts=[SENTENCE])])
    bank.checkpoint()
    assert payload in path.read_bytes()
    middle = len(payload) // 2
    left = {"d": bytes.fromhex(made.digest(20)[:32]), "f": payload[:middle], "s": payload[middle:]}[trace[0]]
    monkeypatch.setattr(MemoryBank, "checkpoint", lambda self: path.write_bytes(path.read_bytes() + left))
    result = remove_with_proof(bank, [("/sentence", "")], [])
    assert (result.removed, result.traces, result.holds) == (1, 1, False)


def test_long_text_leaves_no_trace(made, bank, path):
    random = np.random.default_rng(1)
    long = "".join(map(chr, random.integers(0x4E00, 0x9000, 20_000)))
    row = encode_chunk(Chunk(long, 0)).payload
    assert len(row) > 3 * 4096
    bank.put([made.item("/long", 20, codes=made.codes(0), texts=[Chunk(long, 0)])])
    bank.checkpoint()
    pieces = [row[start : start + 20] for start in range(0, len(row), 500)]
    assert sum(piece in path.read_bytes() for piece in pieces) > len(pieces) / 2  # some go on in another page
    assert remove_with_proof(bank, [("/long", "")], []).holds
    assert not any(piece in path.read_bytes() for piece in pieces)


def test_a_difference_is_found(made, bank, monkeypatch):
    monkeypatch.setattr(MemoryBank, "remove", lambda self, names, digests: len(names))
    result = remove_with_proof(bank, [("/4", "")], [])
    assert result.never_seen != result.found
    assert not result.holds


def test_other_writers_wait(made, bank, path, monkeypatch):
    lines = exchange.export

    def export(exported):
        with MemoryBank.open(path) as other, pytest.raises(BankBusy):
            other.put([made.item("/late", 9)])
        return lines(exported)

    monkeypatch.setattr("mbc_engine.bank.database._BUSY_SECONDS", 0.0)
    monkeypatch.setattr(exchange, "export", export)
    assert remove_with_proof(bank, [("/4", "")], []).holds


@given(
    read=st.dictionaries(st.sampled_from([(f"/{n}", p) for n in range(6) for p in ("", "1")]), st.integers(0, 8)),
    names=st.lists(st.tuples(st.sampled_from([f"/{n}" for n in range(6)]), st.sampled_from(["", "1"]))),
    contents=st.lists(st.integers(0, 8), max_size=2),
    keeps_origins=st.booleans(),
)
def test_every_removal_holds(made, tmp_path_factory, read, names, contents, keeps_origins):
    with made.bank(tmp_path_factory.mktemp("proof") / "bank.mbc", keeps_origins=keeps_origins, keeps_text=True) as bank:
        bank.put([made.item(source, content, part) for (source, part), content in read.items()])
        before = made.lines(bank)
        result: Proof = remove_with_proof(bank, names, list(map(made.digest, contents)))
        left = set(read.values()) - set(contents)
        if keeps_origins:
            left = {content for name, content in read.items() if name not in names} - set(contents)
        assert result.holds
        assert result.removed == len(set(read.values())) - len(left)
        assert bank.totals().documents == len(left)
        concerned = set(contents) & set(read.values()) or (keeps_origins and read.keys() & set(names))
        assert (made.lines(bank) == before) == (not concerned)


def test_open_reader_leaves_traces(made, bank, path, tmp_path, monkeypatch):
    monkeypatch.setattr("mbc_engine.bank.database._BUSY_SECONDS", 0.0)
    bank.checkpoint()
    link = tmp_path / "elsewhere" / "link.mbc"
    link.parent.mkdir()
    link.symlink_to(path)
    with MemoryBank.open(link) as other, MemoryBank.open(path, read_only=True) as reader:
        with reader.snapshot():
            assert reader.totals().documents == 8
            result = remove_with_proof(other, [("/4", "")], [])
        assert result.never_seen == result.found
        assert (result.traces, result.holds) == (1, False)  # in the log, which the reader keeps
        other.checkpoint()
        assert bytes.fromhex(made.digest(4)[:32]) not in path.read_bytes()


def test_an_unfinished_reencoding_forgets_too(made, bank, path):
    bank.put([made.item("/sentence", 20, codes=made.codes(0), texts=[SENTENCE])])
    beside = path.with_name(f"{path.name}.reencoding")
    with made.bank(beside, keeps_text=True) as other:
        other.put([made.item("/1", 1), made.item("/sentence", 20, codes=made.codes(0), texts=[SENTENCE])])
    assert remove_with_proof(bank, [("/sentence", "")], []).holds
    with MemoryBank.open(beside) as other:
        assert [document.origin.source for document in other.documents()] == ["/1"]


@pytest.mark.parametrize("end", [".reencoding", ".format5", ".format4.partial"])
def test_traces_in_files_beside_the_bank_are_found(made, bank, path, end):
    bank.checkpoint()
    path.with_name(f"{path.name}{end}").write_bytes(b"not a bank " + bytes.fromhex(made.digest(4)))
    result = remove_with_proof(bank, [("/4", "")], [])
    assert (result.holds, result.traces, result.files) == (False, 1, (f"{path.name}{end}",))
