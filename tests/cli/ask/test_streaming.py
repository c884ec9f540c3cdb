"""Answers shown while they are generated, or all at once."""

import pytest

from mbc_engine.lm.base import BaseLM
from mbc_engine.memory import Memory
from tests.cli.ask.conftest import QUESTION


@pytest.fixture
def pieces(monkeypatch):
    """The pieces in which answers are shown."""
    original, seen = Memory.ask, []

    def ask(self, questions, options, *, on_token=None):
        def record(piece):
            seen.append(piece)
            on_token(piece)

        return original(self, questions, options, on_token=on_token and record)

    monkeypatch.setattr(Memory, "ask", ask)
    return seen


def test_an_answer_is_shown_as_it_comes(mbc, bank, model, says, terminal, pieces):
    says("Aa\x1blen")
    result = mbc("ask", QUESTION, "--bank", bank, "--model", model)
    assert pieces == ["Aa\x1b", "l", "en"]
    assert result.stdout.splitlines()[:2] == ["Aa␛len", ""]


@pytest.mark.parametrize("options", [("--beams", 2), ("--min-confidence", 0), ("--json",)], ids=str)
def test_an_answer_that_may_change_is_shown_whole(mbc, bank, calibrated, says, terminal, pieces, options):
    says("Aalen")
    result = mbc("ask", QUESTION, "--bank", bank, "--model", calibrated, *options)
    assert (result.exit_code, pieces) == (0, [])
    assert result.stdout.count("Aalen") >= 1


def test_the_line_ends_when_an_answer_is_stopped(mbc, bank, model, terminal, monkeypatch):
    def generate(self, prefix, questions, *, on_token, **options):
        on_token("Aal")
        raise KeyboardInterrupt

    monkeypatch.setattr(BaseLM, "generate", generate)
    result = mbc("ask", QUESTION, "--bank", bank, "--model", model)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "Aal\n", "Interrupted.\n")


def test_no_answer_is_an_empty_line_in_a_pipe(mbc, bank, model, says):
    says("")
    assert mbc("ask", QUESTION, "--bank", bank, "--model", model).stdout.splitlines()[:2] == ["", ""]


def test_no_answer_is_announced_on_a_terminal(mbc, bank, model, says, terminal, monkeypatch):
    monkeypatch.setattr(BaseLM, "generate", lambda self, prefix, questions, **options: [""])
    assert mbc("ask", QUESTION, "--bank", bank, "--model", model).stdout.startswith("(no answer)\n")
