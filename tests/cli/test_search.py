"""`mbc search`: passages in a pipe, on a terminal, as JSON and as files."""

import json

import pytest
from rich.console import Console

from mbc_cli.render.answer import highlight_matches, show_source
from tests.cli.stub_memory import source

QUERY = "Where did Ada move?"


def test_one_line_per_passage_in_a_pipe(mbc, memory):
    memory.passages = (source("ada.txt", line=3), source("b.txt", "A\x1b river.", part="7"))
    result = mbc("search", "ada", "moved")
    assert result.stderr == ""
    assert result.stdout.splitlines() == ["ada.txt:3:Ada moved to Aalen.", "b.txt#7:A␛ river."]


def test_passages_of_several_banks_and_changed_files_in_a_pipe(mbc, memory):
    memory.passages = (source("b.txt", None, passage=None, text_from=None, state="changed"),)
    result = mbc("search", "ada", "--bank", "a.mbc", "--bank", "b.mbc")
    assert (result.stdout, result.stderr) == ("memory.mbc:b.txt:\n", "b.txt: the file has changed since\n")


def test_note_without_shared_words(mbc, memory):
    result = mbc("search", "zebra")
    assert result.stderr == "None of these contains a word of the query; they are the closest in meaning.\n"
    assert mbc("search", "zebra", "--quiet").stderr == ""
    assert mbc("search", "notes").stderr == ""  # the folder is called so
    memory.passages = (source("/a.txt", "Ada moved \N{PARTY POPPER} with C++."),)
    assert mbc("search", "\N{PARTY POPPER}").stderr == mbc("search", "C++").stderr == ""


def test_json_has_whole_passages(mbc, memory):
    passage = "Ada moved to Aalen. The river rose."
    memory.passages = (source(passage=passage, line=1), source("/b", None, passage=None))
    result = json.loads(mbc("search", QUERY, "--json").stdout)
    assert (result["query"], result["note"]) == (QUERY, None)
    first, second = result["passages"]
    assert (first["path"], first["line"], first["passage"]) == ("/notes/ada.txt", 1, passage)
    assert (first["words"], second["words"]) == (["Ada"], [])


def test_files(mbc, memory, home):
    memory.passages = (source(home / "a.txt"), source(home / "b\n.txt"), source(home / "a.txt"), source("0123abcd"))
    assert mbc("search", QUERY, "--files").stdout == "a.txt\nb .txt\n"
    assert mbc("search", QUERY, "--files", "--null").stdout == f"{home}/a.txt\0{home}/b\n.txt\0"


def test_a_tilde_is_the_home_folder(mbc, memory, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    mbc("search", "who", "won", "--bank=~/a.mbc")
    assert [str(path) for path in memory.made_with["banks"]] == ["/home/ada/a.mbc"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((" ",), 2, "The query is empty."),
        ((QUERY, "--null"), 2, "--null is only for lists of files."),
        ((QUERY, "--files", "--json"), 2, "cannot be combined"),
        ((), 2, "QUERY"),
        ((QUERY, "--bank", "none.mbc"), 5, "none.mbc"),
    ],
)
def test_wrong_options(refusal, arguments, code, message):
    assert message in refusal(code, "search", "--model", "no-such-model", *arguments)


def test_marked_words_on_a_terminal(monkeypatch, capsys):
    for module in ("answer", "terminal"):
        console = Console(force_terminal=True, width=40, color_system="standard", markup=False, highlight=False)
        monkeypatch.setattr(f"mbc_cli.render.{module}.out", console)
    evil = source("/ada.txt", "Ada \x1b]0;x\x07[red]moved\u202e to Aalen, where the river rose in spring.", line=12)
    show_source(1, evil, [highlight_matches("ada moved", evil.sentence)])
    show_source(2, source("/ada.txt", None, state="gone", text_from=None, share=0.97, part="7"), [])
    lines = capsys.readouterr().out
    assert "\x1b[1;31mAda\x1b[0m ␛]0;x␇[red]\x1b[1;31mmoved\x1b[0m<U+202E>" in lines
    assert all(part in lines for part in ("ada.txt:12", "ada.txt#7", "97%", "the file no longer exists"))


def test_long_sentence_is_cut():
    text = f"{'rain ' * 100}Aalen {'snow ' * 100}"
    excerpt = highlight_matches("aalen", text)
    assert excerpt.plain.startswith("… ") and excerpt.plain.endswith(" …")
    assert [excerpt.plain[span.start : span.end] for span in excerpt.spans] == ["Aalen"]
    assert len(excerpt.plain) == 404
    assert highlight_matches("aalen", "It rained.").plain == "It rained."
    assert highlight_matches("snow", "rain " * 90 + "snow").plain.endswith("rain snow")
