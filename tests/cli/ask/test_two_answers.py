"""The answer that was read in a file, beside the one from memory."""

import json

import pytest

from tests.cli.ask.conftest import QUESTION


def test_of_two_answers_the_one_read_in_a_file_comes_first(mbc, bank, model, notes, says, reads):
    says("Bergen")
    reads("Aalen")
    asking = ("ask", QUESTION, "--bank", bank, "--model", model)
    result = mbc(*asking)
    assert result.stdout.splitlines()[:6] == [
        "Aalen",
        "read in notes/ada.txt",
        "   Ada moved to Aalen in the spring.",
        "Bergen",
        "from memory alone",
        "",
    ]
    assert " · reading " in result.stderr
    told = json.loads(mbc(*asking, "--json").stdout)
    read = {
        "text": "Aalen",
        "path": str(notes / "ada.txt"),
        "part": "",
        "sentence": "Ada moved to Aalen in the spring.",
    }
    assert (told["answer"], told["answers"], told["passages"]) == ("Aalen", {"read": read, "memory": "Bergen"}, 2)


def test_either_answer_can_be_had_alone(mbc, bank, model, says, reads):
    says("Bergen")
    reads("Aalen")
    asking = ("ask", QUESTION, "--bank", bank, "--model", model, "--answer")
    assert mbc(*asking, "memory").stdout.splitlines()[:2] == ["Bergen", ""]
    assert mbc(*asking, "read").stdout.splitlines()[:4] == [
        "Aalen",
        "read in notes/ada.txt",
        "   Ada moved to Aalen in the spring.",
        "",
    ]
    told = json.loads(mbc(*asking, "read", "--json").stdout)
    assert (told["answer"], told["answers"]["memory"], told["gain"], told["origin"]) == ("Aalen", None, None, None)


@pytest.mark.parametrize(
    ("gain", "label"),
    [
        (2.0, "from memory alone, confidence 88%"),
        (0.0, "from memory alone, unsure, confidence 50%"),
        (-2.0, "from the model alone, confidence 11%"),
    ],
)
def test_beside_a_file_the_memory_says_how_sure_it_is(mbc, bank, calibrated, says, reads, gains, gain, label):
    says("Bergen")
    reads("Aalen")
    gains(gain)
    assert mbc("ask", QUESTION, "--bank", bank, "--model", calibrated).stdout.splitlines()[3:5] == ["Bergen", label]


def test_where_no_file_answers_the_memory_does_and_it_is_said(mbc, bank, model, says, reads):
    says("Bergen")
    reads("Cadiz")
    asking = ("ask", QUESTION, "--bank", bank, "--model", model)
    lines = ["Bergen", "from memory alone", "no answer in the files", ""]
    assert mbc(*asking).stdout.splitlines()[:4] == lines
    result = mbc(*asking, "--answer", "read")
    assert (result.exit_code, result.stdout.splitlines()[:2]) == (0, ["", ""])
    assert "no answer in the files" in result.stderr.splitlines()
    assert json.loads(mbc(*asking, "--json").stdout)["answer"] == "Bergen"


def test_without_files_there_is_nothing_to_read(mbc, ingest, notes, model, says, reads):
    says("Bergen")
    reads("Aalen")
    ingest(notes, "--bank", "b.mbc", "--no-sources")
    asking = ("ask", QUESTION, "--bank", "b.mbc", "--model", model)
    lines = ["Bergen", "from memory alone", "no file is there to be read", ""]
    assert mbc(*asking).stdout.splitlines()[:4] == lines
    assert json.loads(mbc(*asking, "--json").stdout)["passages"] == 0
    result = mbc(*asking, "--answer", "read")
    assert (result.exit_code, result.stdout) == (5, "")
    assert "nothing can be read" in result.stderr
    assert "--answer memory" in result.stderr


def test_what_was_read_cannot_command_the_terminal(mbc, ingest, model, says, reads, home):
    says("Bergen")
    reads("Aa\x1b[2Jlen")
    (home / "evil.txt").write_text("Ada moved to Aa\x1b[2Jlen.")
    ingest("evil.txt", "--bank", "b.mbc")
    result = mbc("ask", QUESTION, "--bank", "b.mbc", "--model", model)
    assert result.stdout.splitlines()[:3] == ["Aa␛[2Jlen", "read in evil.txt", "   Ada moved to Aa␛[2Jlen."]
    assert "\x1b" not in result.output


def test_a_model_without_a_reader_reads_with_its_base_lm(mbc, bank, model, says):
    says("Aalen", "Bergen")
    asking = ("ask", QUESTION, "--bank", bank, "--model", model)
    assert mbc(*asking).stdout.splitlines()[:2] == ["Aalen", ""]
    both = ["Bergen", "read in the sources", "Aalen", "from memory alone", ""]
    assert mbc(*asking, "--answer", "both").stdout.splitlines()[:5] == both
    assert mbc(*asking, "--answer", "read", "--sources", 0).stdout.splitlines() == both[:2]
