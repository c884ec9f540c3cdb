import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from mbc_cli.render import reply as rendering
from mbc_engine.model.base import BaseLM
from mbc_engine.model.mbc import MBC
from mbc_engine.model.reads import READS as ENGINE_READS
from mbc_engine.model.span_reader import Span
from mbc_engine.read_modes import READ_MODES

QUESTION = "Where did Ada move?"


@pytest.fixture
def says(monkeypatch):
    """Makes the base LM say something, and something else when it has passages to read."""

    def say(text, after_reading="nothing"):
        def generate(self, prefix, questions, *, passages=None, said=None, **options):
            if said:
                for piece in text.partition("l"):
                    said(piece)
            return [text if passages is None else after_reading] * len(questions)

        monkeypatch.setattr(BaseLM, "generate", generate)

    return say


@pytest.fixture
def calibrated(model, home):
    """The tiny model, with confidences."""
    return _with_confidence(model, home / "calibrated", 1.0)


@pytest.fixture
def always_unsure(model, home):
    """The tiny model, whose gains told its calibration nothing."""
    return _with_confidence(model, home / "unsure", 0.0)


def _with_confidence(model, folder, slope):
    shutil.copytree(model, folder)
    with (folder / "config.toml").open("a") as file:
        file.write(f"[model.confidence]\nslope = {slope}\nintercept = 0.0\nfrom_memory = 0.8\nfrom_model = 0.2\n")
    return folder


@pytest.fixture
def gains(monkeypatch):
    """Makes the bank add so much to the likelihood of every answer."""

    def gain(value):
        monkeypatch.setattr(MBC, "memory_gains", lambda self, reading, questions, answers: [value] * len(questions))

    return gain


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
    assert len(lines) == 4
    assert lines[2].startswith("1. notes/")
    assert "%" in lines[2]
    assert lines[3].strip() in {
        "Ada moved to Aalen in the spring.",
        "The river rose.",
        "Bruno moved to Bergen.",
        "The bridge held.",
    }


@pytest.mark.parametrize("read", ["flat", "routed", "routed:1", "hierarchical:2"])
def test_json_has_everything(mbc, bank, model, notes, says, read):
    says("Aalen")
    told = json.loads(mbc("ask", QUESTION, "--bank", bank, "--model", model, "--read", read, "--json").stdout)
    assert (told["question"], told["answer"]) == (QUESTION, "Aalen")
    assert {source["path"] for source in told["sources"]} == {str(notes / "ada.txt"), str(notes / "bruno.md")}
    assert sum(source["share"] for source in told["sources"]) == pytest.approx(1)
    assert set(told["timings"]) == {"model", "answer", "confidence", "sources", "reading"}
    assert (told["bank"]["documents"], told["bank"]["sizes"]["codes"]) == (2, 3)
    assert told["bank"]["paths"] == [str(bank)] == list({source["bank"] for source in told["sources"]})
    assert set(told["sources"][0]) == {"path", "part", "share", "ties", "state", "sentence", "date", "bank"}
    assert (told["abstained"], told["answers"], told["passages"]) == (False, {"read": None, "memory": "Aalen"}, 0)
    assert (told["confidence"], told["origin"]) == (None, None)
    assert isinstance(told["gain"], float)


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


def test_changed_and_missing_files_are_named(mbc, bank, model, notes, says):
    says("Aalen")
    (notes / "ada.txt").unlink()
    (notes / "bruno.md").write_text("Bruno stayed.")
    shown = mbc("ask", QUESTION, "--bank", bank, "--model", model).stdout
    assert "no longer there" in shown
    assert "has changed" in shown


def test_a_row_is_named_as_the_bank_names_it(mbc, ingest, model, says, home):
    says("Aalen")
    (home / "rows.jsonl").write_text('{"id": "7", "text": "Ada moved to Aalen."}\n{"id": "8", "text": "It rained."}\n')
    ingest("rows.jsonl", "--bank", "b.mbc")
    shown = mbc("ask", QUESTION, "--bank", "b.mbc", "--model", model).stdout
    assert "rows.jsonl#7" in shown
    told = json.loads(mbc("ask", QUESTION, "--bank", "b.mbc", "--model", model, "--json").stdout)
    assert {source["part"] for source in told["sources"]} == {"7", "8"}


