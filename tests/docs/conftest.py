"""The home that a reader of the pages starts with: files, banks, models, runs, and a simulated hub."""

import json
import lzma
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from mbc_engine.datasets.newswire import stories
from mbc_engine.experiments.settings import load_suite
from tests.docs import shim, warm
from tests.docs.markdown import ROOT
from tests.docs.reader import CTRL_C, PROGRAMS, Reader
from tests.needs import share_language_model

# Small enough to be trained in a second; the sizes of the presets are for real base LMs.
SMALL = (
    "training.epochs=1",
    "training.precision=float32",
    "training.batch_size=8",
    "training.accumulate=1",
    "model.tokens=4",
    "model.lora.layers=1",
    "model.documents.window=32",
    "model.questions.window=32",
    "model.aggregator.blocks=1",
    "model.aggregator.hidden=32",
    "model.prefix.hidden=16",
)
SMALL_ROUTED = (
    "training.epochs=1",
    "training.precision=float32",
    "training.batch_size=8",
    "training.losses.reconstruction=0",
    "model.codebook.codes=4",
    "model.lora.layers=1",
)
SUITE = f"""
title = "Small"
methods = ["mbc", "mbc-empty", "uniform"]
protocols = ["online", "retention", "scaling", "code-usage"]
documents = 4
rates = [1e-3]
document_window = 16
retention = {{ first = 2, step = 2, further = 2 }}
scaling = [2]
question_training = {{ epochs = 1, batch_size = 8 }}
bases = [{{ name = "tiny", title = "Tiny", preset = "distilgpt2", changes = {json.dumps(SMALL)} }}]
datasets = [{{ name = "people", title = "People", train = ["train.jsonl"], test = "questions.jsonl" }}]
"""
BRIDGE = "Ada Krummholz repaired the bridge of Aalen in 1954. The river had risen in the spring."
FILES = {
    "news/robots.txt": "The robotics competition in Delft honored Irene Berg for a robot that folds shirts.",
    "news/bridge.txt": BRIDGE,
    "news/sport/league.md": "# Sport\n\nHaifa leads the league after a 3-1 victory over Izmir. Bruno Adler scored twice.",
    "notes/ada.txt": BRIDGE,
    "notes/bruno.md": "Bruno Adler moved to Bergen in 1911. The bridge of Bergen was built in the same year.",
    "reviews.csv": "product,review\nkettle,It boils a litre in two minutes.\n",
    "notes/draft.md": "Not every plan for the ferry was drawn.",
    "notes/old.txt": "The old ferry was sold to a museum in Cadiz.",
    "notes/drafts/ferry.txt": "Nothing of this is certain.",
    "sport/league.txt": "Haifa leads the league.",
    "minutes/may.txt": "The council met on the second of May and chose Clara Vogt as its chair.",
    "token.txt": "a-token-of-sixteen-characters-and-more",
}


