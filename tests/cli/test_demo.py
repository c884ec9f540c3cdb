import json
import re
from dataclasses import replace

import pytest
from rich.console import Console

from mbc_cli.commands import demo
from mbc_cli.commands.demo import pick_questions
from mbc_cli.render import answer as reply
from mbc_cli.render import terminal as consoles
from mbc_engine.datasets.layout import QAExample, made_up_stories
from mbc_engine.lm.base import BaseLM
from mbc_engine.memory import Memory
from tests.needs import embedded_encoder


@pytest.fixture
def says(monkeypatch):
    """Makes the base LM say something."""

    def say(text):
        monkeypatch.setattr(BaseLM, "generate", lambda self, prefix, questions, **options: [text] * len(questions))

    return say


def test_two_questions_of_each_kind_about_ten_stories():
    chosen = pick_questions(made_up_stories())
    openings = [question.question.split()[0] for question in chosen]
    assert openings == ["Who", "Where", "How", "What", "When", "Who", "Where", "How", "What", "On"]
    assert len({question.text for question in chosen}) == 9  # one story names no day


def test_kinds_that_no_story_has_are_left_out_and_no_question_comes_twice():
    news = [
        QAExample("1", "A", "Who rang?", ("Ada",)),
        QAExample("2", "A", "Who ran?", ("Bo",)),
        QAExample("3", "A", "Whom did Bo meet?", ("Cy",)),
        QAExample("4", "B", "Who sang?", ("Di",)),
        QAExample("5", "B", "On which day was it?", ("Monday",)),
    ]
    assert pick_questions(news) == [
        QAExample("", "A", "Who rang?", ("Ada",)),
        QAExample("", "B", "On which day was it?", ("Monday",)),
        QAExample("", "A", "Who ran?", ("Bo",)),
    ]


def test_it_shows_what_was_expected_and_leaves_nothing(mbc, model, home, says, monkeypatch):
    says("Lynn Jorgensen")
    monkeypatch.setenv("TMPDIR", str(home / "tmp"))
    (home / "tmp").mkdir()
    result = mbc("demo", "--model", model)
    assert result.exit_code == 0
    assert not list((home / "tmp").iterdir())
    assert result.stdout.count("\n? ") == 10
    assert result.stdout.count("\n  expected    ") == 10
    assert result.stdout.count("\n  answer      Lynn Jorgensen  wrong\n") == 9
    assert "\n  answer      Lynn Jorgensen  right\n  expected    Lynn Jorgensen\n" in result.stdout
    assert "Answers: 1 right, 9 wrong, 0 not answered.\n" in result.stdout
    assert re.search(r"^Sources: \d+ of 10 right\.$", result.stdout, re.MULTILINE)
    assert "With the files deleted, the same answers from the bank alone: 10 of 10.\n" in result.stdout
    assert "mbc ingest ./your-notes" in result.stdout
    assert "ingest" in result.stderr


def test_every_answer_to_a_question_counts():
    news = [QAExample(name, "A", "Who rang?", (name,)) for name in ("Ada", "Ada Aalen")]
    (question,) = pick_questions(news)
    assert question.answers == ("Ada", "Ada Aalen")


def test_what_is_not_answered_is_neither_right_nor_wrong(mbc, model, says, monkeypatch):
    says("Lynn Jorgensen")
    answered = Memory.ask

    def ask(self, questions, **options):
        return [replace(reply, text=None) for reply in answered(self, questions, **options)]

    monkeypatch.setattr(Memory, "ask", ask)
    output = mbc("demo", "--model", model).stdout
    assert output.count("\n  answer      Not in this memory.  not answered\n") == 10
    assert "Answers: 0 right, 0 wrong, 10 not answered.\n" in output
    report = json.loads(mbc("demo", "--model", model, "--json").stdout)
    assert report["counts"] == {
        "right": 0,
        "wrong": 0,
        "not_answered": 10,
        "right_sources": report["counts"]["right_sources"],
        "same_without_files": 10,
    }
    assert {answer["answer"] for answer in report["answers"]} == {None}


def test_it_fits_a_terminal_of_80_columns(mbc, model, says, monkeypatch):
    says("an answer of many words " * 8)
    for module in (consoles, demo, reply):
        console = Console(force_terminal=True, width=80, color_system=None, markup=False)
        monkeypatch.setattr(module, "out", console)
    result = mbc("demo", "--model", model)
    assert result.exit_code == 0
    assert [line for line in result.output.splitlines() if len(line.rstrip()) > 80] == []


def test_json_marks_right_and_wrong(mbc, model, says):
    says("Lynn Jorgensen")
    report = json.loads(mbc("demo", "--model", model, "--json").stdout)
    assert len(report["answers"]) == report["bank"]["documents"] == 10
    assert [answer["right"] for answer in report["answers"]] == [True] + 9 * [False]
    for answer in report["answers"]:
        assert answer["right_source"] == (answer["sources"][0]["path"] == answer["file"])
        assert answer["answer"] == answer["without_files"] == "Lynn Jorgensen"
        assert "passage" not in answer["sources"][0]
    assert (report["counts"]["right"], report["counts"]["wrong"]) == (1, 9)


@pytest.mark.slow
@embedded_encoder
def test_the_embedded_model_answers_from_the_bank_alone(mbc):
    counts = json.loads(mbc("demo", "--json").stdout)["counts"]
    assert counts["same_without_files"] == 10
    assert counts["right_sources"] >= 9


def test_what_is_kept_can_be_asked_again(mbc, model, home):
    assert mbc("demo", "--model", model, "--keep", "kept").exit_code == 0
    assert len(mbc("bank", "list", "--bank", "kept/demo.mbc").stdout.splitlines()) == 10
    assert len(list((home / "kept" / "stories").iterdir())) == 10


def test_a_folder_in_use_is_refused(mbc, notes):
    assert mbc("demo", "--keep", notes).exit_code == 2


def test_a_missing_model_is_an_error(mbc):
    assert mbc("demo", "--model", "no-such-model").exit_code == 4


def test_a_number_is_right_with_its_unit_as_the_story_has_it():
    story = QAExample("1", "Iva, 158, and the 58-year-old driver went 58 miles.", "How old is she?", ("58",))
    (question,) = pick_questions([story])
    assert question.answers == ("58", "58-year-old", "58 miles")
