"""A tiny model, a memory around it, and clients of a server: of its app in this process, or of a process of its own."""

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from mbc_cli.asking import Asker
from mbc_cli.http.app import Served, application
from mbc_cli.http.documents import DocumentFolder
from mbc_cli.http.queue import Memory, Turns
from mbc_cli.http.security import Gate, Watched, WholeBody
from mbc_engine.bank import BankSizes, BankTotals, MemoryBank
from mbc_engine.paper.mbc import MBC
from mbc_engine.question import Answer, AskOptions

NAME = "tiny"


def names(bank: Path = Path("b.mbc")) -> list[str]:
    """What the bank has, by name."""
    with MemoryBank.open(bank, read_only=True) as memory:
        return sorted(origin.part or Path(origin.source).name for origin in memory.origins())


@pytest.fixture(scope="session")
def tiny_model(tiny: Any) -> MBC:
    return tiny.model("gpt2", "bert", "model.routing=true")  # type: ignore[no-any-return]


class ToldAsker:
    """Answers as it was told to, at once, and remembers who asked what."""

    def __init__(self, model: MBC, path: Path) -> None:
        self.model, self.paths, self.loading = model, (path,), 0.5
        self.options = AskOptions()
        self.batches: list[tuple[AskOptions, list[str]]] = []
        self.answer: Callable[[str], Any] = lambda question: f"to {question}"
        self.changes: dict[str, Any] = {}
        self.can_be_streamed = False

    def ask(self, questions: list[str], on_token: Callable[[str], None] | None = None) -> list[Answer]:
        self.batches.append((self.options, list(questions)))
        replies = [self._reply(question) for question in questions]
        for piece in (replies[0].text or "").split("|") if on_token else ():
            on_token(piece)  # type: ignore[misc]
        return [replace(reply, text=reply.text and reply.text.replace("|", "").strip()) for reply in replies]

    def close(self) -> None: ...

    def _reply(self, question: str) -> Answer:
        reply = Answer(
            question=question,
            text=self.answer(question),
            confidence=None,
            sources=(),
            seconds={"search": 0.1, "answer": 0.0, "sources": 0.0},
            totals=BankTotals(1, 1, 1),
            sizes=BankSizes(codes=8, texts=20, codebook=8, file=60),
        )
        return replace(reply, **self.changes)


@dataclass
class Running:
    """A server's app in this process; `guarded` is all of it, `app` what is behind the gate."""

    app: Any
    guarded: Any
    client: httpx.AsyncClient
    memory: Memory
    turns: Turns
    asker: Any

    async def ask(self, question: str = "Who?", **fields: Any) -> httpx.Response:
        message = {"role": "user", "content": question}
        return await self.client.post("/v1/chat/completions", json={"model": NAME, "messages": [message], **fields})

    async def add(self, given: Any) -> httpx.Response:
        return await self.client.post("/v1/documents", json=given)


@pytest.fixture
def serving(tiny_model: MBC, home: Path) -> Iterator[Callable[..., Running]]:
    """Starts an app around the tiny model, with answers that are told: `serving(room=2)`."""
    started: list[Turns] = []
    with DocumentFolder(home / "b.documents").opened() as folder:

        def start(
            *,
            asker: Any = None,
            room: int = 64,
            most: int = 16,
            token: str | None = None,
            max_body: int = 1 << 20,
            seconds: float = 30.0,
            is_begun: bool = True,
        ) -> Running:
            memory = Memory(asker or ToldAsker(tiny_model, home / "b.mbc"), folder)
            if asker:
                memory.catch_up()
            asker = memory.asker
            crashes: list[BaseException] = []
            turns = Turns(memory.working(), most=most, room=room, crashed=crashes.append)
            served = Served(NAME, asker.paths, asker.loading, folder, turns, token is not None)
            app = application(served)
            guarded = Watched(
                Gate(WholeBody(app, max_body, seconds), token), lambda line: None, traceback.print_exception
            )
            client = httpx.AsyncClient(transport=httpx.ASGITransport(guarded), base_url="http://127.0.0.1:8377")
            if is_begun:
                turns.start()
                started.append(turns)
            return Running(app, guarded, client, memory, turns, asker)

        yield start
        for turns in started:
            assert turns.close(10)


@pytest.fixture
def asker(tiny_model: MBC, home: Path) -> Asker:
    """Asks the bank with the tiny model."""
    return Asker(tiny_model, [home / "b.mbc"], AskOptions(), NAME, 0.0)


TOKEN = "0123456789abcdef-secret"


@dataclass
class Process:
    """A server in a process of its own."""

    process: "subprocess.Popen[str]"
    url: str
    folder: Path | None = None

    @property
    def root(self) -> str:
        return self.url.removesuffix("/v1")

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal and wait; the exit code, and what was said on stderr."""
        self.process.send_signal(number)
        _, told = self.process.communicate(timeout=60)
        return self.process.returncode, told


@pytest.fixture
def start(model: Path, home: Path) -> Iterator[Callable[..., Process]]:
    """Starts `mbc serve` with the tiny model on a free port: `start("--queue", 2)`; all are killed in the end."""
    with starting(model, home) as start:
        yield start


@pytest.fixture(scope="module")
def narrow(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server that wants a token and lets one request wait, which several tests ask."""
    folder = tmp_path_factory.mktemp("narrow")
    (folder / "token").write_text(f"{TOKEN}\n")
    with starting(model, folder) as start:
        server = start("--token-file", "token", "--queue", 1, "--batch", 1, "--verbose")
        server.folder = folder
        yield server


@contextmanager
def starting(model: Path, folder: Path) -> Iterator[Callable[..., Process]]:
    """Starts servers of a model in a folder, and kills them in the end."""
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
