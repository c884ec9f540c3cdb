"""One question: its answer on stdout, as JSON and in a pipe."""

import json
import subprocess
import sys

import pytest

from tests.cli.ask.conftest import QUESTION


def test_the_answer_is_the_first_line(mbc, bank, model, says):
    says("Aalen")
    result = mbc("ask", QUESTION, "--bank", bank, "--model", model)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == ["Aalen", ""]
    assert "notes/ada.txt" in result.stdout
    assert "model" in result.stderr


def test_a_source_comes_with_share_and_sentence(mbc, bank, model, says):
    says("Aalen")
    lines = mbc("ask", QUESTION, "--bank", bank, "--model", model, "--sources", 1).stdout.splitlines()
    assert len(lines) == 5
    assert lines[2] == "Sources:"
    assert lines[3].startswith("1. notes/")
    assert "%" in lines[3]
    assert lines[4].strip() in {
        "Ada moved to Aalen in the spring.",
        "The river rose.",
        "Bruno moved to Bergen.",
        "The bridge held.",
    }


@pytest.mark.parametrize("read", ["flat", "routed", "routed:1", "hierarchical:2"])
def test_json_has_everything(mbc, bank, model, notes, says, read):
    says("Aalen")
    answer = json.loads(mbc("ask", QUESTION, "--bank", bank, "--model", model, "--read", read, "--json").stdout)
    assert (answer["question"], answer["answer"]) == (QUESTION, "Aalen")
    assert {source["path"] for source in answer["sources"]} == {str(notes / "ada.txt"), str(notes / "bruno.md")}
    assert sum(source["share"] for source in answer["sources"]) == pytest.approx(1)
    assert set(answer["timings"]) == {"model", "search", "answer", "sources"}
    assert (answer["bank"]["documents"], answer["bank"]["sizes"]["codes"]) == (2, 3)
    assert answer["bank"]["paths"] == [str(bank)] == list({source["bank"] for source in answer["sources"]})
    about = {"asked", "note", "extracted", "written_by", "confidence", "label", "gain", "sources", "timings", "bank"}
    assert set(answer) == {"question", "answer", *about}
    assert (answer["confidence"], answer["label"]) == (None, None)
    assert isinstance(answer["gain"], float)


def test_no_sources_are_named_where_none_are_asked_for(mbc, bank, model, says):
    says("Aalen")
    command = ("ask", QUESTION, "--bank", bank, "--model", model, "--sources", 0)
    assert mbc(*command).stdout == "Aalen\n"
    assert json.loads(mbc(*command, "--json").stdout)["sources"] == []


def test_a_row_is_named_as_the_bank_names_it(mbc, ingest, model, says, home):
    says("Aalen")
    (home / "rows.jsonl").write_text('{"id": "7", "text": "Ada moved to Aalen."}\n{"id": "8", "text": "It rained."}\n')
    ingest("rows.jsonl", "--bank", "b.mbc")
    output = mbc("ask", QUESTION, "--bank", "b.mbc", "--model", model).stdout
    assert "rows.jsonl#7" in output
    answer = json.loads(mbc("ask", QUESTION, "--bank", "b.mbc", "--model", model, "--json").stdout)
    assert {source["part"] for source in answer["sources"]} == {"7", "8"}


def test_a_bank_without_sources_names_digests(mbc, ingest, notes, model, says):
    says("Aalen")
    ingest(notes, "--bank", "b.mbc", "--no-sources")
    listed = {line.split("\t")[3] for line in mbc("bank", "list", "--bank", "b.mbc").stdout.splitlines()}
    answer = json.loads(mbc("ask", QUESTION, "--bank", "b.mbc", "--model", model, "--json").stdout)
    assert {source["path"] for source in answer["sources"]} == listed


def test_changed_and_missing_files_are_named(mbc, bank, model, notes, says):
    says("Aalen")
    (notes / "ada.txt").unlink()
    (notes / "bruno.md").write_text("Bruno stayed.")
    output = mbc("ask", QUESTION, "--bank", bank, "--model", model).stdout
    assert "the file no longer exists" in output
    assert "the file has changed since" in output


def test_an_answer_cannot_command_the_terminal(mbc, bank, model, notes, says):
    says("\x1b[2J[red]Aalen[/nothing]\u202e")
    result = mbc("ask", QUESTION, "--bank", bank, "--model", model)
    assert result.stdout.splitlines()[0] == "␛[2J[red]Aalen[/nothing]<U+202E>"
    assert "\x1b" not in mbc("ask", QUESTION, "--bank", bank, "--model", model, "--json").stdout


def test_a_sentence_cannot_command_the_terminal(mbc, ingest, model, says, home):
    says("Aalen")
    (home / "evil.txt").write_text("Ada moved to \x1b]0;x\x07[bold]Aalen[/] now")
    ingest("evil.txt", "--bank", "b.mbc")
    result = mbc("ask", QUESTION, "--bank", "b.mbc", "--model", model)
    assert "Ada moved to ␛]0;x␇[bold]Aalen[/] now" in result.stdout
    assert "\x1b" not in result.output


def test_a_missing_bank_is_an_error_before_any_model_is_loaded(mbc):
    result = mbc("ask", QUESTION, "--bank", "none.mbc", "--model", "no-such-model")
    assert result.exit_code == 5
    assert "none.mbc" in result.stderr


def test_an_empty_bank_is_an_error(mbc, bank, model):
    mbc("bank", "remove", "notes/ada.txt", "notes/bruno.md", "--bank", bank)
    result = mbc("ask", QUESTION, "--bank", bank, "--model", model)
    assert (result.exit_code, result.stdout) == (5, "")
    assert "is empty" in result.stderr


def test_an_empty_question_is_an_error(mbc, bank, model):
    assert mbc("ask", "  ", "--bank", bank, "--model", model).exit_code == 2


def test_an_unknown_model_is_an_error(mbc, bank):
    assert mbc("ask", QUESTION, "--bank", bank, "--model", "no-such-model").exit_code == 4


def test_help_and_wrong_options_import_no_torch():
    script = (
        "import sys; from mbc_cli.app import app\n"
        "for more in (['--help'], ['x', '--read', 'y'], ['x', '--since', 'y'], ['--questions', 'none.txt']):\n"
        "    try: app(['ask', *more])\n"
        "    except SystemExit as end: print(end.code, sorted({'torch', 'transformers'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.splitlines() if line.endswith("[]")] == ["0 []", "2 []", "2 []", "3 []"]


def test_real_generation_obeys_its_limits(mbc, bank, model):
    result = mbc("ask", QUESTION, "--bank", bank, "--model", model, "--max-tokens", 2, "--beams", 2, "--json")
    assert result.exit_code == 0
    assert isinstance(json.loads(result.stdout)["answer"], str)
