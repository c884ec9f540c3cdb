"""A report in its folder, in all its formats."""

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict

import pytest

from mbc_engine.errors import ConfigError, DataError
from mbc_engine.evaluation.results import ExperimentFolder
from mbc_engine.evaluation.statistics import Interval
from mbc_engine.experiments import page
from mbc_engine.experiments.page import _bars, write_report
from mbc_engine.experiments.report import NOTHING, read_report
from mbc_engine.experiments.tables import provenance


@pytest.fixture
def written(make_experiment):
    folder = make_experiment()
    write_report(folder)
    return folder


def test_the_report_holds_what_the_folder_holds(make_experiment):
    report = read_report(make_experiment())[0]
    assert (report.origin["title"], report.origin["seed"], report.origin["command"]) == (
        "A quiz",
        3,
        "mbc eval --run run",
    )
    (cell,) = report.cells
    assert (cell.title, cell.leader) == ("Tiny LM on Quiz", "mbc")
    rows = {row.method: row for row in cell.rows}
    assert [*rows] == ["mbc", "uniform", "closed-book", "mbc-empty"]
    assert rows["uniform"].rate == 2.5e-05
    assert rows["mbc"].retention[1].retained == 90.0
    assert rows["mbc"].online.scores.first_source == 50.0 and rows["uniform"].online.scores.first_source is None
    assert cell.code_usage.codes == 16


def test_only_stages_that_are_still_missing_are_listed(make_experiment):
    (missing,) = read_report(make_experiment())[0].missing
    assert (missing["stage"], missing["reason"]) == ("mbc-wrong online", "there are no other documents")


def test_what_is_read_is_what_the_folder_holds_now(written):
    """Not an earlier report of it, whatever the files' dates are."""
    assert json.loads(json.dumps(asdict(read_report(written)[0]))) == json.loads(written.report_json.read_text())
    before = written.report_json.stat().st_mtime - 100
    path = written.cell("tiny-quiz").file("uniform", "online")
    path.write_bytes(path.read_bytes().replace(b'"seconds_per_answer": 1.5', b'"seconds_per_answer": 2.5'))
    os.utime(path, (before, before))
    (cell,) = read_report(written)[0].cells
    assert cell.row("uniform").online.cost.seconds_per_answer == 2.5


def test_invalid_settings_are_refused(tmp_path):
    (tmp_path / "experiment.toml").write_text("title = 3")
    with pytest.raises(ConfigError, match="title"):
        read_report(ExperimentFolder(tmp_path))


def test_answers_that_are_gone_are_noticed(make_experiment):
    folder = make_experiment()
    path = folder.cell("tiny-quiz").file("mbc", "online").with_name("online.predictions.jsonl")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    with pytest.raises(DataError, match="119 of 120 answers") as error:
        read_report(folder)
    assert "online.json" in error.value.hint


def test_json_begins_with_verdicts_and_holds_figures(written):
    report = json.loads(written.report_json.read_text())
    assert [*report][:2] == ["verdicts", "cautions"]
    assert [verdict["outcome"] for verdict in report["verdicts"]] == ["unchecked", "yes", "no", "yes"]
    row = report["cells"][0]["rows"][0]
    assert row["online"]["scores"]["exact_match"] == {"value": 50.0, "low": 48.0, "high": 52.0}
    assert report["origin"]["environments"][0]["seed"] == 3


def test_markdown_begins_with_the_verdicts_and_has_every_table(written):
    text = written.report_markdown.read_text()
    first = text.splitlines()[2]
    assert first == "- ? **MBC's bank was not checked against a bank of other documents**."
    assert "| **MBC** | **50.0** (48.0 to 52.0) | **50.0** (48.0 to 52.0) | **50.0** | **50.0** | **100.0** |" in text
    assert "| MBC | 400 | 10.0 | 18.0 | 90.0 | 4 kB | 8 kB |" in text
    scaling = text.split("EM by the number of documents")[1].split("###")[0]
    assert "| method | 16 | 64 |" in scaling
    assert "| **MBC** | **50.0** (48.0 to 52.0) | **50.0** (48.0 to 52.0) |" in scaling
    assert "| with reset | 20 | 12.0 (of 16) |" in text
    assert "there are no other documents" in text
    for line in text.splitlines():
        assert not line.startswith("|") or line.endswith("|")