def test_a_bank_without_sources_names_digests(mbc, ingest, notes, model, says):
    says("Aalen")
    ingest(notes, "--bank", "b.mbc", "--no-sources")
    listed = {line.split("\t")[3] for line in mbc("bank", "list", "--bank", "b.mbc").stdout.splitlines()}
    told = json.loads(mbc("ask", QUESTION, "--bank", "b.mbc", "--model", model, "--json").stdout)
    assert {source["path"] for source in told["sources"]} == listed


def test_mini_comes_with_a_warning_on_stderr(mbc, bank, model, home, says):
    says("Aalen")
    for name in ("mini", "gemini"):
        (home / name).symlink_to(model)
    result = mbc("ask", QUESTION, "--bank", bank, "--model", "./mini")
    assert "often wrong" in result.stderr
    assert "often wrong" not in result.stdout
    assert "often wrong" not in mbc("ask", QUESTION, "--bank", bank, "--model", "gemini").stderr


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


def test_reads_are_known_without_the_engine():
    assert set(READ_MODES) == set(ENGINE_READS)


@pytest.mark.parametrize("read", ["backwards", "routed:", "routed:x", "routed:-1", ""])
def test_an_unknown_read_is_an_error_before_any_model_is_loaded(mbc, bank, read):
    result = mbc("ask", QUESTION, "--bank", bank, "--model", "no-such-model", "--read", read)
    assert result.exit_code == 2
    assert "There are flat, hierarchical, routed" in result.stderr


@pytest.mark.parametrize("read", ["flat:3", "hierarchical:1", "routed:0"])
def test_a_number_that_a_read_makes_nothing_of_is_an_error_before_any_model_is_loaded(mbc, bank, read):
    assert mbc("ask", QUESTION, "--bank", bank, "--model", "no-such-model", "--read", read).exit_code == 2


