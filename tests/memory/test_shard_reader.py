"""What an actor does with the bank beside it, without a cluster; test_shards.py has the actors."""

from functools import partial
from operator import methodcaller

from mbc_engine import ingest, open_bank
from mbc_engine.errors import BankError
from mbc_engine.shards import ShardReader, _list, _read


def read_packed(part):
    return part.read_codes(lambda packed, chunks: packed)


def test_a_bank_is_read_from_one_snapshot(tiny, tmp_path, folder):
    model = tiny.retriever_reader("Haifa")
    path = tmp_path / "a.mbc"
    with open_bank(model, path) as bank:
        list(ingest(model, bank, [folder]))
        reader, chunks = ShardReader(path), bank.totals().chunks
        assert reader.hold(None) == (chunks, None)
        origin = next(iter(bank.origins()))
        bank.remove([(origin.source, origin.part)])
        assert reader.run(methodcaller("totals"))[0].chunks == chunks > bank.totals().chunks
        assert reader.release(None) == (None, None)
        assert reader.run(methodcaller("totals")) == (bank.totals(), None)
        found, _ = reader.run(partial(_read, "chunks_at"), [0], "localhost:/a.mbc")
        assert [chunk.bank for chunk in found] == ["localhost:/a.mbc"]
        (listed, _), blocks = reader.run(partial(_list, read_packed)), list(bank._each(read_packed))
        assert [(packed, list(lengths)) for packed, lengths in listed] == [
            (packed, list(lengths)) for packed, lengths in blocks
        ]


def test_an_error_comes_back_beside_the_result(tmp_path):
    result, error = ShardReader(tmp_path / "none.mbc").run(methodcaller("totals"))
    assert result is None
    assert isinstance(error, BankError)
