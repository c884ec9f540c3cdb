"""A server in its own process: many clients, its shutdown, and what survives a kill."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.http.conftest import names
from tests.needs import PATIENCE

pytestmark = pytest.mark.slow

TOKEN = "0123456789abcdef-secret"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def question(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def test_too_many_requests_are_told_to_retry(narrow: Any) -> None:
    httpx.post(f"{narrow.url}/documents", json={"text": "Ada moved to Aalen."}, headers=HEADERS)
    body = {"model": "tiny", "messages": question("Where?"), "max_tokens": 64}
    with httpx.Client(timeout=PATIENCE, headers=HEADERS) as http, ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(lambda _: http.post(f"{narrow.url}/chat/completions", json=body), range(24)))
    statuses = {reply.status_code for reply in replies}
    assert statuses == {200, 429}
    refused = next(reply for reply in replies if reply.status_code == 429)
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["error"]["type"] == "rate_limit_error"


def test_a_second_server_of_the_same_documents_is_refused(narrow: Any) -> None:
    command = [sys.executable, "-m", "mbc_cli", "serve", "--bank", "b.mbc", "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, cwd=narrow.folder, timeout=PATIENCE)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "Another mbc serve is using the folder" in refused.stderr
    assert narrow.process.poll() is None


def test_the_access_log_moves_no_cursor_and_holds_no_token(narrow: Any) -> None:
    httpx.get(f"{narrow.url}/%1b[31m", headers=HEADERS)
    assert "server" not in httpx.get(f"{narrow.root}/health").headers
    code, stderr = narrow.end()
    assert code == 0
    assert "GET /v1/␛[31m 404" in stderr
    assert "\x1b" not in stderr
    assert TOKEN not in stderr


def test_what_was_accepted_is_finished_when_the_server_is_to_end(start: Callable[..., Any], home: Path) -> None:
    server = start()
    statuses: list[int] = []
    has_responded = threading.Event()

    def add(batch: int) -> None:
        documents = [{"text": f"Story {one} of {batch}.", "name": f"{batch}-{one}"} for one in range(20)]
        try:
            statuses.append(httpx.post(f"{server.url}/documents", json=documents, timeout=PATIENCE).status_code)
        except httpx.TransportError:
            statuses.append(0)
        has_responded.set()

    with ThreadPoolExecutor(4) as pool:
        for batch in range(12):
            pool.submit(add, batch)
        has_responded.wait()
        code, stderr = server.end()
    assert code == 0
    assert stderr.endswith("Stopped. Everything that was acknowledged is saved.\n")
    assert {201} <= set(statuses) <= {201, 0}
    assert len(names(home / "b.mbc")) == 20 * statuses.count(201)
    assert not (home / "b.mbc-wal").exists()


def test_a_second_interrupt_ends_it_at_once(start: Callable[..., Any], home: Path) -> None:
    server = start()
    with socket.create_connection(("127.0.0.1", int(server.root.rpartition(":")[2]))) as half_sent:
        half_sent.sendall(b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
        httpx.get(f"{server.root}/health")  # what was sent before has arrived by now
        server.process.send_signal(signal.SIGINT)
        assert server.process.stderr is not None
        while "Shutting down" not in (line := server.process.stderr.readline()):
            assert line
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) == 130


class Client(threading.Thread):
    """Writes, reads and removes until the server is gone; remembers what was acknowledged."""

    def __init__(self, url: str, number: int) -> None:
        super().__init__()
        self.url, self.number = url, number
        self.kept: dict[str, str] = {}
        self.removed: dict[str, str] = {}
        self.unsure: set[str] = set()
        self.wrong: list[Any] = []
        self.asked = 0

    def run(self) -> None:
        with httpx.Client(timeout=PATIENCE) as http:
            try:
                for turn in range(10_000):
                    self.write(http, turn)
            except httpx.TransportError:
                return

    def write(self, http: httpx.Client, turn: int) -> None:
        name = f"{self.number}-{turn}"
        self.unsure.add(name)
        added = http.post(f"{self.url}/documents", json={"name": name, "text": f"Client {self.number} says {turn}."})
        if added.status_code != 201:
            self.wrong.append(added.text)
            return
        self.unsure.discard(name)
        self.kept[name] = added.json()["id"]
        asked = http.post(
            f"{self.url}/chat/completions", json={"model": "tiny", "messages": question(f"What does {name} say?")}
        )
        if asked.status_code == 200:
            self.asked += 1
        else:
            self.wrong.append(asked.text)
        if turn % 2:
            gone = next(iter(self.kept))
            id = self.kept.pop(gone)
            self.unsure.add(gone)
            if http.delete(f"{self.url}/documents/{id}").status_code != 200:
                self.wrong.append(gone)
            self.unsure.discard(gone)
            self.removed[gone] = id


def test_nothing_acknowledged_is_lost_or_doubled_by_a_kill(
    start: Callable[..., Any], rounds: Callable[..., int], home: Path
) -> None:
    kept: dict[str, str] = {}
    removed: dict[str, str] = {}
    unsure: set[str] = set()
    for life in range(rounds(full=12, reduced=1)):
        server = start()
        clients = [Client(server.url, 100 * life + number) for number in range(32)]
        for one in clients:
            one.start()
        until = time.monotonic() + PATIENCE
        while sum(len(one.kept) + len(one.removed) for one in clients) < 64 and time.monotonic() < until:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        for one in clients:
            one.join()
            assert one.wrong == []
            kept |= one.kept
            removed |= one.removed
            unsure |= one.unsure
        assert sum(one.asked for one in clients) >= 32  # a client that has written twice has asked in between
    server = start()
    found = names(home / "b.mbc")
    assert len(found) == len(set(found))
    assert set(kept) - unsure <= set(found) <= set(kept) | unsure
    assert set(removed).isdisjoint(found)
    with httpx.Client(timeout=PATIENCE) as http:
        for name, id in list(kept.items())[::20]:
            if name not in unsure:
                assert http.get(f"{server.url}/documents/{id}").json()["name"] == name
        figures = http.get(f"{server.url}/bank").json()
    assert figures["documents"] == len(found)
    assert sorted(json.loads(path.read_text())["id"] for path in (home / "b.documents").glob("*.jsonl")) == found
    assert server.end()[0] == 0