def test_every_read_is_in_the_help(mbc, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    told = " ".join(mbc("ask", "--help").stdout.replace("│", " ").split())
    for name, kind in READ_MODES.items():
        assert f"{name} ({kind.words})" in told.replace(":N (", " (")


def test_help_and_wrong_options_import_no_torch():
    script = (
        "import sys; from mbc_cli.app import app\n"
        "for more in (['--help'], ['x', '--read', 'y'], ['x', '--since', 'y'], ['--questions', 'none.txt']):\n"
        "    try: app(['ask', *more])\n"
        "    except SystemExit as end: print(end.code, sorted({'torch', 'transformers'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.splitlines() if line.endswith("[]")] == ["0 []", "2 []", "2 []", "3 []"]


def test_reads_are_completed(mbc, monkeypatch):
    monkeypatch.setenv("_MBC_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "mbc ask --read r")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert mbc().stdout.split() == ["routed"]


@pytest.mark.parametrize(
    ("gain", "label"),
    [
        (2.0, "from memory, confidence 88%"),
        (0.0, "unsure, confidence 50%"),
        (-2.0, "from the model alone, confidence 11%"),
    ],
)
def test_a_calibrated_model_says_where_the_answer_comes_from(mbc, bank, calibrated, says, gains, gain, label):
    says("Aalen")
    gains(gain)
    assert mbc("ask", QUESTION, "--bank", bank, "--model", calibrated).stdout.splitlines()[:3] == ["Aalen", label, ""]
    told = json.loads(mbc("ask", QUESTION, "--bank", bank, "--model", calibrated, "--json").stdout)
    assert (told["gain"], told["origin"]) == (gain, {88: "memory", 50: "unsure", 11: "model"}[int(label[-3:-1])])


def test_an_unsure_answer_can_be_withheld(mbc, bank, calibrated, says, gains):
    says("Aalen")
    gains(0.0)
    asking = ("ask", QUESTION, "--bank", bank, "--model", calibrated, "--min-confidence")
    result = mbc(*asking, 0.51)
    assert result.stdout.splitlines()[:2] == ["", ""]
    assert "I do not know (confidence 50%, below 51%)." in result.stderr.splitlines()
    assert "notes/ada.txt" in result.stdout
    told = json.loads(mbc(*asking, 0.51, "--json").stdout)
    assert (told["answer"], told["abstained"]) == (None, True)
    assert told["answers"] == {"read": None, "memory": "Aalen"}
    assert mbc(*asking, 0.5).stdout.startswith("Aalen\n")


def test_an_answer_that_was_read_stands_where_that_from_memory_is_withheld(mbc, bank, calibrated, says, gains):
    says("Aalen", "Bergen")
    gains(0.0)
    asking = ("ask", QUESTION, "--bank", bank, "--model", calibrated, "--answer", "both", "--min-confidence", 0.51)
    assert mbc(*asking).stdout.splitlines()[:4] == [
        "Bergen",
        "read in the sources",
        "from memory alone: I do not know (confidence 50%, below 51%).",
        "",
    ]
    told = json.loads(mbc(*asking, "--json").stdout)
    assert (told["answer"], told["abstained"], told["answers"]["memory"]) == ("Bergen", True, "Aalen")


def test_a_withheld_answer_is_told_in_its_place_on_a_terminal(mbc, bank, calibrated, says, gains, terminal):
    says("Aalen")
    gains(0.0)
    result = mbc("ask", QUESTION, "--bank", bank, "--model", calibrated, "--min-confidence", 0.51)
    assert result.stdout.startswith("I do not know (confidence 50%, below 51%).\n")
    assert "I do not know" not in result.stderr


def test_a_confidence_that_never_differs_is_not_told(mbc, bank, always_unsure, says):
    says("Aalen")
    asking = ("ask", QUESTION, "--bank", bank, "--model", always_unsure)
    assert mbc(*asking).stdout.splitlines()[:3] == ["Aalen", "unsure", ""]
    result = mbc(*asking, "--min-confidence", 0.4)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot tell" in result.stderr


def test_confidence_is_known_for_the_models_own_read_alone(mbc, bank, calibrated, says):
    says("Aalen")
    asking = ("ask", QUESTION, "--bank", bank, "--model", calibrated, "--min-confidence", 0, "--read")
    result = mbc(*asking, "routed")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "calibrated for its own read, flat, not for routed." in result.stderr
    assert mbc(*asking, "flat").exit_code == 0


def test_confidence_needs_a_calibrated_model(mbc, bank, model):
    result = mbc("ask", QUESTION, "--bank", bank, "--model", model, "--min-confidence", 0.5)
    assert result.exit_code == 2
    assert "mbc calibrate" in result.stderr


@pytest.mark.parametrize("value", ["-0.1", "1.1", "nan"])
def test_confidence_is_a_probability(mbc, bank, value):
    assert mbc("ask", QUESTION, "--bank", bank, "--model", "none", "--min-confidence", value).exit_code == 2


@pytest.fixture
def reads(monkeypatch):
    """Makes every model have a reader that finds a text in the first passage that holds it."""

    def read(text):
        def span(passage):
            at = passage.find(text)
            return Span(text, 0, at, at + len(text), 1.0) if at >= 0 else None

        reader = SimpleNamespace(
            spans=lambda questions, passages: [[span(passage) for passage in own] for own in passages],
            prior_weight=0.0,
            threshold=0.0,
        )
        monkeypatch.setattr("mbc_engine.serving.read_answer.own_reader", lambda model: reader)

    return read


def test_of_two_answers_the_one_read_in_a_file_comes_first(mbc, bank, model, notes, says, reads):
    says("Bergen")
    reads("Aalen")
    asking = ("ask", QUESTION, "--bank", bank, "--model", model)
    result = mbc(*asking)
    assert result.stdout.splitlines()[:6] == [
        "Aalen",
        "read in notes/ada.txt",
        "   Ada moved to Aalen in the spring.",
        "Bergen",
        "from memory alone",
        "",
    ]
    assert " · reading " in result.stderr
    told = json.loads(mbc(*asking, "--json").stdout)
    read = {
        "text": "Aalen",
        "path": str(notes / "ada.txt"),
        "part": "",
        "sentence": "Ada moved to Aalen in the spring.",
    }
    assert (told["answer"], told["answers"], told["passages"]) == ("Aalen", {"read": read, "memory": "Bergen"}, 2)


def test_either_answer_can_be_had_alone(mbc, bank, model, says, reads):
    says("Bergen")
    reads("Aalen")
    asking = ("ask", QUESTION, "--bank", bank, "--model", model, "--answer")
    assert mbc(*asking, "memory").stdout.splitlines()[:2] == ["Bergen", ""]
    assert mbc(*asking, "read").stdout.splitlines()[:4] == [
        "Aalen",
        "read in notes/ada.txt",
        "   Ada moved to Aalen in the spring.",
        "",
    ]
    told = json.loads(mbc(*asking, "read", "--json").stdout)
    assert (told["answer"], told["answers"]["memory"], told["gain"], told["origin"]) == ("Aalen", None, None, None)


@pytest.mark.parametrize(
    ("gain", "label"),
    [
        (2.0, "from memory alone, confidence 88%"),
        (0.0, "from memory alone, unsure, confidence 50%"),
        (-2.0, "from the model alone, confidence 11%"),
    ],
)
def test_beside_a_file_the_memory_says_how_sure_it_is(mbc, bank, calibrated, says, reads, gains, gain, label):
    says("Bergen")
    reads("Aalen")
    gains(gain)
    assert mbc("ask", QUESTION, "--bank", bank, "--model", calibrated).stdout.splitlines()[3:5] == ["Bergen", label]


def test_where_no_file_answers_the_memory_does_and_it_is_said(mbc, bank, model, says, reads):
    says("Bergen")
    reads("Cadiz")
    asking = ("ask", QUESTION, "--bank", bank, "--model", model)
    lines = ["Bergen", "from memory alone", "no answer in the files", ""]
    assert mbc(*asking).stdout.splitlines()[:4] == lines
    result = mbc(*asking, "--answer", "read")
    assert (result.exit_code, result.stdout.splitlines()[:2]) == (0, ["", ""])
    assert "no answer in the files" in result.stderr.splitlines()
    assert json.loads(mbc(*asking, "--json").stdout)["answer"] == "Bergen"


def test_without_files_there_is_nothing_to_read(mbc, ingest, notes, model, says, reads):
    says("Bergen")
    reads("Aalen")
    ingest(notes, "--bank", "b.mbc", "--no-sources")
    asking = ("ask", QUESTION, "--bank", "b.mbc", "--model", model)
    lines = ["Bergen", "from memory alone", "no file is there to be read", ""]
    assert mbc(*asking).stdout.splitlines()[:4] == lines
    assert json.loads(mbc(*asking, "--json").stdout)["passages"] == 0
    result = mbc(*asking, "--answer", "read")
    assert (result.exit_code, result.stdout) == (5, "")
    assert "nothing can be read" in result.stderr
    assert "--answer memory" in result.stderr


def test_what_was_read_cannot_command_the_terminal(mbc, ingest, model, says, reads, home):
    says("Bergen")
    reads("Aa\x1b[2Jlen")
    (home / "evil.txt").write_text("Ada moved to Aa\x1b[2Jlen.")
    ingest("evil.txt", "--bank", "b.mbc")
    result = mbc("ask", QUESTION, "--bank", "b.mbc", "--model", model)
    assert result.stdout.splitlines()[:3] == ["Aa␛[2Jlen", "read in evil.txt", "   Ada moved to Aa␛[2Jlen."]
    assert "\x1b" not in result.output


def test_a_model_without_a_reader_reads_with_its_base_lm(mbc, bank, model, says):
    says("Aalen", "Bergen")
    asking = ("ask", QUESTION, "--bank", bank, "--model", model)
    assert mbc(*asking).stdout.splitlines()[:2] == ["Aalen", ""]
    both = ["Bergen", "read in the sources", "Aalen", "from memory alone", ""]
    assert mbc(*asking, "--answer", "both").stdout.splitlines()[:5] == both
    assert mbc(*asking, "--answer", "read", "--sources", 0).stdout.splitlines() == both[:2]


def test_a_confidence_for_no_answer_is_an_error_before_any_model_is_loaded(mbc, bank):
    asking = ("ask", QUESTION, "--bank", bank, "--model", "no-such-model", "--answer", "read", "--min-confidence", 0.5)
    assert mbc(*asking).exit_code == 2


def test_no_sources_are_named_where_none_are_asked_for(mbc, bank, model, says):
    says("Aalen")
    asking = ("ask", QUESTION, "--bank", bank, "--model", model, "--sources", 0)
    assert mbc(*asking).stdout == "Aalen\n"
    assert json.loads(mbc(*asking, "--json").stdout)["sources"] == []


@pytest.fixture
def dated(ingest, home):
    """A bank of three documents of three years, two of them the same but for that."""
    rows = [("a", "2022-02-28"), ("b", "2023-06-15"), ("c", "2024-01-01")]
    (home / "[x]").mkdir()
    (home / "[x]" / "rows.jsonl").write_text(
        "".join(json.dumps({"id": name, "date": date, "text": "Ada moved to Aalen."}) + "\n" for name, date in rows)
    )
    assert ingest("[x]", "--bank", "dated.mbc").exit_code == 0
    return "dated.mbc"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), "abc"),
        (("--since", "2023-06-15"), "bc"),
        (("--since", "2023-06-16"), "c"),
        (("--since", "2023"), "bc"),
        (("--as-of", "2023"), "ab"),
        (("--as-of", "2022-02"), "a"),
        (("--since", "2023-01", "--as-of", "2023-6"), "b"),
        (("--only", "#a"), ""),
        (("--only", "*#a", "--only", "*#b"), "ab"),
        (("--exclude", "*#a"), "bc"),
        (("--only", "[x]/rows.jsonl"), "abc"),
        (("--only", "./[x]"), "abc"),
        (("--exclude", "[x]/rows.jsonl#b"), "ac"),
        (("--only", "./[x]/rows.jsonl#*"), "abc"),
        (("--only", "./[[]x]/rows.jsonl"), "abc"),
        (("--only", "./[[]x]/*#b"), "b"),
        (("--exclude", "../*/*/rows.jsonl#c"), "ab"),
    ],
)
def test_documents_are_chosen_by_date_and_path(mbc, dated, model, says, options, found):
    says("Aalen")
    result = mbc("ask", QUESTION, "--bank", dated, "--model", model, "--json", *options)
    if found:
        assert "".join(sorted(source["part"] for source in json.loads(result.stdout)["sources"])) == found
    else:
        assert result.exit_code == 5
        assert "--only" in result.stderr


