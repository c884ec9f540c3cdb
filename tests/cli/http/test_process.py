"""A server in its own process: many clients, its shutdown, and what survives a kill."""

import json
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest

from tests.cli.http.conftest import AUTHORISED, TOKEN, names
from tests.needs import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("server")]  # which tests share


def test_access_log_is_sanitised(shared_server):
    httpx.get(f"{shared_server.url}/%1b[31m", headers=AUTHORISED)
    assert "server" not in httpx.get(f"{shared_server.root}/health").headers
    code, stderr = shared_server.end()
    assert code == 0
    assert "GET /v1/␛[31m 404" in stderr
    assert "\x1b" not in stderr
    assert TOKEN not in stderr


def test_shutdown_finishes_requests(start, home):
    server = start()
    statuses = []
    has_responded = threading.Event()

    def add(batch):
        documents = [{"text": f"Story {number} of {batch}.", "name": f"{batch}-{number}"} for number in range(10)]
        try:
            statuses.append(httpx.post(f"{server.url}/documents", json=documents, timeout=PATIENCE).status_code)
        except httpx.TransportError:
            statuses.append(0)
        has_responded.set()

    with ThreadPoolExecutor(4) as pool:
        for batch in range(8):
            pool.submit(add, batch)
        has_responded.wait()
        code, stderr = server.end()
    assert code == 0
    assert stderr.endswith("Stopped. Everything that was acknowledged is saved.\n")
    assert {201} <= set(statuses) <= {201, 0}
    assert len(names(home / "b.mbc")) == 10 * statuses.count(201)
    assert not (home / "b.mbc-wal").exists()


def test_a_second_interrupt_ends_it_at_once(start, home):
    server = start()
    with socket.create_connection(("127.0.0.1", int(server.root.rpartition(":")[2]))) as half_sent:
        half_sent.sendall(b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
        httpx.get(f"{server.root}/health")  # what was sent before has arrived by now
        server.process.send_signal(signal.SIGINT)
        while "Shutting down" not in (line := server.process.stderr.readline()):
            assert line
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) == 130


class Client(threading.Thread):
    """Adds, and removes what it has added before, until the server is gone; remembers what was acknowledged, by name."""

    def __init__(self, url, number):
        super().__init__()
        self.url, self.number = url, number
        self.added: dict[str, str] = {}
        self.removed: set[str] = set()
        self.unsure = ""

    def run(self):
        with httpx.Client(timeout=PATIENCE) as http, suppress(httpx.TransportError):
            for turn in range(10_000):
                name = self.unsure = f"{self.number}-{turn}"
                document = {"name": name, "text": f"Client {self.number} says {turn}."}
                self.added[name] = http.post(f"{self.url}/documents", json=document).raise_for_status().json()["id"]
                if turn % 2:
                    first = self.unsure = next(iter(self.added))
                    http.delete(f"{self.url}/documents/{self.added.pop(first)}").raise_for_status()
                    self.removed.add(first)


def test_kills_lose_nothing_acknowledged(start, rounds, home):
    added, removed, unsure = set(), set(), set()
    for life in range(rounds(full=12, reduced=1)):
        server = start()
        clients = [Client(server.url, 100 * life + number) for number in range(16)]
        for client in clients:
            client.start()
        until = time.monotonic() + PATIENCE
        while sum(len(client.added) + len(client.removed) for client in clients) < 32 and time.monotonic() < until:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        for client in clients:
            client.join()
            added |= {*client.added} - {client.unsure}
            removed |= client.removed
            unsure.add(client.unsure)
    server = start()
    documents = names(home / "b.mbc")
    assert len(documents) == len(set(documents))
    assert added <= set(documents) <= added | unsure
    assert removed.isdisjoint(documents)
    assert httpx.get(f"{server.url}/bank", timeout=PATIENCE).json()["documents"] == len(documents)
    files = (home / "b.documents").glob("*.jsonl")
    assert sorted(json.loads(path.read_text())["id"] for path in files) == documents
    assert server.end()[0] == 0
