import json
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from mbc_cli.commands.demo import Question, pick_questions
from mbc_cli.render import consoles, reply
from mbc_cli.render import demo as rendering
from mbc_engine.datasets.newswire import Story, stories
from mbc_engine.mini.span_reader import Span
from mbc_engine.model.base import BaseLM


@pytest.fixture
def reads(monkeypatch):
    """Makes every model have a reader that finds a text, or nothing, in whatever it reads."""

    def read(text):
        span = text and Span(text, 0, 0, len(text), 1.0)
        reader = SimpleNamespace(
            spans=lambda questions, passages: [[span for _ in own] for own in passages],
            prior_weight=0.0,
            threshold=0.0,
        )
        monkeypatch.setattr("mbc_engine.serving.ask.own_reader", lambda model: reader)

    return read


@pytest.fixture
def says(monkeypatch):
    """Makes the base LM say something."""

    def say(text):
        monkeypatch.setattr(BaseLM, "generate", lambda self, prefix, questions, **options: [text] * len(questions))

    return say


def test_two_questions_of_each_kind_about_ten_stories():
    chosen = pick_questions(list(stories("test", 16, seed=0)))
    openings = [question.text.split()[0] for question in chosen]
    assert openings == ["Who", "Where", "How", "What", "When"] * 2
    assert len({question.story for question in chosen}) == 10


def test_kinds_that_no_story_has_are_left_out_and_no_question_comes_twice():
    told = [
        Story("a", "", "", "", "", (("Who rang?", "Ada"), ("Who ran?", "Bo"), ("Whom did Bo meet?", "Cy"))),
        Story("b", "", "", "", "", (("Who sang?", "Di"), ("On which day was it?", "Monday"))),
    ]
    assert pick_questions(told) == [
        Question("a", "Who rang?", "Ada"),
        Question("b", "On which day was it?", "Monday"),
        Question("a", "Who ran?", "Bo"),
    ]


def test_it_shows_what_was_expected_and_leaves_nothing(mbc, model, home, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(home / "tmp"))
    (home / "tmp").mkdir()
    result = mbc("demo", "--model", model)
    assert result.exit_code == 0
    assert not list((home / "tmp").iterdir())
    assert result.stdout.count("\n? ") == 10
    assert result.stdout.count("\n  answer    ") == 10
    assert result.stdout.count("\n  expected  ") == 10
    assert "0 of 10 answers right" in result.stdout
    assert "from memory" not in result.stdout
    assert "mbc ingest ./your-notes" in result.stdout
    assert "ingest" in result.stderr


def test_what_is_read_stands_above_what_is_remembered(mbc, model, says, reads):
    says("Rene Munro")
    reads("Lynn Jorgensen")
    lines = mbc("demo", "--model", model).stdout.splitlines()
    at = lines.index("? Who is the transport minister at the opening in Pennbridge?")
    place, read = re.fullmatch(r"  (read in \d\d-[-a-z0-9]{,20}\.txt  )(.*)", lines[at + 1]).groups()
    assert read == "Lynn Jorgensen  right"
    assert lines[at + 2] == f"  {'from memory':<{len(place)}}Rene Munro  wrong"
    assert lines[at + 3] == f"  {'expected':<{len(place)}}Lynn Jorgensen"
    assert lines[at + 4].startswith("  source    ")
    assert re.search(
        r"^Right: 1 of 10 answers read, 0 of 10 from memory, \d+ of 10 sources\.$", "\n".join(lines), re.MULTILINE
    )


def test_nothing_read_is_wrong(mbc, model, says, reads):
    says("Rene Munro")
    reads(None)
    shown = mbc("demo", "--model", model).stdout
    assert shown.count("\n  read         no answer in the files  wrong\n  from memory  Rene Munro  ") == 10
    assert "Right: 0 of 10 answers read, 0 of 10 from memory, " in shown


def test_it_fits_a_terminal_of_80_columns(mbc, model, says, reads, monkeypatch):
    says("an answer of many words " * 8)
    reads("Summercombe Wanderers United")
    for module in (consoles, rendering, reply):
        console = Console(force_terminal=True, width=80, color_system=None, markup=False, soft_wrap=True)
        monkeypatch.setattr(module, "out", console)
    result = mbc("demo", "--model", model)
    assert result.exit_code == 0
    assert [line for line in result.output.splitlines() if len(line.rstrip()) > 80] == []


def test_json_marks_right_and_wrong(mbc, model):
    told = json.loads(mbc("demo", "--model", model, "--json").stdout)
    assert len(told["answers"]) == 10
    assert told["bank"]["documents"] == 16
    for answer in told["answers"]:
        assert answer["right_source"] == (answer["sources"][0]["path"] == answer["file"])
        assert answer["right"] == {"read": None, "memory": False}
        assert answer["answers"]["read"] is None
        assert "passage" not in answer["sources"][0]


def test_json_has_what_was_read(mbc, model, says, reads):
    says("Rene Munro")
    reads("Lynn Jorgensen")
    first, second, *_ = json.loads(mbc("demo", "--model", model, "--json").stdout)["answers"]
    assert set(first["answers"]["read"]) == {"text", "path", "part", "sentence"}
    assert first["answers"]["read"]["text"] == second["answers"]["read"]["text"] == "Lynn Jorgensen"
    assert first["answers"]["memory"] == "Rene Munro"
    assert first["right"] == {"read": True, "memory": False}
    assert second["right"] == {"read": False, "memory": False}


def test_what_is_kept_can_be_asked_again(mbc, model):
    assert mbc("demo", "--model", model, "--keep", "kept").exit_code == 0
    assert len(mbc("bank", "list", "--bank", "kept/demo.mbc").stdout.splitlines()) == 16


def test_a_folder_in_use_is_refused(mbc, notes):
    assert mbc("demo", "--keep", notes).exit_code == 2


def test_a_missing_model_is_an_error(mbc):
    assert mbc("demo", "--model", "no-such-model").exit_code == 4