def test_a_place_is_taken_literally(mbc, dated, model, says, home, monkeypatch):
    says("Aalen")
    (home / "link").symlink_to(home / "[x]")
    monkeypatch.setenv("HOME", str(home))
    for folder, pattern in (("[x]", "./rows.jsonl"), (".", "~/link/"), (".", str(home / "link")), ("link", ".")):
        monkeypatch.chdir(home / folder)
        result = mbc("ask", QUESTION, "--bank", home / dated, "--model", model, "--json", "--only", pattern)
        assert len(json.loads(result.stdout)["sources"]) == 3, pattern


@pytest.mark.parametrize(("time", "days"), [("30", 30), ("1.5d", 1.5), ("2w", 14), ("1m", 30), ("1 y", 365)])
def test_a_half_life_weighs_by_age(mbc, dated, model, says, time, days):
    says("Aalen")
    asking = ("ask", QUESTION, "--bank", dated, "--model", model, "--as-of", "2024-01-01", "--json")
    result = mbc(*asking, "--since", "2023", "--half-life", time, "--read", "routed:2")
    shares = {source["part"]: source["share"] for source in json.loads(result.stdout)["sources"]}
    assert shares["b"] / shares["c"] == pytest.approx(0.5 ** (200 / days), rel=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        ("--since", "tomorrow"),
        ("--since", "2024-13"),
        ("--as-of", "2023-02-29"),
        ("--since", "2024", "--as-of", "2023"),
        ("--half-life", "soon"),
        ("--half-life", "0d"),
        ("--only", "!a"),
        ("--exclude", "/"),
    ],
)
def test_a_choice_that_means_nothing_is_an_error_before_any_model_is_loaded(mbc, bank, options):
    result = mbc("ask", QUESTION, "--bank", bank, "--model", "no-such-model", *options)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 2


