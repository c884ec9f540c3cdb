"""A report as Markdown and JSON, and untrusted text in it."""

import json

import pytest

from mbc_engine.evaluation.report import CellReport, Report, between, difference, p_value, percent, read_report
from mbc_engine.evaluation.results import ExperimentFolder
from mbc_engine.evaluation.running import environment
from mbc_engine.evaluation.statistics import Interval
from mbc_engine.evaluation.tables import NOTHING, as_json, markdown, mean, seconds, size, write_report

MINUS = "\N{MINUS SIGN}"


@pytest.fixture
def written(make_experiment):
    experiment = make_experiment()
    write_report(experiment)
    return experiment


def test_json_report(written):
    report = json.loads(written.report_json.read_text())
    assert report == json.loads(json.dumps(as_json(read_report(written))))
    assert [*report][:2] == ["verdicts", "cautions"]
    assert [verdict["outcome"] for verdict in report["verdicts"]] == ["unchecked", "yes", "no", "yes"]
    assert report["cells"][0]["rows"][0]["online"]["scores"]["exact_match"] == {
        "value": 50.0,
        "low": 48.0,
        "high": 52.0,
    }


def test_markdown_report(written):
    text = written.report_markdown.read_text()
    assert text.splitlines()[2] == "- ? **The bank of MBC was not checked against a bank of other documents**."
    assert "| MBC | 50.0 (48.0 to 52.0) | 50.0 (48.0 to 52.0) | 50.0 | 50.0 | 100.0 |" in text
    assert "| MBC | 400 | 10.0 | 18.0 (18.0 to 18.0) | 90.0 | 3.3 (0.8 to 6.7) | 4 kB | 8 kB |" in text
    scaling = text.split("EM by the number of documents")[1].split("###")[0]
    assert "| method | 16 | 64 | 120 |" in scaling
    assert "| MBC | 50.0 (48.0 to 52.0) | 50.0 (48.0 to 52.0) | 50.0 (48.0 to 52.0) |" in scaling
    assert "| with reset | 20 | 12.0 (of 16) |" in text
    assert "there are no other documents" in text
    for line in text.splitlines():
        assert not line.startswith("|") or line.endswith("|")


def test_an_empty_experiment_has_a_report(tmp_path):
    experiment = ExperimentFolder(tmp_path)
    with experiment.lock():
        experiment.begin({"title": "Nothing", "bases": [], "datasets": [], "methods": []}, environment(0))
    assert "Nothing" in write_report(experiment).read_text()


def test_untrusted_text_is_no_markup():
    hostile = "| `a` *b* [c](http://d) <b> &amp;\x1b[31m\u202e\u2028\n\ud800"
    origin = {
        "title": hostile,
        "date": "",
        "command": hostile,
        "seed": 0,
        "environments": (),
        "settings": {"a": hostile},
    }
    cell = CellReport("c", hostile, "", (), (), (), (), (), 0, None)
    missing = {"cell": hostile, "stage": hostile, "reason": hostile}
    text = markdown(Report((), (hostile,), origin, (cell,), (missing,)))
    escaped = r"\| \`a\` \*b\* \[c\](http://d) \<b\> \&amp;\<U+001B\>\[31m\<U+202E\>\<U+2028\>↵\<U+D800\>"
    assert text.count(escaped) == 7
    assert hostile.splitlines()[0] not in text


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (difference(1.25), "+1.2"),
        (difference(-0.36), f"{MINUS}0.4"),
        (difference(-0.04), "0.0"),
        (between(Interval(0.0, -0.01, 3.25)), "0.0 to 3.2"),
        (mean(Interval(1.0, 0.5, 2.0)), "1.0 (0.5 to 2.0)"),
        (mean(40.0), "40.0"),
        (p_value(0.0312), "0.031"),
        (p_value(0.0002), "< 0.001"),
        (percent(None), NOTHING),
        (seconds(None), NOTHING),
        (seconds(0), "0 s"),
        (seconds(0.00123), "1.23 ms"),
        (seconds(6.74e-8), "0.0674 µs"),
        (seconds(0.0009999), "1 ms"),
        (seconds(999.7), "1,000 s"),
        (size(None), NOTHING),
        (size(999), "999 B"),
        (size(1_234_567), "1.23 MB"),
        (size(999_600), "1 MB"),
    ],
)
def test_figures_as_readers_see_them(shown, expected):
    assert shown == expected
