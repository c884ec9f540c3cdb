"""`mbc ingest`: how its options reach the memory, what it shows, and what a stop leaves."""

import json
import signal

import pytest

from mbc_cli.paths import activity_log
from mbc_engine.events import ContentLost, FileSkipped, FilesLeftOut, TextsRecoded
from mbc_engine.runs.event_log import read_events
from tests.cli.stub_memory import ingested

RECODED = TextsRecoded(2, 2, 100, 60, 1.0, "lm")


@pytest.fixture(autouse=True)
def priorities(monkeypatch):
    """The priorities that this process would have."""
    given = []
    monkeypatch.setattr("os.setpriority", lambda _kind, _thread, priority: given.append(priority), raising=False)
    monkeypatch.setattr("os.getpriority", lambda *_: 0, raising=False)
    monkeypatch.setattr("mbc_engine.machine.shutil.which", lambda _: None)
    return given


@pytest.fixture
def run(mbc, memory, notes):
    """Runs `mbc ingest` on the notes; the memory yields these events and ends with these changes."""

    def run(*options, extra=(), documents=2, code=0, **changes):
        started, *others, finished = ingested(documents, **changes)
        memory.events = (started, *extra, *others, finished)
        return mbc("ingest", notes, *options, "--bank", "b.mbc", code=code)

    return run


def test_counts_and_sizes_are_shown(run):
    line = "Memorised 2 documents, 2 chunks in 0.50 s. b.mbc holds 2 documents, 2 chunks, 8.19 kB."
    assert run(text_bytes=60).stdout.splitlines() == [line]
    assert run("--quiet").stdout == ""
    assert run("--verbose", text_bytes=60).stdout.splitlines()[:4] == [
        line,
        "speed         4.0 chunks/s, 20% of the time in the encoder",
        "codes         54 B, 27 bytes a chunk",
        "text          60 B, 30 bytes a chunk",
    ]


def test_skipped_and_left_out_files(run):
    odd = [FileSkipped(f"/{number}.a", "is a .a file") for number in range(2)]
    odd += [FileSkipped(f"/{kind}\x1b", f"is a .{kind} file") for kind in "bcdefg"]
    finished = {"skipped": 8, "unchanged": 3, "removed": 1, "not_english": 1, "not_english_sources": ("/de.txt",)}
    lines = run(extra=odd, bank_origins=3, **finished).stdout.splitlines()
    assert lines[0] == "1 document does not seem to be in English: /de.txt"
    assert lines[1:3] == ["  skipped: /0.a is a .a file (and 1 more)", "  skipped: /b␛ is a .b file"]
    assert lines[6] == "  skipped: 2 more; --verbose lists every file"
    assert lines[7] == (
        "Memorised 2 documents, 2 chunks, 3 unchanged, 1 removed, 8 skipped in 0.50 s. "
        "b.mbc holds 2 documents from 3 origins, 2 chunks, 8.19 kB."
    )
    assert run("--verbose", extra=odd, **finished).stdout.count("  skipped: ") == 8
    some = [FilesLeftOut(".gitignore", 2, ("/a/", "/b.md")), FilesLeftOut(".mbcignore", 1, ("/c.md",))]
    some.append(FilesLeftOut("hidden", 1, ("/.ci/",)))
    lost = [ContentLost(f"/{number}.pdf", ("3 pictures", "1 macro")) for number in range(6)]
    named = {"gone_sources": ("/x.md", "/y.md"), "removed_sources": ("/old.txt",)}
    lines = run(extra=[*some, *lost], gone=2, **named).stdout.splitlines()
    assert lines[0] == "  not kept: 3 pictures, 1 macro of /0.pdf"
    assert lines[5:11] == [
        "  not kept: parts of 1 more document; --verbose lists them",
        "  left out: /a/, /b.md (.gitignore); --all-files takes them",
        "  left out: /c.md (.mbcignore)",
        "  left out: /.ci/ (hidden); name it to take it",
        "2 ingested files are gone: /x.md, /y.md; --prune removes them",
        "  removed: /old.txt",
    ]
    assert "`mbc bank undo` restores what" in run(pruned=1).stderr
    assert run("--verbose", extra=lost).stdout.count("  not kept: ") == 6


