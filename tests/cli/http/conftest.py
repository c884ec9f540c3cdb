"""Servers with clients, in this process around a stub or a tiny model, or in one of their own."""

import asyncio
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from mbc_cli.http.documents import ClientDocuments, DocumentFolder
from mbc_cli.http.routes import Served, application
from mbc_cli.http.server import with_access_control
from mbc_cli.model_thread import ModelThread
from mbc_engine.bank import MemoryBank
from mbc_engine.memory import Memory
from tests.cli.stub_memory import StubMemory
from tests.needs import PATIENCE

NAME, TOKEN = "tiny", "0123456789abcdef-secret"
AUTHORISED = {"Authorization": f"Bearer {TOKEN}"}


def names(bank=Path("b.mbc")):
    """The names of the documents in a bank."""
    with MemoryBank.open(bank, read_only=True) as opened:
        return sorted(origin.part or Path(origin.source).name for origin in opened.origins())


@pytest.fixture(scope="session")
def tiny_model(tiny):
    return tiny.model("gpt2", "bert", "model.routing=true")


@pytest.fixture
def real_memory(tiny_model, home):
    """A memory of the tiny model, in b.mbc."""
    return Memory([home / "b.mbc"], tiny_model)


@dataclass
class Running:
    """A server's app in this process."""

    app: Any
    client: httpx.AsyncClient
    model_thread: ModelThread
    documents: ClientDocuments
    memory: Any
    crashes: list[BaseException]

    async def ask(self, question="Who?", **fields):
        message = {"role": "user", "content": question}
        return await self.client.post("/v1/chat/completions", json={"model": NAME, "messages": [message], **fields})

    async def add(self, body):
        return await self.client.post("/v1/documents", json=body)


@pytest.fixture
async def serving(home):
    """Starts an app around a memory, by default a stub: `serving(capacity=2)`."""
    threads = []
    with DocumentFolder(home / "b.documents").opened() as folder:

        def start(memory=None, *, capacity=64, token=None, upstream=None, max_body=1 << 20, origins=()):
            memory = memory or StubMemory([home / "b.mbc"], NAME)
            documents = ClientDocuments(memory, folder)
            if isinstance(memory, Memory):
                documents.sync()
            threads.append(model_thread := ModelThread(memory, capacity=capacity, batch=16))
            app = application(Served(model_thread, documents, NAME, upstream), has_token=token is not None)
            crashes = []
            guarded = with_access_control(app, token, max_body, on_crash=crashes.append, origins=origins)
            client = httpx.AsyncClient(transport=httpx.ASGITransport(guarded), base_url="http://127.0.0.1:8377")
            return Running(app, client, model_thread, documents, memory, crashes)

        yield start
        for model_thread in threads:
            await asyncio.wait_for(asyncio.wrap_future(model_thread.close()), PATIENCE)


@dataclass
class Process:
    """A server in its own process."""

    process: "subprocess.Popen[str]"
    url: str

    @property
    def root(self):
        return self.url.removesuffix("/v1")

    def end(self):
        """Send a signal and wait; returns the exit code and stderr."""
        self.process.terminate()
        _, stderr = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, stderr


@pytest.fixture(scope="module")
def shared_server(model, tmp_path_factory):
    """A server with a token, shared by several tests."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "token").write_text(f"{TOKEN}\n")
    with starting(model, folder) as start:
        yield start("--token-file", "token", "--verbose")


@pytest.fixture
def start(model, home):
    """Starts `mbc serve` with the tiny model on a free port: `start("--queue", 2)`; all are killed at the end."""
    with starting(model, home) as start:
        yield start


@contextmanager
def starting(model, folder):
    processes = []

    def start(*arguments):
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
        url = process.stdout.readline().strip()
        assert url.startswith("http"), process.communicate()[1]
        return Process(process, url)

    try:
        yield start
    finally:
        for process in processes:
            process.kill()
            process.communicate()
