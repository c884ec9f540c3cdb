import json
import signal
import sqlite3

import pytest

import mbc_engine.ingestion.reencode as engine
from mbc_engine.bank import MemoryBank
from mbc_engine.paper.checkpoint import load_model, save_model, signature


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


@pytest.fixture
def old(home, model):
    """An empty bank of the tiny model as the first version of mbc wrote it."""
    path, wrote = home / "old.mbc", signature(load_model(model))
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA application_id = {int.from_bytes(b'mbc' + bytes(1), 'big')}")
        connection.execute("PRAGMA user_version = 1")
        connection.execute(
            "CREATE TABLE bank "
            "(model, amortizer, codebook, tokens, levels, num_codes, per_position, dim, created, counts)"
        )
        connection.execute(
            "INSERT INTO bank VALUES (?, ?, ?, 4, 1, 8, 0, 24, '2026-01-01T00:00:00+00:00', ?)",
            (wrote.name, wrote.amortizer, wrote.codebook, bytes(64)),
        )
        connection.execute("CREATE TABLE documents (id INTEGER PRIMARY KEY, source, digest, size, date, chunks, codes)")
    connection.close()
    return path


def _shape(path):
    with MemoryBank.open(path, read_only=True) as bank:
        return bank.header.shape.num_codes, bank.totals().documents


def test_documents_are_memorised_anew(reencode, bank):
    shown = reencode()
    assert shown.exit_code == 0
    assert shown.stdout.startswith("Memorised anew 2 documents, 2 chunks in ")
    assert _shape(bank) == (16, 2)


def test_reencoding_as_json(reencode, bank):
    told = json.loads(reencode("--json").stdout)
    assert (told["documents"], told["skipped"], told["bank"]["path"]) == (2, [], str(bank))


def test_a_missing_file_keeps_the_old_bank(reencode, bank, notes):
    (notes / "ada.txt").unlink()
    result = reencode()
    assert result.exit_code == 5
    assert "notes/ada.txt is gone" in result.output
    assert "--drop-missing" in result.stderr
    assert _shape(bank) == (8, 2)


def test_missing_files_can_be_let_go(reencode, bank, notes):
    (notes / "ada.txt").unlink()
    assert reencode("--drop-missing").exit_code == 0
    assert _shape(bank) == (16, 1)


def test_a_stop_leaves_the_old_bank_and_the_work_done(reencode, bank, monkeypatch):
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
    told = json.loads(reencode("--json").stdout)
    assert (told["documents"], told["unchanged"]) == (1, 1)
    assert _shape(bank) == (16, 2)


def test_a_stop_during_the_replacement_comes_too_late(reencode, bank, monkeypatch):
    replace = engine.replace_content

    def interrupted(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        replace(*arguments, **options)

    monkeypatch.setattr(engine, "replace_content", interrupted)
    result = reencode()
    assert result.exit_code == 0
    assert result.stdout.startswith("Memorised anew 2 documents")
    assert "The bank is unchanged" not in result.stderr
    assert _shape(bank) == (16, 2)


@pytest.mark.parametrize("command", ["reencode", "upgrade"])
def test_a_missing_bank_is_an_error_before_any_model_is_loaded(mbc, command):
    result = mbc("bank", command, "--bank", "none.mbc", "--model", "no-such-model")
    assert result.exit_code == 5
    assert "none.mbc" in result.stderr


def test_an_old_bank_is_brought_up_to_date(mbc, old, model):
    told = mbc("bank", "info", "--bank", old)
    assert told.exit_code == 5
    assert f"mbc bank upgrade --bank {old}" in told.stderr
    upgraded = mbc("bank", "upgrade", "--bank", old, "--model", model).stdout
    assert "is now up to date" in upgraded
    assert "the next `mbc ingest` reads them again" in " ".join(upgraded.split())
    assert mbc("bank", "info", "--bank", old).exit_code == 0
    again = mbc("bank", "upgrade", "--bank", old, "--model", model, "--json").stdout
    assert json.loads(again) == {"path": str(old), "upgraded": False}


def test_an_old_bank_of_another_model_stays_and_can_be_reencoded(mbc, old, other, notes):
    with sqlite3.connect(old) as connection:
        connection.execute(
            "INSERT INTO documents (source, digest, size, chunks, codes) VALUES (?, ?, 9, 1, ?)",
            (str(notes / "ada.txt"), "ab" * 32, bytes(2)),
        )
    connection.close()
    result = mbc("bank", "upgrade", "--bank", old, "--model", other)
    assert result.exit_code == 4
    assert "mbc bank reencode" in result.stderr
    assert "older mbc" in mbc("bank", "info", "--bank", old).stderr
    assert mbc("bank", "reencode", "--bank", old, "--model", other, "--workers", 0).exit_code == 0
    assert _shape(old) == (16, 1)