def test_later_environments_show_what_differs():
    first = {"cores": 2, "packages": {"torch": "2.13.0"}, "date": "2026-11-25"}
    origin = {"environments": [first, {"cores": 2, "packages": {}, "date": "2026-11-26"}], "settings": {"seed": 3}}
    assert list(provenance(origin)) == [
        ("Environment", [("cores", "2"), ("packages.torch", "2.13.0"), ("date", "2026-11-25")]),
        ("Environment 2: what differs", [("date", "2026-11-26"), ("packages.torch", NOTHING)]),
        ("Settings", [("seed", "3")]),
    ]


def test_the_page_fetches_nothing(written):
    page = written.report_html.read_text()
    assert not re.findall(r"""(?:src|href|action)\s*=\s*["'](?!#|data:)""", page)
    assert not re.findall(r"url\(|@import|https?://", page)


def test_no_text_from_outside_is_markup_in_the_page(make_experiment):
    bad = "</script><script>alert(1)</script>\u2028\x1b"
    folder = make_experiment(title=f"Bad {bad}")
    path = folder.cell("tiny-quiz").file("mbc", "online").with_name("online.predictions.jsonl")
    path.write_text(path.read_text().replace('remembered 1"', json.dumps(f"remembered {bad}")[1:]))
    folder.cell("tiny-quiz").file("mbc", "online").parent.rename(
        folder.path / "tiny-quiz" / "results" / f"mbc {bad[:9].replace(chr(47), '')}"
    )
    write_report(folder)
    page = folder.report_html.read_text()
    assert "<script>alert" not in page
    assert "\x1b" not in page and "\u2028" not in page
    assert page.count("<script") == 2  # the questions and the page's own
    assert "\x1b" not in folder.report_markdown.read_text()
    assert "<script>" not in folder.report_markdown.read_text()


def test_an_empty_experiment_has_a_report_too(tmp_path):
    from mbc_engine.experiments.running import environment

    folder = ExperimentFolder(tmp_path)
    with folder.lock():
        folder.begin({"title": "Nothing", "bases": [], "datasets": [], "methods": []}, environment(0))
    write_report(folder)
    assert "Nothing" in folder.report_html.read_text()


def test_a_folder_without_an_experiment_is_refused(tmp_path):
    with pytest.raises(DataError, match="no evaluation"):
        read_report(ExperimentFolder(tmp_path))


def test_reading_a_report_imports_no_torch():
    code = (
        "import sys, mbc_engine.experiments.page, mbc_engine.experiments.tables;"
        "sys.exit('torch' in sys.modules or 'rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_figures_are_images_in_the_page(figures, written):
    text = written.report_html.read_text()
    titles = re.findall(r'<img src="data:image/svg\+xml;base64,[^"]+" alt="([^"]+)"', text)
    assert [title.partition(":")[0] for title in titles] == [
        *("Exact match, % (95% interval)", "F1, % (95% interval)"),
        *["Retention"] * 2,
        *("Memory as the paper counts it", "Memory on disk"),
        *["Scaling"] * 5,
        "Perplexity of code usage, of 16 codes",
    ]


def test_figures_are_files_that_the_markdown_shows(figures, written):
    names = re.findall(r"^!\[.+\]\(figures/(.+)\)$", written.report_markdown.read_text(), re.MULTILINE)
    assert "tiny-quiz-scaling-exact-match-95-interval.svg" in names
    assert sorted(names) == sorted(path.name for path in written.figures.iterdir())
    assert all(path.read_text().startswith("<?xml") for path in written.figures.iterdir())


def test_without_matplotlib_the_page_says_how_to_get_figures(make_experiment, monkeypatch):
    monkeypatch.setattr(page.importlib.util, "find_spec", lambda name: None)
    text = write_report(make_experiment()).read_text()
    assert "<img" not in text
    assert "Figures need matplotlib: pip install -c constraints.txt -e &#39;.[report]&#39;" in text


def test_a_mean_that_rounding_puts_outside_its_interval_is_drawn():
    assert _bars([("mbc", "#1f5fb4", Interval(2 / 3, 2 / 3 + 1e-14, 2 / 3 - 1e-14))]).startswith(b"<?xml")
