"""Texts compressed by the language model, from the command line: ingest, compact, info and export."""

import json

import pytest

from tests.text_models import StandIn

STORY = "The river rose in the night. The bridge held. Ada moved to Bergen, and nobody asked why. "
MODULES = ("mbc_engine.memory", "mbc_cli.commands.bank")


@pytest.fixture(autouse=True)
def language_model(monkeypatch):
    model = StandIn(STORY * 2)
    for module in MODULES:
        monkeypatch.setattr(f"{module}.text_model", model.open)
    return model


@pytest.fixture
def bank(ingest, home):
    for number in range(2):
        (home / f"{number}.txt").write_text(f"{number}: {STORY}")
    assert ingest("0.txt", "1.txt", "--bank", "b.mbc", "--text").exit_code == 0
    return home / "b.mbc"


def facts(mbc, bank):
    info = json.loads(mbc("bank", "info", "--bank", bank, "--json").stdout)
    return info["text_model"], info["text_codecs"]["lm"]["texts"], info["text_codecs"]["zstd"]["texts"]


def test_ingest_recodes_texts(bank, ingest, mbc, home):
    (home / "2.txt").write_text(f"2: {STORY}")
    assert ingest("2.txt", "--bank", bank, "--codec", "lm").exit_code == 0
    name, lm_texts, zstd_texts = facts(mbc, bank)
    assert (name, zstd_texts) == ("5eed" * 4, 0)
    assert f"{lm_texts} with language model 5eed" in mbc("bank", "info", "--bank", bank).stdout


def test_compacting_recodes_there_and_back(mbc, bank):
    before = mbc("bank", "export", "--bank", bank).stdout_bytes
    assert json.loads(mbc("bank", "compact", "--bank", bank, "--codec", "lm", "--json").stdout)["path"] == str(bank)
    name, lm_texts, zstd_texts = facts(mbc, bank)
    assert (name, zstd_texts) == ("5eed" * 4, 0)
    assert mbc("bank", "export", "--bank", bank).stdout_bytes == before
    assert mbc("bank", "compact", "--bank", bank, "--codec", "zstd").exit_code == 0
    assert facts(mbc, bank) == (None, 0, lm_texts)
    assert mbc("bank", "export", "--bank", bank).stdout_bytes == before
