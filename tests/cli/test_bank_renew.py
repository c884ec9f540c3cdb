import json
import signal

import pytest

import mbc_engine.ingestion.reencode as engine
from mbc_engine.bank import MemoryBank
from mbc_engine.paper.checkpoint import save_model


@pytest.fixture
def other(tiny, tmp_path_factory):
    """The folder of another tiny model."""
    folder = tmp_path_factory.mktemp("models") / "other"
    overrides = ("gpt2", "bert", "model.codebook.codes=16")
    save_model(tiny.model(*overrides), tiny.config(*overrides), folder)
    return folder


@pytest.fixture
def reencode(mbc, bank, other):
    def run(*arguments):
        return mbc("bank", "reencode", "--bank", bank, "--model", other, "--workers", 0, *arguments)

    return run


def _shape(path):
    with MemoryBank.open(path, read_only=True) as bank:
        return bank.header.shape.num_codes, bank.totals().documents


def test_documents_are_memorised_anew(reencode, bank):
    result = reencode()
    assert result.exit_code == 0
    assert result.stdout.startswith("Re-encoded 2 documents, 2 chunks in ")
    assert _shape(bank) == (16, 2)


def test_stop_keeps_the_old_bank(reencode, bank, monkeypatch):
    work = engine.reencode

    def interrupted(*arguments, **options):
        events = work(*arguments, **options)
        yield next(event for event in events if getattr(event, "chunks", 0) == 1)
        signal.raise_signal(signal.SIGINT)
        yield from events

    with monkeypatch.context() as patch:
        patch.setattr(engine, "BATCH_CHUNKS", 1)
        patch.setattr(engine, "reencode", interrupted)
        result = reencode()
    assert (result.exit_code, result.stdout) == (130, "")
    assert "The bank is unchanged" in result.stderr
    assert _shape(bank) == (8, 2)
    summary = json.loads(reencode("--json").stdout)
    assert (summary["documents"], summary["unchanged"]) == (1, 1)
    assert _shape(bank) == (16, 2)
