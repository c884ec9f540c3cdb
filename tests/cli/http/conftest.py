"""A tiny model, its memory, and servers with clients, in this process or in one of their own."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from mbc_cli.http.app import Served, application
from mbc_cli.http.documents import ClientDocuments, DocumentFolder
from mbc_cli.http.server import with_access_control
from mbc_cli.service import Service
from mbc_engine.answer import Answer, AskOptions
from mbc_engine.bank import BankSizes, BankTotals, MemoryBank
from mbc_engine.memory import Memory
from mbc_engine.paper.mbc import MBC
from tests.needs import PATIENCE

NAME = "tiny"


def names(bank: Path = Path("b.mbc")) -> list[str]:
    """The names of the documents in a bank."""
    with MemoryBank.open(bank, read_only=True) as memory:
        return sorted(origin.part or Path(origin.source).name for origin in memory.origins())


@pytest.fixture(scope="session")
def tiny_model(tiny: Any) -> MBC:
    return tiny.model("gpt2", "bert", "model.routing=true")  # type: ignore[no-any-return]


class ScriptedMemory(Memory):
    """Stores documents, but gives scripted answers at once and records what was asked."""

    def __init__(self, model: MBC, path: Path) -> None:
        super().__init__([path], model)
        self.batches: list[tuple[AskOptions, list[str]]] = []
        self.answer: Callable[[str], Any] = lambda question: f"to {question}"
        self.changes: dict[str, Any] = {}

    def ask(
        self, questions: Any, options: Any = None, *, on_token: Callable[[str], None] | None = None
    ) -> list[Answer]:
        self.batches.append((options, list(questions)))
        answers = [self._answer(question) for question in questions]
        for token in (answers[0].text or "").split("|")[:-1] if on_token else ():
            on_token(token)
        return [replace(own, text=own.text and own.text.replace("|", "").strip()) for own in answers]

    def _answer(self, question: str) -> Answer:
        answer = Answer(
            question=question,
            text=self.answer(question),
            confidence=None,
            sources=(),
            seconds={"search": 0.1, "answer": 0.0, "sources": 0.0},
            totals=BankTotals(1, 1, 1),
            sizes=BankSizes(codes=8, words=10, texts=20, codebook=8, file=60),
        )
        return replace(answer, **self.changes)


@dataclass
class Running:
    """A server's app in this process."""

    app: Any
    client: httpx.AsyncClient
    service: Service
    memory: Any
    crashes: list[BaseException]

    async def ask(self, question: str = "Who?", **fields: Any) -> httpx.Response:
        message = {"role": "user", "content": question}
        return await self.client.post("/v1/chat/completions", json={"model": NAME, "messages": [message], **fields})

    async def add(self, body: Any) -> httpx.Response:
        return await self.client.post("/v1/documents", json=body)


@pytest.fixture
async def serving(tiny_model: MBC, home: Path) -> AsyncIterator[Callable[..., Running]]:
    """Starts an app around the tiny model, with scripted answers: `serving(capacity=2)`."""
    started: list[Running] = []
    with DocumentFolder(home / "b.documents").opened() as folder:

        def start(
            *,
            memory: Memory | None = None,
            capacity: int = 64,
            batch: int = 16,
            token: str | None = None,
            max_body: int = 1 << 20,
            body_seconds: float = 30.0,
            is_started: bool = True,
        ) -> Running:
            memory = memory or ScriptedMemory(tiny_model, home / "b.mbc")
            documents = ClientDocuments(memory, folder)
            if is_started:
                documents.sync()
            service = Service(memory, capacity=capacity, batch=batch)
            app = application(Served(service, documents, NAME), has_token=token is not None)
            crashes: list[BaseException] = []
            guard = with_access_control(
                app,
                token,
                max_body,
                on_crash=crashes.append,
                body_seconds=body_seconds,
            )
            client = httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url="http://127.0.0.1:8377")
            running = Running(app, client, service, memory, crashes)
            if is_started:
                started.append(running)
            return running

        yield start
        for running in started:
            await asyncio.wait_for(asyncio.wrap_future(running.service.close()), PATIENCE)


TOKEN = "0123456789abcdef-secret"


@dataclass
class Process:
    """A server in its own process."""

    process: "subprocess.Popen[str]"
    url: str
    folder: Path | None = None

    @property
    def root(self) -> str:
        return self.url.removesuffix("/v1")

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal and wait; returns the exit code and stderr."""
        self.process.send_signal(number)
        _, stderr = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, stderr


@pytest.fixture
def start(model: Path, home: Path) -> Iterator[Callable[..., Process]]:
    """Starts `mbc serve` with the tiny model on a free port: `start("--queue", 2)`; all are killed at the end."""
    with starting(model, home) as start:
        yield start


@pytest.fixture(scope="module")
def narrow(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server with a token and a queue of one, shared by several tests."""
    folder = tmp_path_factory.mktemp("narrow")
    (folder / "token").write_text(f"{TOKEN}\n")
    with starting(model, folder) as start:
        server = start("--token-file", "token", "--queue", 1, "--batch", 1, "--verbose")
        server.folder = folder
        yield server


@pytest.fixture(scope="module")
def fuzzed(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server with a token, for generated requests."""
    folder = tmp_path_factory.mktemp("fuzzed")
    (folder / "token").write_text(f"{TOKEN}\n")
    with starting(model, folder) as start:
        yield start("--token-file", "token")


@contextmanager
def starting(model: Path, folder: Path) -> Iterator[Callable[..., Process]]:
    """Starts servers with a model in a folder, and kills them at the end."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> Process:
        command = [sys.executable, "-m", "mbc_cli", "serve", "--bank", "b.mbc", "--model", str(model), "--port", "0"]
        process = subprocess.Popen(
            [*command, *map(str, arguments)],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[3])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http"), process.communicate()[1]
        return Process(process, url)

    try:
        yield start
    finally:
        for process in processes:
            process.kill()
            process.communicate()
