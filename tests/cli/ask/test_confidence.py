"""Answers from memory with their confidence, told or withheld."""

import json

import pytest

from tests.cli.ask.conftest import QUESTION


@pytest.mark.parametrize(
    ("gain", "label"),
    [
        (2.0, "from memory, confidence 88%"),
        (0.0, "unsure, confidence 50%"),
        (-2.0, "from the model alone, confidence 11%"),
    ],
)
def test_a_calibrated_model_says_where_the_answer_comes_from(mbc, bank, calibrated, says, gains, gain, label):
    says("Aalen")
    gains(gain)
    assert mbc("ask", QUESTION, "--bank", bank, "--model", calibrated).stdout.splitlines()[:3] == ["Aalen", label, ""]
    told = json.loads(mbc("ask", QUESTION, "--bank", bank, "--model", calibrated, "--json").stdout)
    assert (told["gain"], told["origin"]) == (gain, {88: "memory", 50: "unsure", 11: "model"}[int(label[-3:-1])])


def test_an_unsure_answer_can_be_withheld(mbc, bank, calibrated, says, gains):
    says("Aalen")
    gains(0.0)
    asking = ("ask", QUESTION, "--bank", bank, "--model", calibrated, "--min-confidence")
    result = mbc(*asking, 0.51)
    assert result.stdout.splitlines()[:2] == ["", ""]
    assert "I do not know (confidence 50%, below 51%)." in result.stderr.splitlines()
    assert "notes/ada.txt" in result.stdout
    told = json.loads(mbc(*asking, 0.51, "--json").stdout)
    assert (told["answer"], told["abstained"]) == (None, True)
    assert told["answers"] == {"read": None, "memory": "Aalen"}
    assert mbc(*asking, 0.5).stdout.startswith("Aalen\n")


def test_an_answer_that_was_read_stands_where_that_from_memory_is_withheld(mbc, bank, calibrated, says, gains):
    says("Aalen", "Bergen")
    gains(0.0)
    asking = ("ask", QUESTION, "--bank", bank, "--model", calibrated, "--answer", "both", "--min-confidence", 0.51)
    assert mbc(*asking).stdout.splitlines()[:4] == [
        "Bergen",
        "read in the sources",
        "from memory alone: I do not know (confidence 50%, below 51%).",
        "",
    ]
    told = json.loads(mbc(*asking, "--json").stdout)
    assert (told["answer"], told["abstained"], told["answers"]["memory"]) == ("Bergen", True, "Aalen")


def test_a_withheld_answer_is_told_in_its_place_on_a_terminal(mbc, bank, calibrated, says, gains, terminal):
    says("Aalen")
    gains(0.0)
    result = mbc("ask", QUESTION, "--bank", bank, "--model", calibrated, "--min-confidence", 0.51)
    assert result.stdout.startswith("I do not know (confidence 50%, below 51%).\n")
    assert "I do not know" not in result.stderr


def test_a_confidence_that_never_differs_is_not_told(mbc, bank, always_unsure, says):
    says("Aalen")
    asking = ("ask", QUESTION, "--bank", bank, "--model", always_unsure)
    assert mbc(*asking).stdout.splitlines()[:3] == ["Aalen", "unsure", ""]
    result = mbc(*asking, "--min-confidence", 0.4)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot tell" in result.stderr


def test_confidence_is_known_for_the_models_own_read_alone(mbc, bank, calibrated, says):
    says("Aalen")
    asking = ("ask", QUESTION, "--bank", bank, "--model", calibrated, "--min-confidence", 0, "--read")
    result = mbc(*asking, "routed")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "calibrated for its own read, flat, not for routed." in result.stderr
    assert mbc(*asking, "flat").exit_code == 0


def test_confidence_needs_a_calibrated_model(mbc, bank, model):
    result = mbc("ask", QUESTION, "--bank", bank, "--model", model, "--min-confidence", 0.5)
    assert result.exit_code == 2
    assert "mbc calibrate" in result.stderr


@pytest.mark.parametrize("value", ["-0.1", "1.1", "nan"])
def test_confidence_is_a_probability(mbc, bank, value):
    assert mbc("ask", QUESTION, "--bank", bank, "--model", "none", "--min-confidence", value).exit_code == 2


def test_a_confidence_for_no_answer_is_an_error_before_any_model_is_loaded(mbc, bank):
    asking = ("ask", QUESTION, "--bank", bank, "--model", "no-such-model", "--answer", "read", "--min-confidence", 0.5)
    assert mbc(*asking).exit_code == 2
