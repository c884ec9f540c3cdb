"""Confidence of the paper's method: shown with an answer, or a reason to withhold it."""

import json

import pytest

from tests.cli.ask.conftest import QUESTION


@pytest.mark.parametrize(
    ("gain", "probability", "label", "origin"),
    [
        (2.0, "88%", "memory", "from memory"),
        (0.0, "50%", "unsure", "from memory or from the model alone"),
        (-2.0, "11%", "model", "from the model alone"),
    ],
)
def test_a_calibrated_model_says_where_the_answer_comes_from(
    mbc, bank, calibrated, says, gains, gain, probability, label, origin
):
    says("Aalen")
    gains(gain)
    lines = mbc("ask", QUESTION, "--bank", bank, "--model", calibrated).stdout.splitlines()
    assert lines[:3] == ["Aalen", f"{origin} ({probability} likely that the bank holds the answer)", ""]
    answer = json.loads(mbc("ask", QUESTION, "--bank", bank, "--model", calibrated, "--json").stdout)
    assert (answer["gain"], answer["label"], f"{answer['confidence']:.2f}"[2:] in ("88", "50", "12")) == (
        gain,
        label,
        True,
    )


def test_an_unsure_answer_can_be_withheld(mbc, bank, calibrated, says, gains):
    says("Aalen")
    gains(0.0)
    command = ("ask", QUESTION, "--bank", bank, "--model", calibrated, "--min-confidence")
    result = mbc(*command, 0.51)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:3] == ["Not in this memory.", "", "Closest passages:"]
    assert "notes/ada.txt" in result.stdout
    assert "Aalen" not in result.stdout.splitlines()[0]
    answer = json.loads(mbc(*command, 0.51, "--json").stdout)
    assert (answer["answer"], answer["confidence"]) == (None, 0.5)
    assert mbc(*command, 0.5).stdout.startswith("Aalen\n")


def test_a_confidence_that_never_differs_is_not_shown(mbc, bank, always_unsure, says):
    says("Aalen")
    command = ("ask", QUESTION, "--bank", bank, "--model", always_unsure)
    assert mbc(*command).stdout.splitlines()[:2] == ["Aalen", ""]
    assert json.loads(mbc(*command, "--json").stdout)["confidence"] is None
    result = mbc(*command, "--min-confidence", 0.4)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot tell" in result.stderr


@pytest.mark.parametrize("value", ["-0.1", "1.1", "nan"])
def test_confidence_is_a_probability(mbc, bank, value):
    assert mbc("ask", QUESTION, "--bank", bank, "--model", "none", "--min-confidence", value).exit_code == 2
