"""A report in its folder, in all its forms."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from mbc_engine.errors import DataError
from mbc_engine.evaluation.folder import ExperimentFolder
from mbc_engine.evaluation.report.page import read_report, write_report
from mbc_engine.evaluation.report.report import KnownMethod


@pytest.fixture
def written(make_experiment, known):
    folder = make_experiment()
    write_report(folder, known)
    return folder


def test_the_report_holds_what_the_folder_holds(make_experiment, known):
    report = read_report(make_experiment(), known)
    assert (report.origin.title, report.origin.seed, report.origin.command) == ("A quiz", 3, "mbc eval --run run")
    (cell,) = report.cells
    assert (cell.title, cell.leader) == ("Tiny LM on Quiz", "mbc")
    rows = {row.method: row for row in cell.rows}
    assert [*rows] == ["mbc", "uniform", "closed-book", "mbc-empty"]
    assert rows["uniform"].rate == 2.5e-05
    assert rows["mbc"].retention.steps[1].retention == 90.0
    assert rows["mbc"].names_sources and not rows["uniform"].names_sources
    assert cell.code_usage.codes == 16


def test_only_stages_that_are_still_missing_are_told(make_experiment, known):
    (missing,) = read_report(make_experiment(), known).missing
    assert (missing.stage, missing.reason) == ("mbc-wrong online", "there are no other documents")


def test_stages_that_were_not_come_to_are_told_too(make_experiment, known):
    planned = [("tiny-quiz", stage) for stage in ("mbc-wrong online", "mac online", "mac scaling")]
    told = [
        (missing.stage, missing.reason) for missing in read_report(make_experiment(), known, planned=planned).missing
    ]
    assert told == [
        ("mbc-wrong online", "there are no other documents"),
        ("mac online, mac scaling", "not done yet"),
    ]
    (_, many) = read_report(
        make_experiment("other"), known, planned=[("tiny-quiz", f"stage {n}") for n in range(40)]
    ).missing
    assert many.stage == "40 stages"


def test_what_is_read_is_what_the_folder_holds_now(written, known):
    """Not what was once reported of it, whatever the files' dates say."""
    assert json.loads(json.dumps(read_report(written, known).to_json())) == json.loads(written.report_json.read_text())
    before = written.report_json.stat().st_mtime - 100
    path = written.cell("tiny-quiz").method("uniform").online.path
    path.write_bytes(path.read_bytes().replace(b'"seconds_per_answer": 1.5', b'"seconds_per_answer": 2.5'))
    os.utime(path, (before, before))
    (cell,) = read_report(written, known).cells
    assert cell.row("uniform").online.cost.seconds_per_answer == 2.5


@pytest.mark.parametrize(
    "settings",
    ["bases = 3", 'bases = ["a"]', "bases = [{}]", 'seed = "x"', 'datasets = [{name = 3}]\nbases = [{name = "a"}]'],
)
def test_settings_of_nobody_are_refused_in_a_line(tmp_path, known, settings):
    (tmp_path / "experiment.toml").write_text(settings)
    with pytest.raises(DataError, match=r"cannot be read: (bases|datasets|a seed)"):
        read_report(ExperimentFolder(tmp_path), known)


def test_answers_that_are_gone_are_noticed(make_experiment, known):
    folder = make_experiment()
    path = folder.cell("tiny-quiz").method("mbc").path / "online.predictions.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    with pytest.raises(DataError, match="119 of 120 answers") as error:
        read_report(folder, known)
    assert "online.json" in error.value.hint


def test_json_begins_with_verdicts_and_holds_figures(written):
    report = json.loads(written.report_json.read_text())
    assert [*report][:2] == ["verdicts", "cautions"]
    assert [verdict["outcome"] for verdict in report["verdicts"]] == ["unchecked", "yes", "no"]
    row = report["cells"][0]["rows"][0]
    assert row["online"]["scores"]["exact_match"] == {"value": 50.0, "low": 48.0, "high": 52.0}
    assert report["origin"]["environments"][0]["seed"] == 3


def test_markdown_begins_with_the_verdicts_and_has_every_table(written):
    text = written.report_markdown.read_text()
    first = text.splitlines()[2]
    assert first == "- ? **MBC's bank was not checked on Quiz (Tiny LM) against a bank of other documents**."
    assert "| **MBC** | **50.0** (48.0 to 52.0) | **50.0** (48.0 to 52.0) | **50.0** | **50.0** | **100.0** |" in text
    assert "| MBC | 400 | 10.0 | 18.0 | 90.0 | 4 kB | 8 kB |" in text
    assert "| with reset | 20 | 12.0 (of 16) |" in text
    assert "there are no other documents" in text
    for line in text.splitlines():
        assert not line.startswith("|") or line.endswith("|")


def test_the_page_asks_nobody_for_anything(written):
    page = written.report_html.read_text()
    assert not re.findall(r"""(?:src|href|action)\s*=\s*["'](?!#|data:,)""", page)
    assert not re.findall(r"url\(|@import|https?://", page)


def test_no_text_from_outside_is_markup_in_the_page(make_experiment, known):
    bad = "</script><script>alert(1)</script>\u2028\x1b"
    folder = make_experiment(title=f"Bad {bad}")
    method = folder.cell("tiny-quiz").method("mbc")
    path = method.path / "online.predictions.jsonl"
    path.write_text(path.read_text().replace('remembered 1"', json.dumps(f"remembered {bad}")[1:]))
    write_report(folder, replace(known, methods={**known.methods, "mbc": KnownMethod(f"MBC {bad}")}))
    page = folder.report_html.read_text()
    assert "<script>alert" not in page
    assert "\x1b" not in page and "\u2028" not in page
    assert page.count("<script") == 2  # the questions and the page's own
    assert "\x1b" not in folder.report_markdown.read_text()
    assert "<script>" not in folder.report_markdown.read_text()


def test_an_empty_experiment_has_a_report_too(tmp_path, known):
    from mbc_engine.evaluation.folder import environment

    folder = ExperimentFolder(tmp_path)
    with folder.at_work():
        folder.begin({"title": "Nothing"}, environment(0))
    write_report(folder, known)
    assert "Nothing" in folder.report_html.read_text()


def test_a_folder_without_an_experiment_is_refused(tmp_path, known):
    with pytest.raises(DataError, match="no experiment"):
        read_report(ExperimentFolder(tmp_path), known)


def test_reading_a_report_imports_no_torch():
    code = (
        "import sys, mbc_engine.evaluation.report.page, mbc_engine.evaluation.report.comparing;"
        "sys.exit('torch' in sys.modules or 'rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
