"""`mbc mcp` as a process: with the official client, what is on its streams, and how it ends."""

import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.needs import PATIENCE

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Process(subprocess.Popen[bytes]):
    """A server with pipes to it."""

    def send(self, number, method, **params):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.stdin.write(json.dumps(message).encode() + b"\n")

    def receive(self):
        """The next line, as JSON."""
        assert select.select([self.stdout], [], [], PATIENCE)[0], "the server says nothing"
        return json.loads(self.stdout.readline())


@contextmanager
def server(*command):
    """A server that has been greeted."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with Process([sys.executable, *command], **pipes, env=env, bufsize=0) as process:
        try:
            process.send(1, "initialize", **HELLO)
            assert process.receive()["result"]["serverInfo"]["name"] == "mbc"
            yield process
        finally:
            process.kill()


LOUD = """
import os, sys, time
from pathlib import Path
import anyio
from mbc_cli.mcp import MemoryServer, allowed_folders
from tests.cli.stub_memory import StubMemory, ingested

class Loud(StubMemory):
    def add(self, paths, stop, follow_links):
        started, step, finished = ingested(2)
        yield started
        print("stray")
        os.write(1, b"stray")
        os.system("echo stray")
        yield step
        stop.wait()
        os.write(2, b"!")
        time.sleep(0.5)
        Path("stopped").touch()
        yield finished

anyio.run(MemoryServer(Loud([Path("none.mbc")]), allowed_folders([Path("notes")])).run)
"""


@pytest.mark.parametrize(
    "number", [None, *(pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGINT, signal.SIGTERM))]
)
def test_stray_output_surrogates_and_end_of_stdin(notes, home, number):
    (home / "none.mbc").touch()
    with server("-c", LOUD) as process:
        for question in ("Who\ud800?", "Who \U0001f600?"):
            process.send(2, "tools/call", name="ask", arguments={"question": question})
            assert process.receive()["result"]["structuredContent"]["answer"]
        process.send(2, "tools/call", name="ingest", arguments={"paths": ["."]}, _meta={"progressToken": "far"})
        step = process.receive()
        assert step["method"] == "notifications/progress"
        progress = {"progress": 20, "total": 20, "message": "2 documents, 2 chunks"}
        assert step["params"] == {"progressToken": "far", **progress}
        process.stdin.close()
        stderr = b""
        while b"!" not in stderr:
            stderr += process.stderr.read(1)
        if number is not None:
            process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        assert [json.loads(line)["jsonrpc"] for line in process.stdout.read().splitlines()] in ([], ["2.0"])
        assert (stderr.count(b"stray"), process.stderr.read()) == (3, b"")
    assert (home / "stopped").exists()


@pytest.mark.slow
def test_the_command_serves_until_a_signal(home):
    with server("-m", "mbc_cli", "mcp") as process:
        process.send_signal(signal.SIGTERM)
        assert (process.wait(PATIENCE), process.stderr.read()) == (0, b"")


def test_missing_extra(refusal, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *own: None if name == "mcp" else find(name, *own))
    assert "pip install -c constraints.txt -e '.[mcp]'" in refusal(2, "mcp")


def test_what_is_allowed_has_to_be_a_folder(mbc, notes):
    result = mbc("mcp", "--allow", notes / "ada.txt")
    assert result.exit_code == 2 and "ada.txt is not a folder" in result.stderr
