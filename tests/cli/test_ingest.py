import json
from pathlib import Path

import pytest

import mbc_engine.ingestion.run as engine
from mbc_cli.config import activity_log
from mbc_cli.render import progress
from mbc_engine.bank import MemoryBank
from mbc_engine.errors import BankError
from mbc_engine.events import DocumentsIngested, IngestFinished
from mbc_engine.runs.event_log import read_events


@pytest.fixture
def photo(home):
    """A file that cannot be memorised."""
    path = home / "photo.png"
    path.write_bytes(b"\x89PNG")
    return path


def test_counts_and_sizes_are_shown(ingest, notes):
    (notes / "photo.png").write_bytes(b"\x89PNG")
    result = ingest(notes, "--bank", "b.mbc")
    assert result.exit_code == 0
    assert result.stdout.startswith("Memorised 2 documents, 2 chunks in ")
    assert "of the time in the encoder).\n  skipped: notes/photo.png is a .png file" in result.stdout
    assert "\nskipped       1\nbank          b.mbc\nholds         2 documents, 2 chunks\n" in result.stdout
    assert "notes/photo.png is a .png file" in result.stdout
    assert "3 B, 1.5 bytes a chunk\n" in result.stdout


def test_the_same_text_in_two_files_is_one_document_from_two_origins(ingest, notes):
    (notes / "copy.txt").write_bytes((notes / "ada.txt").read_bytes())
    assert "2 documents from 3 origins, 2 chunks" in ingest(notes, "--bank", "b.mbc").stdout
    totals = json.loads(ingest(notes, "--bank", "b.mbc", "--json").stdout)["bank"]
    assert (totals["documents"], totals["origins"], totals["chunks"]) == (2, 3, 2)


def test_json_is_one_object(ingest, notes):
    (notes / "empty.txt").touch()
    summary = json.loads(ingest(notes, "--bank", "b.mbc", "--json").stdout)
    assert (summary["documents"], summary["chunks"], summary["unchanged"], summary["removed"]) == (2, 2, 0, 0)
    assert summary["skipped"] == [{"source": str(notes / "empty.txt"), "reason": "is empty"}]
    assert summary["encoding"] <= summary["seconds"]
    assert summary["bank"]["documents"] == 2


def test_documents_in_other_languages_are_counted_and_named(ingest, notes):
    assert "English" not in ingest(notes, "--bank", "b.mbc").stdout
    (notes / "bruecke.txt").write_text("Die Brücke wurde nach dem Sturm von Ada repariert, und sie ist wieder offen.")
    not_english = json.loads(ingest(notes, "--bank", "a.mbc", "--json").stdout)["not_english"]
    assert not_english == {"documents": 1, "sources": [str(notes / "bruecke.txt")]}
    output = ingest(notes, "--bank", "b.mbc").stdout  # those memorised before are not counted again
    assert "encoder).\n1 document does not seem to be in English: notes/bruecke.txt\n" in output


def test_five_reasons_are_shown_and_all_are_in_json(ingest, notes):
    (notes / "same.a").touch()
    for number in range(7):
        (notes / f"{number}.{'abcdefg'[number]}").touch()
    output = ingest(notes, "--bank", "b.mbc").stdout.splitlines()
    lines = [line for line in output if line.startswith("  skipped: ")]
    assert lines[0] == "  skipped: notes/0.a is a .a file, a format that is not supported (and 1 more)"
    assert (len(lines), lines[-1]) == (6, "  skipped: 2 more; --verbose lists every file")
    assert ingest(notes, "--bank", "b.mbc", "--verbose").stdout.count("  skipped: ") == 8
    assert len(json.loads(ingest(notes, "--bank", "b.mbc", "--json").stdout)["skipped"]) == 8


def test_unchanged_files_are_passed_over(ingest, bank, notes):
    summary = json.loads(ingest(notes, "--bank", bank, "--json").stdout)
    assert (summary["documents"], summary["unchanged"]) == (0, 2)


def test_other_processes_can_read(mbc, model, bank, notes):
    (notes / "clara.txt").write_text("Clara moved to Cadiz.")
    summary = json.loads(mbc("ingest", notes, "--bank", bank, "--model", model, "--workers", 1, "--json").stdout)
    assert (summary["documents"], summary["unchanged"]) == (1, 2)


