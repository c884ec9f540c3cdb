import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from mbc_cli.commands import evaluate as command
from mbc_cli.render import terminal as consoles
from mbc_engine.evaluation.report import build_report
from tests.evaluation.conftest import ORIGIN, cell_of, predict, results_of, retention_of
from tests.newswire import OTHERS, TWO


@pytest.fixture
def evaluate(mbc, model, questions):
    """Runs `mbc eval` with the tiny model on four questions, MBC alone."""
    fixed = ("eval", "--model", model, "--data", questions(4), "--method", "mbc")
    return lambda *arguments, code=0: mbc(*fixed, *arguments, code=code)


def rows_of(report):
    (cell,) = report["cells"]
    return {row["method"]: row["online"] for row in cell["rows"]}


def test_json_is_the_report_alone(mbc, evaluate, model, questions):
    report = json.loads(evaluate("--bank-size", 2, "--limit", 3, "--read", "routed:1", "--json").stdout)
    online = rows_of(report)["mbc"]
    assert (online["scores"]["questions"], online["cost"]["documents"], online["banks"]) == (3, 2, 2)
    assert report["origin"]["settings"]["read"] == "routed:1"
    name = Path(report["folder"]).name
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-questions", name)
    assert json.loads(mbc("eval", "show", name, "--json").stdout) == report
    again = mbc("eval", "--model", model, "--data", questions(4), "--read", "routed:1")
    folder = Path(f"{report['folder']}-2")
    assert f"The report: {folder / 'report.md'}" in again.stderr
    assert "bank of MBC does not beat" in again.stdout.splitlines()[0]
    methods = rows_of(json.loads((folder / "report.json").read_text()))
    assert list(methods) == ["mbc", "mbc-shuffled-documents", "mbc-shuffled-codes", "mbc-wrong"]


def test_run_is_continued(mbc, evaluate):
    first = evaluate("--run", "mine", "--json")
    assert "mbc online" in first.stderr
    for again in (evaluate("--run", "mine", "--json"), mbc("eval", "--run", "mine", "--json")):
        assert "1 stage was already done." in again.stderr
        assert json.loads(first.stdout)["cells"] == json.loads(again.stdout)["cells"]
    other = evaluate("--run", "mine", "--limit", 2, code=2)
    assert (other.stdout, "with other settings: questions." in other.stderr) == ("", True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "There is nothing to evaluate on."),
        ("--data TWO --suite small", "--data and --suite contradict each other."),
        ("--suite small --method mbc", "--method is for --data."),
        ("--run first --bank-size 2", "--bank-size is for --data."),
        ("--suite grand", "There is no suite 'grand'."),
        ("--data TWO --method mbc", "The method mbc needs a model of the paper's method, and mini is not one."),
        ("--data TWO --read flat", "--read does not apply to mini"),
        ("--data TWO --protocol magic", "There is no protocol 'magic'."),
        ("--data TWO --set training.epochs=1", "--set needs --preset."),
        ("--data TWO --validation OTHERS", "--validation needs --train."),
        ("--data TWO --data-folder /", "--data-folder is for --suite."),
        ("--json show first", "--json does not apply to show."),
        ("--data TWO --preset smollm2-135m", "There are no questions to train the preset smollm2-135m on"),
        ("--data TWO --preset smollm2-135m --model mini", "--model and --preset contradict"),
    ],
)
def test_conflicting_options(refusal, options, message):
    data = {"TWO": TWO, "OTHERS": OTHERS}
    assert refusal(2, "eval", *(data.get(word, word) for word in options.split())).startswith(f"Error: {message}")


def test_plan_lists_stages_and_starts_nothing(mbc, home):
    lines = mbc("eval", "--suite", "small", "--plan").stdout.splitlines()
    plan = json.loads(mbc("eval", "--suite", "small", "--plan", "--json").stdout)
    assert lines == [f"{cell['cell']}: {stage}" for cell in plan["cells"] for stage in cell["stages"]]
    assert "prepare mbc" in plan["cells"][0]["stages"]
    assert not (home / "XDG_DATA_HOME" / "mbc" / "evaluations").exists()


def test_report_fits_the_terminal(monkeypatch):
    methods = {name: results_of(predict(20, 60)) for name in ("mbc", "uniform", "mbc-shuffled-codes")}
    methods["mbc"] = replace(methods["mbc"], retention=retention_of(100, 50.0))
    cell = replace(cell_of(methods), base="Tiny \x1b[31mLM", dataset="Quiz [b]")
    missing = {"cell": "tiny-quiz", "stage": "mac online", "reason": "needs\x1b 38 GB"}
    report = build_report(ORIGIN, [cell], [missing])
    text = io.StringIO()
    console = Console(file=text, width=80, force_terminal=True, color_system=None, markup=False, emoji=False)
    for module in (consoles, command):
        monkeypatch.setattr(module, "out", console)
    command.print_report(replace(report, cautions=(*report.cautions, "Mind\x1b this.")))
    lines = text.getvalue().splitlines()
    assert "\x1b" not in text.getvalue()
    assert {"Note. Mind␛ this.", "tiny-quiz, mac online: needs␛ 38 GB"} <= {*lines}
    assert lines[0].startswith("✗ The bank of MBC does not beat ")
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("Note. Figures from 60 questions.") for line in lines)
    mbc = next(line for line in lines if line.startswith("MBC  ") and "33.3" in line)
    assert "33.3 (31.3 to 35.3)" in mbc
    assert "Retention of the first documents, in percent" in lines
    assert any(re.match(r"MBC +200 .* 10.0 \(10.0 to 10.0\) +50.0", line) for line in lines)
