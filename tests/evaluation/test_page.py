"""A report as HTML, Markdown and JSON, and untrusted text in each."""

import json
import re
from dataclasses import asdict
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mbc_engine.evaluation import page as page_module
from mbc_engine.evaluation.figures import _bars
from mbc_engine.evaluation.page import in_markdown, in_script, moment, page, write_report
from mbc_engine.evaluation.report import CellReport, Report, read_report
from mbc_engine.evaluation.results import ExperimentFolder
from mbc_engine.evaluation.running import environment
from mbc_engine.evaluation.statistics import Interval
from mbc_engine.evaluation.tables import visible

HOSTILE = "</script><img src=x onerror=alert(1)>\u2028\u2029\x1b[31m\x00\u202e<!--"


@pytest.fixture
def written(make_experiment):
    experiment = make_experiment()
    write_report(experiment)
    return experiment


def test_json_report(written):
    report = json.loads(written.report_json.read_text())
    assert report == json.loads(json.dumps(asdict(read_report(written)[0])))
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
    assert "| **MBC** | **50.0** (48.0 to 52.0) | **50.0** (48.0 to 52.0) | **50.0** | **50.0** | **100.0** |" in text
    assert "| MBC | 400 | 10.0 | 18.0 | 90.0 | 4 kB | 8 kB |" in text
    scaling = text.split("EM by the number of documents")[1].split("###")[0]
    assert "| method | 16 | 64 |" in scaling
    assert "| **MBC** | **50.0** (48.0 to 52.0) | **50.0** (48.0 to 52.0) |" in scaling
    assert "| with reset | 20 | 12.0 (of 16) |" in text
    assert "there are no other documents" in text
    for line in text.splitlines():
        assert not line.startswith("|") or line.endswith("|")


def test_an_empty_experiment_has_a_report(tmp_path):
    experiment = ExperimentFolder(tmp_path)
    with experiment.lock():
        experiment.begin({"title": "Nothing", "bases": [], "datasets": [], "methods": []}, environment(0))
    assert "Nothing" in write_report(experiment).read_text()


def test_figures_are_shown(figures, written):
    text = written.report_html.read_text()
    titles = re.findall(r'<img src="data:image/svg\+xml;base64,[^"]+" alt="([^"]+)"', text)
    assert [title.partition(":")[0] for title in titles] == [
        *("Exact match, % (95% interval)", "F1, % (95% interval)"),
        *["Retention"] * 2,
        *("Memory as the paper counts it", "Memory on disk"),
        *["Scaling"] * 5,
        "Perplexity of code usage, of 16 codes",
    ]
    names = re.findall(r"^!\[.+\]\(figures/(.+)\)$", written.report_markdown.read_text(), re.MULTILINE)
    assert "tiny-quiz-scaling-exact-match-95-interval.svg" in names
    assert sorted(names) == sorted(path.name for path in written.figures.iterdir())


def test_page_without_matplotlib(make_experiment, monkeypatch):
    monkeypatch.setattr(page_module.importlib.util, "find_spec", lambda name: None)
    text = write_report(make_experiment()).read_text()
    assert "<img" not in text
    assert "Figures need matplotlib: pip install" in text


def test_mean_outside_its_interval_is_drawn():
    assert _bars([("mbc", "#1f5fb4", Interval(2 / 3, 2 / 3 + 1e-14, 2 / 3 - 1e-14))]).startswith(b"<?xml")


def test_the_page_fetches_nothing(written):
    page = written.report_html.read_text()
    assert not re.findall(r"""(?:src|href|action)\s*=\s*["'](?!#|data:)""", page)
    assert not re.findall(r"url\(|@import|https?://", page)


def test_no_untrusted_text_is_markup(make_experiment):
    bad = "</script><script>alert(1)</script>\u2028\x1b"
    experiment = make_experiment(title=f"Bad {bad}")
    results = experiment.cell("tiny-quiz").file("mbc", "online").parent
    path = results / "online.predictions.jsonl"
    path.write_text(path.read_text().replace('remembered 1"', json.dumps(f"remembered {bad}")[1:]))
    results.rename(results.with_name(f"mbc {bad[:9].replace('/', '')}"))
    write_report(experiment)
    html, markdown = experiment.report_html.read_text(), experiment.report_markdown.read_text()
    assert html.count("<script") == 2  # the questions and the page's own
    for text in (html, markdown):
        assert "<script>alert" not in text and "\x1b" not in text and "\u2028" not in text


def test_invisible_characters_are_shown():
    assert visible("a\tb\nc\x1b[31m\u202ed\ud800") == "a b↵c<U+001B>[31m<U+202E>d<U+D800>"


@given(st.text(st.characters(codec="utf-8"), min_size=1) | st.just(HOSTILE))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_html_reads_back_as_the_visible_text_alone(text):
    cell = CellReport("c", text, "", (), (), None, (), (), None, None, {})
    origin = {"title": text, "date": "", "command": text, "seed": 0, "environments": (), "settings": {"a": text}}
    read = []
    parser = HTMLParser()
    parser.handle_data = read.append
    parser.feed(page(Report((), (text,), origin, (cell,), ()), {}))
    assert read.count(visible(text)) >= 4
    assert HOSTILE not in read


@given(
    st.recursive(
        st.text() | st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_cannot_end_its_script(value):
    text = in_script(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert not set("<>&") & set(text)


def test_markdown_is_escaped():
    escaped = in_markdown("| `a` *b* [c](http://d) <b> &amp;")
    assert escaped == r"\| \`a\` \*b\* \[c\](http://d) \<b\> \&amp;"


def test_dates_are_readable():
    assert moment("2026-02-03T14:05:06+00:00") == "2026-02-03 14:05:06 UTC"
