"""`mbc search`: passages in a pipe, on a terminal, as JSON and as files."""

import json
import subprocess
import sys

import pytest
from rich.console import Console

from mbc_cli.render.answer import highlight_matches, passage_json, show_source
from mbc_engine.answer import AskOptions, Source

QUERY = "Where did Ada move?"


@pytest.fixture
def search(mbc, bank, model):
    return lambda *arguments: mbc("search", *arguments, "--bank", bank, "--model", model)


@pytest.fixture
def source(home):
    def make(sentence, **changes):
        fields = {"part": "", "share": 0.97, "ties": 0, "state": "unchanged", "passage": sentence, "text_from": "file"}
        fields |= {"start": 0, "date": "2024-05-01", "bank": "b.mbc", "line": 12}
        return Source(path=str(home / "ada.txt"), sentence=sentence, **(fields | changes))

    return make


def test_a_pipe_gets_a_line_for_each_passage_as_from_grep(search):
    result = search("ada", "moved")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("notes/ada.txt:1:Ada moved") or lines[1].startswith("notes/ada.txt:1:Ada moved")
    assert result.stderr == ""


def test_passages_without_a_word_of_the_query_come_with_a_note(search):
    result = search("zebra", "--top", 1)
    assert result.exit_code == 0
    assert result.stderr == "None of these contains a word of the query; they are the closest in meaning.\n"
    assert search("zebra", "--quiet").stderr == ""


def test_json_has_whole_passages_best_first(search, notes, bank):
    result = json.loads(search(QUERY, "--top", 9, "--json").stdout)
    assert result["query"] == QUERY
    shares = [own["share"] for own in result["passages"]]
    assert shares == sorted(shares, reverse=True)
    (ada,) = [own for own in result["passages"] if own["words"] == ["Ada"]]
    assert (ada["path"], ada["line"], ada["bank"]) == (str(notes / "ada.txt"), 1, str(bank))
    assert ada["passage"].startswith(ada["sentence"])
    assert ada["sentence"] == "Ada moved to Aalen in the spring."


def test_files_are_named_once_and_can_end_with_nul(search, notes, home):
    assert sorted(search(QUERY, "--top", 9, "--files").stdout.splitlines()) == ["notes/ada.txt", "notes/bruno.md"]
    ended = search(QUERY, "--top", 9, "--files", "--null").stdout
    assert sorted(ended.split("\0")) == ["", str(notes / "ada.txt"), str(notes / "bruno.md")]


def test_a_selection_is_searched_alone(search):
    assert search(QUERY, "--only", "*.md", "--files").stdout == "notes/bruno.md\n"
    none = search(QUERY, "--only", "*.pdf")
    assert (none.exit_code, none.stdout) == (5, "")
    assert "matches the selection" in none.stderr


