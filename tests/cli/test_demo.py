import json

from mbc_cli.commands.demo import pick_questions
from mbc_engine.datasets.newswire import stories


def test_four_kinds_of_questions_about_four_stories():
    chosen = pick_questions(list(stories("test", 16, seed=0)))
    assert [question.text.split()[0] for question in chosen] == ["Who", "Where", "How", "What"]
    assert len({question.story for question in chosen}) == 4


def test_it_shows_what_was_expected_and_leaves_nothing(mbc, model, home, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(home / "tmp"))
    (home / "tmp").mkdir()
    result = mbc("demo", "--model", model)
    assert result.exit_code == 0
    assert result.stdout.count("\n? ") == 4
    assert result.stdout.count("expected  ") == 4
    assert "of 4 answers right" in result.stdout
    assert "mbc ingest ./your-notes" in result.stdout
    assert "ingest" in result.stderr


def test_json_marks_right_and_wrong(mbc, model):
    told = json.loads(mbc("demo", "--model", model, "--json").stdout)
    assert len(told["answers"]) == 4
    assert told["bank"]["documents"] == 16
    for answer in told["answers"]:
        assert answer["right_source"] == (answer["sources"][0]["path"] == answer["file"])
        assert answer["right"] is False
        assert "passage" not in answer["sources"][0]


def test_what_is_kept_can_be_asked_again(mbc, model):
    assert mbc("demo", "--model", model, "--keep", "kept").exit_code == 0
    assert len(mbc("bank", "list", "--bank", "kept/demo.mbc").stdout.splitlines()) == 16


def test_a_folder_in_use_is_refused(mbc, notes):
    assert mbc("demo", "--keep", notes).exit_code == 2


def test_a_missing_model_is_an_error(mbc):
    assert mbc("demo", "--model", "no-such-model").exit_code == 4