def test_ties_are_told(mbc, dated, model, says):
    says("Aalen")
    shown = mbc("ask", QUESTION, "--bank", dated, "--model", model, "--sources", 1).stdout.splitlines()
    assert shown[2] == "1. [x]/rows.jsonl#a  33%  2022-02-28  tied with 2 others"


def test_real_generation_obeys_its_limits(mbc, bank, model):
    result = mbc("ask", QUESTION, "--bank", bank, "--model", model, "--max-tokens", 2, "--beams", 2, "--json")
    assert result.exit_code == 0
    assert isinstance(json.loads(result.stdout)["answer"], str)


@pytest.fixture
def terminal(monkeypatch):
    """Makes stdout a terminal to what shows answers."""
    for module in ("mbc_cli.render.reply", "mbc_cli.commands.ask.one"):
        monkeypatch.setattr(f"{module}.out", Console(force_terminal=True, width=80, color_system=None))


def test_an_answer_is_shown_as_it_comes(mbc, bank, model, says, terminal, monkeypatch):
    says("Aa\x1blen")
    pieces = []
    monkeypatch.setattr(rendering.Saying, "__call__", _noting(pieces, rendering.Saying.__call__))
    result = mbc("ask", QUESTION, "--bank", bank, "--model", model)
    assert pieces == ["Aa\x1b", "l", "en"]
    assert result.stdout.splitlines()[:2] == ["Aa␛len", ""]


