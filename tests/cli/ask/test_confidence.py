"""Answers of a model of the paper's method with their confidence, told or withheld."""

import json

import pytest

from tests.cli.ask.conftest import QUESTION


@pytest.mark.parametrize(
    ("gain", "likely", "label", "told"),
    [
        (2.0, "88%", "memory", "from memory"),
        (0.0, "50%", "unsure", "from memory or from the model alone"),
        (-2.0, "11%", "model", "from the model alone"),
    ],
)
def test_a_calibrated_model_says_where_the_answer_comes_from(
    mbc, bank, calibrated, says, gains, gain, likely, label, told
):
    says("Aalen")
    gains(gain)
    lines = mbc("ask", QUESTION, "--bank", bank, "--model", calibrated).stdout.splitlines()
    assert lines[:3] == ["Aalen", f"{told} ({likely} likely that the bank holds the answer)", ""]
    found = json.loads(mbc("ask", QUESTION, "--bank", bank, "--model", calibrated, "--json").stdout)
    assert (found["gain"], found["label"], f"{found['confidence']:.2f}"[2:] in ("88", "50", "12")) == (
        gain,
        label,
        True,
    )


def test_an_unsure_answer_can_be_withheld(mbc, bank, calibrated, says, gains):
    says("Aalen")
    gains(0.0)
    asking = ("ask", QUESTION, "--bank", bank, "--model", calibrated, "--min-confidence")
    result = mbc(*asking, 0.51)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:3] == ["Not in this memory.", "", "Closest passages:"]
    assert "notes/ada.txt" in result.stdout
    assert "Aalen" not in result.stdout.splitlines()[0]
    told = json.loads(mbc(*asking, 0.51, "--json").stdout)
    assert (told["answer"], told["confidence"]) == (None, 0.5)
    assert mbc(*asking, 0.5).stdout.startswith("Aalen\n")


def test_a_confidence_that_never_differs_is_not_told(mbc, bank, always_unsure, says):
    says("Aalen")
    asking = ("ask", QUESTION, "--bank", bank, "--model", always_unsure)
    assert mbc(*asking).stdout.splitlines()[:2] == ["Aalen", ""]
    assert json.loads(mbc(*asking, "--json").stdout)["confidence"] is None
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
