import json
import re
import subprocess
import sys

import pytest

from mbc_cli.commands.evaluate import find_evaluation
from tests.needs import embedded_encoder
from tests.newswire import OTHERS, TWO


@pytest.fixture
def questions(home):
    path = home / "questions.jsonl"
    rows = [
        {"text": f"{name} moved to {place}.", "question": f"Where did {name} move?", "answers": [place]}
        for name, place in (("Ada", "Aalen"), ("Bruno", "Bergen"), ("Clara", "Cadiz"), ("Dario", "Delft"))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


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


def test_without_a_method_mbc_is_held_against_its_controls(mbc, model, questions, home):
    result = mbc("eval", "--model", model, "--data", questions, "--read", "routed:1", "--run", "first")
    assert result.exit_code == 0, result.stderr
    folder = home / "XDG_DATA_HOME" / "mbc" / "evaluations" / "first"
    assert f"The report: {folder / 'report.html'}" in result.stderr
    assert "bank does not beat" in result.stdout.splitlines()[0]
    report = json.loads((folder / "report.json").read_text())
    assert list(rows_of(report)) == ["mbc", "mbc-empty", "mbc-shuffled-documents", "mbc-shuffled-codes", "mbc-wrong"]


def test_json_is_the_report_alone(evaluate):
    result = evaluate("--bank-size", 2, "--read", "routed:1", "--json")
    report = json.loads(result.stdout)
    online = rows_of(report)["mbc"]
    assert (online["scores"]["questions"], online["cost"]["documents"], online["banks"]) == (4, 2, 2)
    assert online["scores"]["in_five"] == 100
    assert report["origin"]["settings"]["read"] == "routed:1"
    assert json.loads((find_evaluation(report["folder"]) / "report.json").read_text())["cells"] == report["cells"]


def test_limit_asks_so_many_questions(evaluate):
    report = json.loads(evaluate("--limit", 3, "--json").stdout)
    assert rows_of(report)["mbc"]["scores"]["questions"] == 3


def test_a_run_without_a_name_is_called_by_date_and_data(evaluate):
    names = [find_evaluation(json.loads(evaluate("--json").stdout)["folder"]).name for _ in range(2)]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-questions", names[0])
    assert names[1] == f"{names[0]}-2"


def test_the_same_command_goes_on_and_does_nothing_twice(evaluate):
    first, again = (evaluate("--run", "mine", "--json") for _ in range(2))
    assert json.loads(first.stdout)["cells"] == json.loads(again.stdout)["cells"]
    assert "mbc online" in first.stderr
    assert "1 stage was already done." in again.stderr


def test_a_run_goes_on_by_its_name_alone(mbc, evaluate):
    evaluate("--run", "mine")
    result = mbc("eval", "--run", "mine")
    assert (result.exit_code, "1 stage was already done." in result.stderr) == (0, True)


def test_a_run_with_other_settings_is_refused(evaluate):
    evaluate("--run", "mine")
    result = evaluate("--run", "mine", "--limit", 2)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "with other settings: questions." in result.stderr


def test_a_path_is_a_folder_of_its_own(evaluate, home):
    assert evaluate("--run", "./here").exit_code == 0
    assert (home / "here" / "report.md").is_file()


def test_missing_data_is_an_error_before_any_model_is_loaded(mbc):
    assert mbc("eval", "--model", "no-such-model", "--data", "none.csv").exit_code == 3


def test_an_unknown_read_is_an_error_before_any_model_is_loaded(mbc, questions):
    assert mbc("eval", "--model", "no-such-model", "--data", questions, "--read", "backwards").exit_code == 2


def test_no_questions_are_an_error(mbc, model, home):
    (home / "empty.jsonl").touch()
    assert mbc("eval", "--model", model, "--data", "empty.jsonl").exit_code == 3


def test_an_unknown_model_is_an_error(mbc, questions):
    assert mbc("eval", "--model", "no-such-model", "--data", questions).exit_code == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "There is nothing to evaluate on."),
        (["--data", TWO, "--suite", "small"], "--data and --suite contradict each other."),
        (["--suite", "small", "--method", "mbc"], "--method is for --data."),
        (["--suite", "small", "--set", "training.epochs=1"], "--set is for --data."),
        (["--run", "first", "--bank-size", "2"], "--bank-size is for --data."),
        (["--suite", "grand"], "There is no suite 'grand'."),
        (
            ["--data", TWO, "--method", "mbc"],
            "The method mbc needs a model of the paper's method, and mini is a retriever-reader.",
        ),
        (["--data", TWO, "--read", "flat"], "--read does not apply to mini"),
        (["--data", TWO, "--method", "magic"], "There is no method 'magic'."),
        (["--data", TWO, "--protocol", "magic"], "There is no protocol 'magic'."),
        (["--data", TWO, "--golds", "all"], "Invalid value for '--golds'"),
        (["--data", TWO, "--set", "training.epochs=1"], "--set needs --preset."),
        (
            ["--data", TWO, "--validation", OTHERS],
            "--validation needs --train.",
        ),
        (
            ["--data", TWO, "--train", OTHERS, "--protocol", "code-usage"],
            "Code-usage trains a preset, but mini is a model.",
        ),
        (["--data", TWO, "--data-folder", "/"], "--data-folder is for --suite."),
        (
            ["--data", TWO, "--train", OTHERS, "--preset", "a" * 300],
            "There is no preset 'aaa",
        ),
        (["--json", "show", "first"], "--json does not apply to show."),
        (["--data", TWO, "surplus"], "No such command 'surplus'."),
        (
            ["--data", TWO, "--preset", "smollm2-135m"],
            "There are no questions to train the preset smollm2-135m on",
        ),
        (
            ["--data", TWO, "--preset", "smollm2-135m", "--model", "mini"],
            "--model and --preset contradict",
        ),
    ],
)
def test_options_that_do_not_fit_together_are_refused_in_two_lines(mbc, options, said):
    result = mbc("eval", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {said}")
    assert len(result.stderr.splitlines()) == 2


def test_options_come_from_the_config_as_for_any_command(mbc, evaluate, home):
    assert mbc("config", "set", "eval.limit", "2").exit_code == 0
    assert rows_of(json.loads(evaluate("--json").stdout))["mbc"]["scores"]["questions"] == 2


def test_an_interrupt_keeps_what_is_done_and_says_how_to_go_on(evaluate, monkeypatch):
    """Stops after the first stage, as Ctrl-C would."""
    from mbc_engine.experiments import running

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


def test_a_method_that_learns_is_trained_and_asked(mbc, preset, questions):
    arguments = ["--preset", preset, "--data", f"{questions}[2:]", "--train", f"{questions}[:2]"]
    result = mbc("eval", *arguments, "--method", "mbc", "--set", "training.epochs=1", "--json")
    assert result.exit_code == 0, result.stderr
    assert rows_of(json.loads(result.stdout))["mbc"]["scores"]["questions"] == 2
    assert "prepare mbc" in result.stderr


def test_training_on_what_is_tested_is_an_error_that_can_be_put_right_in_the_same_folder(mbc, preset, questions):
    arguments = ("--preset", preset, "--data", f"{questions}[2:]", "--method", "mbc", "--set", "training.epochs=1")
    result = mbc("eval", *arguments, "--train", questions, "--run", "mine")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "also trained on" in result.stderr
    assert mbc("eval", *arguments, "--train", f"{questions}[:2]", "--run", "mine").exit_code == 0


def test_a_learning_rate_is_not_chosen_without_questions(mbc, model, questions):
    arguments = ("--model", model, "--data", f"{questions}[1:]", "--train", f"{questions}[:1]", "--method", "uniform")
    result = mbc("eval", *arguments)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "no questions for choosing a learning rate" in result.stderr


def test_looking_and_bad_input_import_no_torch():
    script = (
        "import sys; from typer.testing import CliRunner; from mbc_cli.app import app\n"
        "for words in ('eval --help', 'eval', 'eval show nowhere', 'eval --data none.csv',\n"
        f"              'eval --data {TWO} --method uniform', 'eval --suite grand',\n"
        f"              'eval --data {TWO} --model nowhere'):\n"
        "    CliRunner().invoke(app, words.split())\n"
        "print(sorted({'torch', 'transformers', 'peft'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@embedded_encoder
def test_a_retriever_reader_is_evaluated_alone(mbc):
    report = json.loads(mbc("eval", "--data", TWO, "--limit", 2, "--json").stdout)
    online = rows_of(report)["retriever-reader"]
    assert list(rows_of(report)) == ["retriever-reader"]
    assert (online["scores"]["questions"], online["cost"]["documents"], online["cost"]["paper_bytes"]) == (2, 2, None)
    assert report["verdicts"] == []
    plan = mbc("eval", "--data", TWO, "--plan")
    assert "no estimate: mini is a retriever-reader." in " ".join(plan.stdout.split())
