import json
import re
from pathlib import Path

import pytest

from tests.conftest import qa_examples, write_questions
from tests.newswire import OTHERS, TWO


@pytest.fixture
def questions(home):
    return write_questions(home / "questions.jsonl", qa_examples(4))


@pytest.fixture
def evaluate(mbc, model, questions):
    """Runs `mbc eval` with the tiny model on four questions, MBC alone by default."""

    def run(*arguments):
        method = () if "--method" in arguments else ("--method", "mbc")
        return mbc("eval", "--model", model, "--data", questions, *method, *arguments)

    return run


def rows_of(report):
    (cell,) = report["cells"]
    return {row["method"]: row["online"] for row in cell["rows"]}


def test_default_methods(mbc, model, questions, home):
    result = mbc("eval", "--model", model, "--data", questions, "--read", "routed:1", "--run", "first")
    assert result.exit_code == 0, result.stderr
    folder = home / "XDG_DATA_HOME" / "mbc" / "evaluations" / "first"
    assert f"The report: {folder / 'report.md'}" in result.stderr
    assert "bank of MBC does not beat" in result.stdout.splitlines()[0]
    report = json.loads((folder / "report.json").read_text())
    assert list(rows_of(report)) == ["mbc", "mbc-shuffled-documents", "mbc-shuffled-codes", "mbc-wrong"]


def test_json_is_the_report_alone(mbc, evaluate):
    report = json.loads(evaluate("--bank-size", 2, "--limit", 3, "--read", "routed:1", "--json").stdout)
    online = rows_of(report)["mbc"]
    assert (online["scores"]["questions"], online["cost"]["documents"], online["banks"]) == (3, 2, 2)
    assert report["origin"]["settings"]["read"] == "routed:1"
    name = Path(report["folder"]).name
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-questions", name)
    assert json.loads(mbc("eval", "show", name, "--json").stdout) == report
    again = json.loads(evaluate("--json").stdout)
    assert again["folder"] == f"{report['folder']}-2"


def test_run_is_continued(mbc, evaluate):
    first = evaluate("--run", "mine", "--json")
    assert "mbc online" in first.stderr
    for again in (evaluate("--run", "mine", "--json"), mbc("eval", "--run", "mine", "--json")):
        assert "1 stage was already done." in again.stderr
        assert json.loads(first.stdout)["cells"] == json.loads(again.stdout)["cells"]
    other = evaluate("--run", "mine", "--limit", 2)
    assert (other.exit_code, other.stdout) == (2, "")
    assert "with other settings: questions." in other.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "There is nothing to evaluate on."),
        ("--data TWO --suite small", "--data and --suite contradict each other."),
        ("--suite small --method mbc", "--method is for --data."),
        ("--suite small --set training.epochs=1", "--set is for --data."),
        ("--run first --bank-size 2", "--bank-size is for --data."),
        ("--suite grand", "There is no suite 'grand'."),
        ("--data TWO --method mbc", "The method mbc needs a model of the paper's method, and mini is not one."),
        ("--data TWO --read flat", "--read does not apply to mini"),
        ("--data TWO --method magic", "There is no method 'magic'."),
        ("--data TWO --protocol magic", "There is no protocol 'magic'."),
        ("--data TWO --golds all", "Invalid value for '--golds'"),
        ("--data TWO --set training.epochs=1", "--set needs --preset."),
        ("--data TWO --validation OTHERS", "--validation needs --train."),
        ("--data TWO --data-folder /", "--data-folder is for --suite."),
        (f"--data TWO --train OTHERS --preset {'a' * 300}", "There is no preset 'aaa"),
        ("--json show first", "--json does not apply to show."),
        ("--data TWO surplus", "No such command 'surplus'."),
        ("--data TWO --preset smollm2-135m", "There are no questions to train the preset smollm2-135m on"),
        ("--data TWO --preset smollm2-135m --model mini", "--model and --preset contradict"),
    ],
)
def test_conflicting_options(mbc, options, message):
    data = {"TWO": TWO, "OTHERS": OTHERS}
    result = mbc("eval", *(data.get(word, word) for word in options.split()))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {message}")
    assert len(result.stderr.splitlines()) == 2


def test_interrupted_evaluation_continues(evaluate, monkeypatch):
    """Stops after the first stage, as Ctrl-C would."""
    from mbc_engine.evaluation import running

    def stopped(*arguments, stop, **others):
        for event in run(*arguments, stop=stop, **others):
            yield event
            if type(event).__name__ == "StageFinished":
                stop.set()

    run = running.run
    monkeypatch.setattr(running, "run", stopped)
    both = ("--method", "mbc", "--method", "mbc-empty")
    result = evaluate(*both, "--run", "mine")
    assert (result.exit_code, result.stdout) == (130, "")
    assert "Stopped. Continue with: mbc eval --run mine" in result.stderr
    monkeypatch.setattr(running, "run", run)
    result = evaluate(*both, "--run", "mine", "--json")
    assert (result.exit_code, list(rows_of(json.loads(result.stdout)))) == (0, ["mbc", "mbc-empty"])
    assert "1 stage was already done." in result.stderr


def test_plan_lists_stages_and_starts_nothing(mbc, home):
    lines = mbc("eval", "--suite", "small", "--plan").stdout.splitlines()
    plan = json.loads(mbc("eval", "--suite", "small", "--plan", "--json").stdout)
    assert lines == [f"{cell['cell']}: {stage}" for cell in plan["cells"] for stage in cell["stages"]]
    assert "prepare mbc" in plan["cells"][0]["stages"]
    assert not (home / "XDG_DATA_HOME" / "mbc" / "evaluations").exists()
