import json

import pytest


@pytest.fixture
def questions(home):
    path = home / "questions.jsonl"
    rows = [
        {"text": f"{name} moved to {place}.", "question": f"Where did {name} move?", "answers": [place]}
        for name, place in (("Ada", "Aalen"), ("Bruno", "Bergen"), ("Clara", "Cadiz"), ("Dario", "Delft"))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_figures_are_shown(mbc, model, questions):
    result = mbc("eval", "--model", model, "--data", questions)
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == [
        "questions",
        "documents",
        "exact",
        "F1",
        "lenient",
        "source",
        "source",
    ]


def test_json_has_the_banks_size(mbc, model, questions):
    told = json.loads(
        mbc("eval", "--model", model, "--data", questions, "--bank-size", 2, "--read", "routed:1", "--json").stdout
    )
    assert (told["questions"], told["bank_documents"], told["banks"], told["read"]) == (4, 2, 2, "routed:1")
    assert told["in_five"] == 100


def test_limit_takes_the_first_questions(mbc, model, questions):
    told = json.loads(mbc("eval", "--model", model, "--data", questions, "--limit", 3, "--json").stdout)
    assert (told["questions"], told["read"]) == (3, "flat")


def test_missing_data_is_an_error_before_any_model_is_loaded(mbc):
    assert mbc("eval", "--model", "no-such-model", "--data", "none.csv").exit_code == 3


def test_an_unknown_read_is_an_error_before_any_model_is_loaded(mbc, questions):
    assert mbc("eval", "--model", "no-such-model", "--data", questions, "--read", "backwards").exit_code == 2


def test_no_questions_are_an_error(mbc, model, home):
    (home / "empty.jsonl").touch()
    assert mbc("eval", "--model", model, "--data", "empty.jsonl").exit_code == 3


def test_an_unknown_model_is_an_error(mbc, questions):
    assert mbc("eval", "--model", "no-such-model", "--data", questions).exit_code == 4
