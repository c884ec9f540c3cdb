"""A tiny model in a folder, files to memorise, handmade banks, and a separate home for every test."""

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from mbc_cli.app import app
from mbc_engine import ingest as ingest_files
from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature, StoredDocument, fingerprint
from mbc_engine.model import load_model, open_bank
from mbc_engine.paper.checkpoint import save_model
from mbc_engine.text import Document
from tests.cli.stub_memory import StubMemory
from tests.conftest import qa_examples, write_questions
from tests.needs import share_language_model

# Built once: otherwise a runner builds all commands for each that it runs.
COMMANDS = typer.main.get_command(app)


@pytest.fixture(autouse=True)
def home(tmp_path, tmp_path_factory, monkeypatch):
    """The working folder and the user's folders are in `tmp_path`; nothing comes from the real environment."""
    own = (f"MBC_{name}" for name in ("BANK", "DEVICE", "MODEL", "RUNS", "DATA", "CONFIG", "TOKEN"))
    for name in (*own, "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("MBC_READER", "small")  # which opens faster
    share_language_model(cache := tmp_path_factory.getbasetemp() / "caches" / tmp_path.name)  # `mktemp` is slow
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def mbc(monkeypatch):
    """Runs `mbc` with arguments in this process; it has to end with this exit code, or with any if `code` is None."""
    monkeypatch.setattr("typer.testing._get_command", lambda _: COMMANDS)

    def run(*arguments, stdin=None, code=0):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
        assert code in (None, result.exit_code), f"{arguments}: {result.exit_code}\n{result.stderr}"
        return result

    return run


@pytest.fixture
def refusal(mbc):
    """Runs `mbc` with arguments that it has to refuse with an exit code; gives its error, a line and one for a hint."""

    def run(code, *arguments):
        result = mbc(*arguments, code=code)
        assert result.stdout == "", arguments
        assert re.fullmatch(r"Error: .*\n(  .*\n)?", result.stderr), result.stderr
        return result.stderr

    return run


@pytest.fixture
def memory(home, monkeypatch):
    """The stub that every front end gets in place of a `Memory`; its bank does not exist."""
    stub = StubMemory([home / "memory.mbc"], "none")

    def made(*given, **named):
        other = StubMemory(*given, **named)
        stub.paths, stub.made_with = other.paths, other.made_with
        return stub

    monkeypatch.setattr("mbc_engine.memory.Memory", made)
    return stub


@pytest.fixture(scope="session")
def preset(tiny, tmp_path_factory):
    """A preset file of a tiny model with both reads."""
    path = tmp_path_factory.mktemp("presets") / "tiny.toml"
    path.write_text(tiny.config("gpt2", "bert", "model.routing=true").to_toml())
    return path


@pytest.fixture(scope="session")
def model(tiny, tmp_path_factory):
    """The folder of an untrained tiny model."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    overrides = ("gpt2", "bert", "model.routing=true")
    save_model(tiny.model(*overrides), tiny.config(*overrides), folder)
    return folder


@pytest.fixture
def notes(home):
    """Two files that can be memorised."""
    return write_notes(home / "notes")


def write_notes(folder):
    folder.mkdir()
    (folder / "ada.txt").write_text("Ada moved to Aalen in the spring. The river rose.")
    (folder / "bruno.md").write_text("Bruno moved to Bergen. The bridge held.")
    return folder


@pytest.fixture
def ingest(mbc, model):
    """Runs `mbc ingest` with the tiny model, reading files in this process."""
    return lambda *arguments, code=0: mbc("ingest", *arguments, "--model", model, "--workers", 0, code=code)


@pytest.fixture(scope="session")
def ingested(model, tmp_path_factory):
    """A bank of the notes in another folder."""
    folder, loaded = tmp_path_factory.mktemp("ingested"), load_model(model)
    with open_bank(loaded, folder / "memory.mbc") as bank:
        list(ingest_files(loaded, bank, [write_notes(folder / "notes")]))
        yield bank


@pytest.fixture
def bank(ingested, notes, home):
    """A bank that holds the notes: as if it had ingested them, which takes longer."""
    path = home / "memory.mbc"
    documents = [
        replace(document, origins=(document.origin._replace(source=str(notes / Path(document.origin.source).name)),))
        for document in ingested.documents(whole=True)
    ]
    with MemoryBank.open(path, create=ingested.header) as bank:
        bank.put(documents)
    return path


@pytest.fixture
def questions(home):
    """Makes a file of so many questions, with their documents and answers: `questions(44)`."""
    return lambda count: write_questions(home / "questions.jsonl", qa_examples(count))


@pytest.fixture
def record():
    """Makes a document from its content: `record("/a.txt", "Ada")`."""

    def make(source, content, part="", date=None):
        return Document(source, part, "", hashlib.sha256(content.encode()).hexdigest(), len(content), date)

    return make


@pytest.fixture
def make_bank(home):
    """Makes a bank of records without a model; a record of n bytes has n chunks, and codes 0 to n - 1 modulo 8."""

    def make(name, *records, keeps_origins=True, model="tiny"):
        shape = CodeShape(tokens=2, levels=1, num_codes=8, per_position=False)
        books = 0.125 * np.arange(24, dtype=np.float32).reshape(1, 1, 8, 3)
        signature = ModelSignature(model, "a" * 16, fingerprint(books))
        with MemoryBank.create(home / name, signature, shape, 3, keeps_origins=keeps_origins) as bank:
            codes = (np.arange(each.size).repeat(2).reshape(-1, 2, 1) % 8 for each in records)
            bank.put(list(map(StoredDocument.of, records, codes)))
        return home / name

    return make


@pytest.fixture
def small_bank(make_bank, record):
    """A bank of two documents, with 3 and 5 chunks."""
    return make_bank("made.mbc", record("/a.txt", "Ada"), record("/b.txt", "Bruno"))