def test_json_is_one_object(run):
    skipped = FileSkipped("/empty.txt", "is empty")
    lost = FilesLeftOut("a cache", 1, ("/tmp/",)), ContentLost("/a.pdf", ("3 pictures",))
    summary = json.loads(run("--json", extra=[skipped, *lost, RECODED], removed=1, removed_sources=["/old.txt"]).stdout)
    sizes = {"codes": 54, "words": 0, "texts": 0, "codebook": 4096, "file": 8192}
    counts = {"documents": 2, "chunks": 2, "unchanged": 0, "removed": 1}
    assert summary == counts | {
        "skipped": [{"source": "/empty.txt", "reason": "is empty"}],
        "left_out": [{"reason": "a cache", "count": 1, "sources": ["/tmp/"]}],
        "losses": [{"source": "/a.pdf", "losses": ["3 pictures"]}],
        "gone": {"files": 0, "sources": []},
        "not_english": {"documents": 0, "sources": []},
        "memorised": [],
        "pruned": ["/old.txt"],
        "seconds": 0.5,
        "encoding": 0.1,
        "recoded": {"done": 2, "chunks": 2, "before_bytes": 100, "after_bytes": 60, "seconds": 1.0, "codec": "lm"}
        | {"problem": ""},
        "bank": {"path": "b.mbc", "documents": 2, "origins": 2, "chunks": 2, "sizes": sizes},
    }


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ((), {"keeps_origins": True, "keeps_text": None, "codec": "zstd", "prune": False, "ignore": []}),
        (("--ignore", "*.md", "--ignore", "x", "--prune"), {"ignore": ["*.md", "x"], "prune": True}),
        (("--no-sources", "--text", "--workers", 0), {"keeps_origins": False, "keeps_text": True, "workers": 0}),
        (("--text-column", "review", "--no-text"), {"text_column": "review", "keeps_text": False}),
        (("--watch",), {"watch": True, "is_choosy": True}),
        (("--all-files",), {"is_choosy": False}),
    ],
)
def test_options_reach_the_memory(run, memory, notes, options, given):
    run(*options)
    ((documents, taken),) = memory.added
    assert (documents, given.items() <= taken.items()) == ([notes], True)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["-", "notes"], 2, "cannot be mixed"),
        (["-", "--watch"], 2, "not stdin"),
        (["-", "--text-column", "review"], 2, "--text-column"),
        (["notes", "--prune", "--no-sources"], 2, "--prune needs sources"),
        (["notes", "--no-sources", "--bank", "memory.mbc"], 2, "memory.mbc keeps sources"),
        (["notes", "--text", "--bank", "memory.mbc"], 2, "memory.mbc does not keep the text of its documents"),
        (["notes", "--prune", "--bank", "bare.mbc"], 2, "no sources to prune by"),
        (["notes", "--ignore", "!"], 3, ".gitignore"),
        (["nowhere"], 3, "nowhere does not exist"),
        (["notes", ""], 2, "Invalid value for 'PATH': it has to be a path, not an empty string."),
        (["-", "--engine", "ray"], 2, "--engine ray cannot be combined with stdin"),
        (["notes", "--engine", "ray", "--actor-cpus", "0"], 2, "a CPU or a GPU"),
        (["notes", "--address", "auto"], 2, "--address needs --engine ray"),
    ],
)
def test_wrong_options(refusal, make_bank, notes, options, code, message):
    make_bank("memory.mbc")
    make_bank("bare.mbc", keeps_origins=False)
    assert message in refusal(code, "ingest", *options, "--model", "no-such-model")