@pytest.fixture(autouse=True)
def only_its_own_tests_cover_the_engine(no_cover: None) -> None:
    """Pages that are followed say little about single lines."""


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder with `mbc`, `python` and the like of a reader's shell; the home is inside it."""
    folder = tmp_path_factory.mktemp("programs")
    address = folder / "warm"
    for name in PROGRAMS:
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{shim.__file__}" "{address}" {name} "$@"\n')
        program.chmod(0o755)
    environment = {
        "HOME": str(folder / "home"),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    with subprocess.Popen(
        [sys.executable, warm.__file__, str(address)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"warm\n"
        yield folder
        os.killpg(process.pid, 9)


@pytest.fixture(scope="session")
def home(programs: Path, tiny: Any) -> Path:
    """The home before a page is read; `reader` starts each page with a copy in the same place."""
    home = programs / "home"
    home.mkdir()
    _write_files(home)
    share_language_model(home / ".cache")
    _put_pretrained_models_into_the_cache(home / ".cache" / "huggingface" / "hub", tiny)
    reader = Reader(home, programs)
    for command in _HISTORY:
        _typed(reader, command)
    changes = _set(*SMALL, "training.epochs=900")
    reader.start(f"mbc train --preset distilgpt2 {changes} --data train.jsonl --run first", "exact match", CTRL_C)
    reader.end()
    for copy in (".local/share/mbc/runs/smollm2-135m-3", "runs/mine", "models/mine"):
        shutil.copytree(home / ".local/share/mbc/runs/first", home / copy)
    _typed(reader, "mkdir -p shared/models/ada && cp -r .local/share/mbc/runs/first/model shared/models/ada/notes-gpt2")
    return home


# What the reader did before opening a page.
_HISTORY = (
    "mbc ingest news sport notes articles.jsonl",
    "mbc ingest notes --bank team.mbc",
    "for bank in mine me shard-1 work small; do cp team.mbc $bank.mbc; done",
    "mbc ingest minutes --bank shard-2.mbc",
    "mbc eval --suite small.toml --run small",
    "mkdir elsewhere shared && cp -r .local/share/mbc/evaluations/small elsewhere",
    "cp -r .local/share/mbc/evaluations/small .local/share/mbc/evaluations/small-2",
    "openssl req -x509 -newkey ed25519 -nodes -subj /CN=localhost -keyout key.pem -out cert.pem",
)


@pytest.fixture
def reader(home: Path, programs: Path, tiny: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """A reader who opens a page; Python code of it runs in this process, which becomes the reader's."""
    kept = home.with_name("kept")
    if not kept.exists():
        shutil.copytree(home, kept, symlinks=True)
    shutil.rmtree(home)
    shutil.copytree(kept, home, symlinks=True)
    reader = Reader(home, programs)
    monkeypatch.chdir(home)
    for name in os.environ.keys() - reader.environment.keys() - {"PYTEST_CURRENT_TEST"}:
        monkeypatch.delenv(name)
    for name, value in reader.environment.items():
        monkeypatch.setenv(name, value)
    port = str(_free_port())
    digest = json.loads(_typed(reader, "mbc bank show notes/bruno.md --json"))["digest"]
    reader.stands_for = {
        r"/home/me\b": str(home),
        r"(?<!\.)/(mnt/)?shared\b": str(home / "shared"),
        r"\b8377\b": port,
        r"mbc serve\b(?!.*--port)": f"mbc serve --port {port}",
        r"\b9000\b": str(_free_port()),
        r"\b3f9a02c1d5e8\b": digest[:12],
        r"\b3f9a02c1\b": digest[:8],
        r"\bNAME\b": "runs/mine",
        r"(mbc calibrate --model \S+ --data) questions.jsonl": r"\1 train.jsonl --bank-size 4",
        r"newswire:train:5000 --run first": "newswire:train:40 --run second",
        r"mbc train --preset smollm2-135m": rf"\g<0> --base {tiny.bases['llama']} {_set(*SMALL_ROUTED)}",
        r"mbc train --preset (?!smollm2)\S+": rf"\g<0> {_set(*SMALL)}",
        r"(mbc models push \S+) ada/notes-gpt2": r"\1 ada/mine",
        r"mbc models pull ada/notes-gpt2(?! --rev)": r"\g<0> --force",
        r"^mbc config get": "mbc config set model mini && mbc config set ask.sources 3 && mbc config get",
        r"mbc ingest -$": "mbc ingest - --bank piped.mbc",
        r"--revision v2": "--revision v1",
        r"0\.0\.0\.0": "127.0.0.1",
    }
    yield reader
    reader.close()


def _typed(reader: Reader, command: str) -> str:
    ran = reader.type(command)
    assert ran.status == 0, f"{command}\n{ran.everything}"
    return ran.stdout


def _set(*changes: str) -> str:
    return " ".join(f"--set {change}" for change in changes)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _write_files(home: Path) -> None:
    for name, text in FILES.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    for name in ("news/old.pdf", "report.pdf"):
        (home / name).write_bytes(_pdf("The ferry of Cadiz sank in 1898."))
    news = list(islice(stories("test", 60), 60))
    rows = [
        {"id": story.id, "text": story.text, "question": question, "answers": [answer], "date": "2026-05-01"}
        for story in news
        for question, answer in story.questions[:1]
    ]
    # Short ones, as the language model encodes and decodes them.
    sentences = [row["text"].partition(". ")[0] + "." for row in rows[:20]]
    _write_rows(home / "articles.jsonl", [{"id": str(at), "text": text} for at, text in enumerate(sentences)])
    _write_rows(home / "questions.jsonl", rows[:8])
    _write_rows(home / "train.jsonl", rows[8:])
    _write_rows(
        home / "news.jsonl",
        [rows[at % len(rows)] | {"text": f"{at}. {rows[at % len(rows)]['text']}"} for at in range(910)],
    )
    with lzma.open(home / "squad_val.jsonl.xz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows[:8])
    (home / "small.toml").write_text(SUITE)
    (home / "data").mkdir()
    for dataset in load_suite("paper").datasets:
        for name in (*dataset.train, *dataset.questions_train, dataset.validation, dataset.test):
            if name and name.endswith(".csv"):
                (home / "data" / Path(name).name).touch()
    for name in (
        "recipes",
        "benchmarks",
        "examples",
        "tests",
        "constraints.txt",
        "requirements-lm.txt",
        "requirements-reader.txt",
        "pyproject.toml",
    ):
        (home / name).symlink_to(ROOT / name)


def _write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _pdf(line: str) -> bytes:
    """A page with a line of text."""
    text = f"BT /F1 12 Tf 72 720 Td ({line}) Tj ET"
    font = "<< /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font {font} >> >>",
        f"<< /Length {len(text)} >>\nstream\n{text}\nendstream",
    )
    page, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(page))
        page += f"{number} 0 obj\n{content}\nendobj\n".encode()
    table = "0000000000 65535 f \n" + "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(page)}\n%%EOF\n"
    return page + f"xref\n0 {len(objects) + 1}\n{table}{end}".encode()


def _put_pretrained_models_into_the_cache(cache: Path, tiny: Any) -> None:
    """Tiny models, under the names that the pages' commands use."""
    gpt2, t5 = tiny.bases["gpt2"], tiny.encoders["t5"]
    for name, model in {
        "distilbert/distilgpt2": gpt2,
        "openai-community/gpt2-xl": gpt2,
        "Qwen/Qwen3-0.6B": tiny.bases["llama"],
        "HuggingFaceTB/SmolLM2-135M-Instruct": tiny.bases["llama"],
        "google-t5/t5-small": t5,
        "google-t5/t5-base": t5,
        "google-t5/t5-large": t5,
    }.items():
        repository = cache / f"models--{name.replace('/', '--')}"
        (repository / "refs").mkdir(parents=True)
        (repository / "refs" / "main").write_text("0" * 40)
        (repository / "snapshots").mkdir()
        (repository / "snapshots" / ("0" * 40)).symlink_to(model)