def test_patterns_leave_files_out(ingest, notes):
    summary = json.loads(ingest(notes, "--bank", "b.mbc", "--ignore", "*.md", "--ignore", "x", "--json").stdout)
    assert summary["documents"] == 1


def test_pruning_forgets_what_is_gone(ingest, bank, notes):
    (notes / "ada.txt").unlink()
    assert json.loads(ingest(notes, "--bank", bank, "--json").stdout)["removed"] == 0
    output = ingest(notes, "--bank", bank, "--prune").stdout
    assert "\nunchanged     1\nremoved       1\nbank " in output
    assert "holds         1 document, 1 chunk\n" in output


def test_stdin_is_a_document(ingest):
    summary = json.loads(ingest("-", "--bank", "b.mbc", "--json", stdin=b"Ada moved to Aalen.").stdout)
    assert (summary["documents"], summary["chunks"]) == (1, 1)


def test_empty_stdin_is_an_error(ingest):
    assert ingest("-", "--bank", "b.mbc", stdin=b" ").exit_code == 3


def test_a_bank_without_sources_stays_so(ingest, notes):
    assert ingest(notes, "--bank", "b.mbc", "--no-sources").exit_code == 0
    summary = json.loads(ingest(notes, "--bank", "b.mbc", "--json").stdout)
    assert (summary["unchanged"], summary["bank"]["documents"]) == (2, 2)


def test_a_bank_keeps_text_where_that_is_asked_for(mbc, ingest, notes):
    assert "\ntext  " in ingest(notes, "--bank", "b.mbc", "--text").stdout
    info = json.loads(mbc("bank", "info", "--bank", "b.mbc", "--json").stdout)
    assert info["keeps_text"]
    assert info["sizes"]["texts"] > 0
    assert ingest(notes, "--bank", "b.mbc", "--text").exit_code == 0
    result = ingest(notes, "--bank", "b.mbc", "--no-text")
    assert result.exit_code == 2
    assert "b.mbc keeps the text of its documents." in result.stderr
    assert len(result.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-", "notes"], "cannot be mixed"),
        (["-", "--prune"], "not stdin"),
        (["-", "--watch"], "not stdin"),
        (["notes", "--prune", "--no-sources"], "--prune needs sources"),
        (["notes", "--no-sources", "--bank", "memory.mbc"], "memory.mbc keeps sources"),
        (["notes", "--text", "--bank", "memory.mbc"], "memory.mbc does not keep the text of its documents"),
        (["notes", "--workers", "-1"], "--workers"),
    ],
    ids=lambda options: " ".join(options) if isinstance(options, list) else "",
)
def test_what_makes_no_sense_is_an_error_before_any_model_is_loaded(mbc, bank, options, said):
    result = mbc("ingest", *options, "--model", "no-such-model")
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_bank_without_sources_cannot_be_pruned(mbc, make_bank, notes):
    path = make_bank("b.mbc", keeps_origins=False)
    result = mbc("ingest", notes, "--prune", "--bank", path, "--model", "no-such-model")
    assert result.exit_code == 2
    assert "no sources to prune by" in result.stderr


def test_an_invalid_pattern_is_an_error_before_any_model_is_loaded(mbc, notes):
    result = mbc("ingest", notes, "--ignore", "!", "--model", "no-such-model")
    assert result.exit_code == 3
    assert ".gitignore" in result.stderr


def test_a_missing_path_is_an_error_before_any_model_is_loaded(mbc):
    result = mbc("ingest", "nowhere", "--model", "no-such-model")
    assert result.exit_code == 3
    assert "nowhere does not exist" in result.stderr


def test_nothing_readable_is_an_error(ingest, photo):
    result = ingest("photo.png", "--bank", "b.mbc")
    assert result.exit_code == 3
    assert "No readable files were found" in result.stderr
    assert "photo.png is a .png file" in result.output


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_new_bank_that_stays_empty_is_deleted(ingest, photo, home, options):
    result = ingest(photo, "--bank", "b.mbc", *options)
    assert result.exit_code == 3
    assert "file on disk" not in result.stdout
    assert not list(home.glob("b.mbc*"))