@pytest.mark.parametrize(
    "options", [("--beams", 2), ("--min-confidence", 0), ("--json",), ("--answer", "both")], ids=str
)
def test_an_answer_that_may_change_is_shown_whole(mbc, bank, calibrated, says, terminal, monkeypatch, options):
    says("Aalen")
    pieces = []
    monkeypatch.setattr(rendering.Saying, "__call__", _noting(pieces, rendering.Saying.__call__))
    result = mbc("ask", QUESTION, "--bank", bank, "--model", calibrated, *options)
    assert (result.exit_code, pieces) == (0, [])
    assert result.stdout.count("Aalen") >= 1


def test_the_line_ends_when_an_answer_is_stopped(mbc, bank, model, terminal, monkeypatch):
    def generate(self, prefix, questions, *, said, **options):
        said("Aal")
        raise KeyboardInterrupt

    monkeypatch.setattr(BaseLM, "generate", generate)
    result = mbc("ask", QUESTION, "--bank", bank, "--model", model)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "Aal\n", "Interrupted.\n")


def test_no_answer_is_an_empty_line_in_a_pipe(mbc, bank, model, says):
    says("")
    assert mbc("ask", QUESTION, "--bank", bank, "--model", model).stdout.splitlines()[:2] == ["", ""]


def test_no_answer_is_told_on_a_terminal(mbc, bank, model, says, terminal, monkeypatch):
    monkeypatch.setattr(BaseLM, "generate", lambda self, prefix, questions, **options: [""])
    assert mbc("ask", QUESTION, "--bank", bank, "--model", model).stdout.startswith("(no answer)\n")


def _noting(pieces, call):
    def noted(self, piece):
        pieces.append(piece)
        call(self, piece)

    return noted