def test_several_banks_are_searched_as_one(mbc, ingest, bank, model, home):
    (home / "clara.txt").write_text("Clara moved to Cadiz.")
    ingest("clara.txt", "--bank", "own.mbc")
    found = mbc("search", "moved", "--bank", bank, "--bank", "own.mbc", "--model", model, "--top", 9, "--files").stdout
    assert set(found.splitlines()) == {"clara.txt", "notes/ada.txt", "notes/bruno.md"}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((" ",), 2, "The query is empty."),
        ((QUERY, "--null"), 2, "--null is only for lists of files."),
        ((QUERY, "--files", "--json"), 2, "cannot be combined"),
        ((QUERY, "--top", "0"), 2, "--top"),
        ((QUERY, "--since", "soon"), 2, "'soon' is not a date"),
        ((), 2, "QUERY"),
        ((QUERY, "--bank", "none.mbc"), 5, "none.mbc"),
    ],
)
def test_what_cannot_be_searched_is_an_error_before_any_model_is_loaded(mbc, bank, arguments, code, message):
    result = mbc("search", "--bank", bank, "--model", "no-such-model", *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 2


def test_an_empty_bank_is_an_error(mbc, bank, search):
    mbc("bank", "remove", "notes/ada.txt", "notes/bruno.md", "--bank", bank)
    result = search(QUERY)
    assert (result.exit_code, result.stdout) == (5, "")
    assert "is empty" in result.stderr


def test_on_a_terminal_words_are_marked_and_nothing_is_obeyed(source, monkeypatch, capsys):
    for module in ("answer", "terminal"):
        console = Console(force_terminal=True, width=40, color_system="standard", markup=False, highlight=False)
        monkeypatch.setattr(f"mbc_cli.render.{module}.out", console)
    evil = source("Ada \x1b]0;x\x07[red]moved\u202e to Aalen, where the river rose in spring.")
    show_source(1, evil, [highlight_matches("ada moved", evil.sentence)])
    show_source(2, source(None, line=None, state="gone", text_from=None, passage=None, part="7"), [])
    lines = capsys.readouterr().out
    assert "\x1b[1;31mAda\x1b[0m ␛]0;x␇[red]\x1b[1;31mmoved\x1b[0m<U+202E>" in lines
    assert "ada.txt:12" in lines and "ada.txt#7" in lines and "97%" in lines and "the file no longer exists" in lines


def test_a_long_sentence_is_cut_around_its_first_marked_word():
    text = f"{'rain ' * 100}Aalen {'snow ' * 100}"
    excerpt = highlight_matches("aalen", text)
    assert excerpt.plain.startswith("… ") and excerpt.plain.endswith(" …")
    assert [excerpt.plain[own.start : own.end] for own in excerpt.spans] == ["Aalen"]
    assert len(excerpt.plain) == 404
    assert highlight_matches("aalen", "It rained.").plain == "It rained."
    assert highlight_matches("snow", "rain " * 90 + "snow").plain.endswith("rain snow")


def test_words_are_those_of_the_passage_in_its_forms(source):
    passage = passage_json("bridges and RIVERS", source("The bridge. A river, the River."))
    assert passage["words"] == ["bridge", "river", "River"]
    assert passage_json("bridge", source(None, passage=None))["words"] == []


def test_help_and_wrong_options_import_no_torch():
    script = (
        "import sys; from mbc_cli.app import app\n"
        "for more in (['--help'], ['x', '--read', 'y'], ['x', '--since', 'y'], ['x', '--null']):\n"
        "    try: app(['search', *more])\n"
        "    except SystemExit as end: print(end.code, sorted({'torch', 'transformers'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.splitlines() if line.endswith("[]")] == ["0 []", "2 []", "2 []", "2 []"]


def test_the_options_of_a_search_reach_the_memory(mbc, bank, model, monkeypatch):
    calls = []

    def search(self, queries, options, *, top, with_text):
        calls.append((queries, options, top, with_text))
        return [()]

    monkeypatch.setattr("mbc_engine.memory.Memory.search", search)
    common = ("--bank", bank, "--model", model)
    assert mbc("search", "who", "won", *common, "--read", "routed:2", "--top", 7, "--half-life", "4w").exit_code == 0
    ((queries, options, top, with_text),) = calls
    assert (queries, top, with_text) == (["who won"], 7, True)
    assert isinstance(options, AskOptions)
    assert (options.read_mode, options.selection.half_life) == ("routed:2", 28.0)


def test_a_query_in_another_language_gets_a_note_if_mini_searches(mbc, notes, bank, model):
    assert mbc("ingest", notes, "--bank", "mini.mbc", "--workers", 0).exit_code == 0
    command = ("search", "Wohin ist Ada gezogen?", "--bank")
    assert "not seem to be in English" in " ".join(mbc(*command, "mini.mbc").stderr.split())
    assert json.loads(mbc(*command, "mini.mbc", "--json").stdout)["note"].startswith("The question does not seem")
    assert "English" not in mbc(*command, bank, "--model", model).stderr
