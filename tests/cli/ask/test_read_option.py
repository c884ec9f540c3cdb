"""`--read`: known without the engine, checked before a model is loaded."""

import pytest

from mbc_engine.names import READ_MODES
from mbc_engine.paper.reads import READS as ENGINE_READS
from tests.cli.ask.conftest import QUESTION


def test_reads_are_known_without_the_engine():
    assert set(READ_MODES) == set(ENGINE_READS)


@pytest.mark.parametrize("read", ["backwards", "routed:", "routed:x", "routed:-1", ""])
def test_an_unknown_read_is_an_error_before_any_model_is_loaded(mbc, bank, read):
    result = mbc("ask", QUESTION, "--bank", bank, "--model", "no-such-model", "--read", read)
    assert result.exit_code == 2
    assert "Read modes: flat, hierarchical, routed" in result.stderr


def test_every_read_is_in_the_help(mbc, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    help_text = " ".join(mbc("ask", "--help").stdout.replace("│", " ").split())
    for name, words in READ_MODES.items():
        assert f"{name} ({words})" in help_text.replace(":N (", " (")