@pytest.mark.parametrize(("error", "code"), [(BankError("The disk is full."), 5), (KeyboardInterrupt(), 130)])
def test_a_new_bank_is_deleted_after_an_error_too(ingest, notes, home, monkeypatch, error, code):
    def broken(*arguments, **options):
        yield from ()
        raise error

    monkeypatch.setattr(engine, "ingest", broken)
    assert ingest(notes, "--bank", "b.mbc").exit_code == code
    assert not list(home.glob("b.mbc*"))


def test_an_old_bank_stays_even_if_it_is_empty(ingest, bank, notes, photo):
    for path in notes.iterdir():
        path.unlink()
    for _ in range(2):
        assert ingest(notes, "--bank", bank, "--prune").exit_code == 0
    assert ingest(photo, "--bank", bank).exit_code == 3
    assert bank.exists()


def test_an_empty_bank_that_another_process_has_open_stays(ingest, photo, home, monkeypatch):
    work, others = engine.ingest, []

    def beside(model, bank, *arguments, **options):
        others.append(MemoryBank.open(bank.path))
        return work(model, bank, *arguments, **options)

    monkeypatch.setattr(engine, "ingest", beside)
    assert ingest(photo, "--bank", "b.mbc").exit_code == 3
    others[0].close()
    assert (home / "b.mbc").exists()


def test_an_unknown_model_is_an_error(mbc, notes):
    result = mbc("ingest", notes, "--bank", "b.mbc", "--model", "no-such-model")
    assert result.exit_code == 4
    assert "no-such-model" in result.stderr


def test_another_models_bank_is_refused(mbc, tiny, bank, notes, home):
    from mbc_engine.paper.checkpoint import save_model

    save_model(tiny.model("llama"), tiny.config("llama"), home / "other")
    result = mbc("ingest", notes, "--bank", bank, "--model", "other")
    assert result.exit_code == 4
    assert "--model" in result.stderr


def test_a_stop_keeps_what_was_committed(mbc, ingest, notes, monkeypatch):
    work = engine.ingest

    def interrupted(*arguments, stop, **options):
        for event in work(*arguments, stop=stop, batch_chunks=1, **options):
            yield event
            if getattr(event, "chunks", 0):
                stop.set()

    monkeypatch.setattr(engine, "ingest", interrupted)
    result = ingest(notes, "--bank", "b.mbc")
    assert result.exit_code == 130
    assert "is saved" in result.stderr
    assert "Memorised 1 document" in result.stdout
    assert len(mbc("bank", "list", "--bank", "b.mbc").stdout.splitlines()) == 1


def test_a_stop_after_the_last_batch_comes_too_late(ingest, notes, monkeypatch):
    work = engine.ingest

    def interrupted(*arguments, stop, **options):
        for event in work(*arguments, stop=stop, **options):
            if isinstance(event, IngestFinished):
                stop.set()
            yield event

    monkeypatch.setattr(engine, "ingest", interrupted)
    assert ingest(notes, "--bank", "b.mbc").exit_code == 0


@pytest.fixture
def simulated_watch(monkeypatch, notes):
    """Replaces watching by a script: a file is added, nothing changes, a file is deleted, then Ctrl-C."""

    def watch(model, bank, paths, *, stop, **options):
        yield from engine.ingest(model, bank, paths, stop=stop, **options)
        (notes / "clara.txt").write_text("Clara moved to Cadiz.")
        yield from engine.ingest(model, bank, paths, stop=stop, **options)
        yield from engine.ingest(model, bank, paths, stop=stop, **options)
        (notes / "ada.txt").unlink()
        yield from engine.ingest(model, bank, paths, stop=stop, **options)
        stop.set()

    monkeypatch.setattr(engine, "watch", watch)


def test_watching_tells_each_change_on_a_line(ingest, notes, simulated_watch):
    result = ingest(notes, "--bank", "b.mbc", "--watch", "--prune")
    assert result.exit_code == 0
    assert "Watching for changes" in result.stderr
    assert result.stdout.startswith("Memorised 2 documents")
    assert [line[10:] for line in result.stdout.splitlines()[-2:]] == [
        "memorised notes/clara.txt (1 document, 1 chunk)",
        "removed notes/ada.txt",
    ]