def test_nothing_readable_is_an_error(run):
    skipped = FileSkipped("/photo.png", "is a .png file")
    nothing = {"documents": 0, "extra": [skipped], "skipped": 1, "code": 3}
    result = run(**nothing)
    assert "file on disk" not in result.stdout and "No readable files were found" in result.stderr
    result = run("--text-column", "nope", **nothing)
    assert result.stderr.endswith("Error: No rows with a text in 'nope' were found.\n  Check --text-column.\n")
    run("--prune", documents=0)
    run("--prune", **nothing)


@pytest.mark.parametrize("name", ["emptied", "gone"])
def test_the_way_out_of_a_folder_that_only_the_bank_holds(refusal, make_bank, record, home, name):
    (home / "emptied").mkdir()
    make_bank("memory.mbc", record(f"{home.resolve()}/{name}/a.txt", "Ada"))
    hint = "  The bank still holds what was read from it; --prune removes that.\n"
    assert refusal(3, "ingest", name, "--bank", "memory.mbc").endswith(hint)


def test_a_stop_keeps_what_was_committed(mbc, memory, notes, monkeypatch):
    add = memory.add

    def interrupted(*given, **options):
        for event in add(*given, **options):
            yield event
            if not options["stop"].is_set():
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(memory, "add", interrupted)
    for options in ((), ("--watch",)):
        result = mbc("ingest", notes, *options, code=130)
        assert "is saved" in result.stderr
        assert "Memorised 2 documents" in result.stdout


def test_watching(mbc, memory, notes):
    """Two files, another, no change, one gone, one that cannot be read."""
    named = {"memorised_sources": ("/clara.txt",)}
    memory.events = (
        *ingested(2, memorised_sources=("/ada.txt", "/bruno.md")),
        *ingested(1, **named),
        *ingested(0),
        *ingested(0, removed=1, removed_sources=("/ada.txt",)),
        *ingested(1, skipped=1, **named),
    )
    result = mbc("ingest", notes, "--watch", "--prune")
    assert "Watching for changes" in result.stderr
    assert result.stdout.startswith("Memorised 2 documents")
    assert [line[10:] for line in result.stdout.splitlines()[-3:]] == [
        "memorised /clara.txt (1 document, 1 chunk)",
        "removed /ada.txt",
        "memorised /clara.txt (1 document, 1 chunk), 1 skipped",
    ]
    changes = [json.loads(line) for line in mbc("ingest", notes, "--watch", "--json").stdout.splitlines()]
    assert [(change["documents"], change["removed"]) for change in changes] == [(2, 0), (1, 0), (0, 1), (1, 0)]


def test_recoding_is_announced(run, priorities):
    run()
    assert priorities == []
    result = run("--codec", "lm", "--verbose", extra=[RECODED])
    assert priorities
    assert set(priorities) == {10}
    assert "You can ask questions now. Recoding 2 texts" in result.stderr
    assert "the next ingest continues" in result.stderr
    assert "recoded       2 texts in 1.00 s, 100 B to 60 B\n" in result.stdout


def test_a_real_ingest_is_logged_and_repeated(ingest, notes, home):
    """From the command line to a bank on disk, in this process and in another."""
    bank = home / "memory.mbc"
    ingest(notes, "--bank", bank)
    log = [type(event).__name__ for event in read_events(activity_log(bank))]
    assert (log[0], log[-1]) == ("IngestStarted", "IngestFinished")
    again = json.loads(ingest(notes, "--bank", bank, "--workers", 1, "--json").stdout)
    assert (again["documents"], again["unchanged"], again["bank"]["documents"]) == (0, 2, 2)
    ingest(notes, "--bank", "bare.mbc", "--no-sources")
    assert not activity_log(home / "bare.mbc").exists()
    (home / "photo.png").write_bytes(b"\x89PNG")
    ingest("photo.png", "--bank", "new.mbc", code=3)
    assert not list(home.glob("new.mbc*"))