def test_watching_as_json_is_a_line_a_change(ingest, notes, simulated_watch):
    lines = ingest(notes, "--bank", "b.mbc", "--watch", "--prune", "--json").stdout.splitlines()
    changes = list(map(json.loads, lines))
    assert [(change["documents"], change["removed"]) for change in changes] == [(2, 0), (1, 0), (0, 1)]
    named = [[Path(source).name for source in change["memorised"] + change["pruned"]] for change in changes]
    assert named == [["ada.txt", "bruno.md"], ["clara.txt"], ["ada.txt"]]


def test_watching_cut_short_in_an_ingest_is_an_interruption(ingest, notes, monkeypatch):
    def watch(*arguments, stop, **options):
        stop.set()
        yield from engine.ingest(*arguments, stop=stop, **options)

    monkeypatch.setattr(engine, "watch", watch)
    assert ingest(notes, "--bank", "b.mbc", "--watch").exit_code == 130


def test_a_pipe_gets_a_line_of_progress_now_and_then(ingest, notes, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_A_LINE", 0.0)
    lines = ingest(notes, "--bank", "b.mbc").stderr.splitlines()
    assert lines[0] == "Memorising 2 files, 88 B."
    assert any(line.startswith("Memorising: 88 B of 88 B, 0.00 s left · ") for line in lines)
    assert lines[-1].endswith(" chunks/s")


def logged(bank):
    return [type(event).__name__ for event in read_events(activity_log(bank))]


def test_ingests_are_logged_for_whoever_watches(ingest, bank, notes, home):
    assert activity_log(bank).is_relative_to(home)
    assert logged(bank)[0] == "IngestStarted"
    reports = (event for event in read_events(activity_log(bank)) if isinstance(event, DocumentsIngested))
    sources = {source for report in reports for source in report.sources}
    assert sources <= {str(path) for path in notes.iterdir()}
    assert sources
    (notes / "photo.png").touch()
    assert ingest(notes, "--bank", bank.name).exit_code == 0
    assert logged(bank)[:3] == ["IngestFinished", "IngestStarted", "FileSkipped"]
    assert logged(bank)[-1] == "IngestFinished"


def test_a_watch_logs_what_changed(ingest, notes, home, simulated_watch):
    ingest(notes, "--bank", "b.mbc", "--watch", "--prune")
    ends = [event for event in read_events(activity_log(home / "b.mbc")) if isinstance(event, IngestFinished)]
    assert [(end.documents, end.removed) for end in ends] == [(2, 0), (1, 0), (0, 1)]


def test_nothing_is_logged_for_a_bank_without_sources(ingest, notes, home):
    ingest(notes, "--bank", "b.mbc", "--no-sources")
    assert not activity_log(home / "b.mbc").exists()


def test_a_log_that_cannot_be_written_stops_no_ingest(ingest, notes, home):
    Path(home / "XDG_STATE_HOME").touch()
    assert ingest(notes, "--bank", "b.mbc").exit_code == 0


def test_any_table_is_memorised_and_its_column_of_texts_can_be_named(ingest, mbc, home):
    table = home / "reviews.csv"
    table.write_text("Name,Review\nTent,It leaks in the rain.\nStove,It burns well.\n")
    assert ingest(table, "--bank", "b.mbc").stdout.startswith("Memorised 2 documents, 2 chunks in ")
    assert ingest(table, "--bank", "b.mbc", "--text-column", "review").stdout.startswith("Memorised 2 documents")
    assert "2 documents, 2 chunks" in mbc("bank", "info", "--bank", "b.mbc").stdout
    unknown = ingest(table, "--bank", "b.mbc", "--text-column", "price")
    assert unknown.stdout.count("skipped") == 2, "the count and one reason"
    assert "reviews.csv has no column named 'price'; its columns are name, review" in unknown.stdout


def test_a_stream_has_no_columns(ingest):
    result = ingest("-", "--bank", "b.mbc", "--text-column", "review", stdin=b"text")
    assert (result.exit_code, "--text-column" in result.stderr) == (2, True)
