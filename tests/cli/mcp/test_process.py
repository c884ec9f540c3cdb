"""`mbc mcp` as a process: with the official client, what is on its streams, and how it ends."""

import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from mbc_engine.bank import MemoryBank
from tests.cli.conftest import Run
from tests.cli.mcp.conftest import text_of
from tests.needs import PATIENCE


def environment(home: Path) -> dict[str, str]:
    """What a client passes on, without the user's own folders and config."""
    own = {name: str(home / name) for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    return {
        **own,
        "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"],
        "PYTHONPATH": str(Path(__file__).parents[3]),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }


@contextmanager
def process(home: Path, *command: object) -> Iterator[subprocess.Popen[bytes]]:
    """A server with pipes to it."""
    started = subprocess.Popen(
        [sys.executable, *map(str, command)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment(home)},
        bufsize=0,
    )
    with started:
        try:
            yield started
        finally:
            started.kill()


def send(server: subprocess.Popen[bytes], number: int, method: str, **params: Any) -> None:
    assert server.stdin is not None
    server.stdin.write(
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
    )


def receive(server: subprocess.Popen[bytes]) -> Any:
    """The next line, as JSON."""
    assert server.stdout is not None
    assert select.select([server.stdout], [], [], PATIENCE)[0], "the server says nothing"
    return json.loads(server.stdout.readline())


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.mark.slow
async def test_an_assistant_fills_asks_and_searches_a_memory(model: Path, notes: Path, home: Path) -> None:
    command = ["-m", "mbc_cli", "mcp", "--bank", "memory.mbc", "--model", str(model), "--allow", "notes"]
    server = StdioServerParameters(command=sys.executable, args=command, env=environment(home), cwd=home)
    steps: list[tuple[float, float | None, str | None]] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        steps.append((done, total, message))

    async with Client(server, mode="legacy") as client:
        assert client.server_info is not None and client.server_info.name == "mbc"
        before = await client.call_tool("ask", {"question": "Who moved?"})
        assert before.is_error and text_of(before) == (
            f"Error executing tool ask: Nothing has been memorised yet: there is no bank at {home / 'memory.mbc'}.\n"
            "Memorise files with the `ingest` tool or with `mbc ingest FOLDER`."
        )
        (notes / "picture.png").write_bytes(b"\x89PNG")
        done = await client.call_tool("ingest", {"paths": [str(notes)]}, progress_callback=note)
        assert not done.is_error and json.loads(text_of(done)) == done.structured_content
        assert done.structured_content["documents"] == done.structured_content["bank"]["documents"] == 2
        assert [Path(own["source"]).name for own in done.structured_content["reasons"]] == ["picture.png"]
        assert steps[-1][0] == steps[-1][1] == sum(file.stat().st_size for file in notes.glob("*.[tm]*"))
        assert steps[-1][2] == "2 documents, 2 chunks"

        answer = await client.call_tool("ask", {"question": "Where did Ada move?", "sources": 2})
        assert not answer.is_error and isinstance(answer.structured_content["answer"], str)
        sources = answer.structured_content["sources"]
        assert {(Path(own["path"]).name, own["state"]) for own in sources} == {
            ("ada.txt", "unchanged"),
            ("bruno.md", "unchanged"),
        }

        found = await client.call_tool("search", {"query": "Where did Ada move?", "top": 1})
        (passage,) = found.structured_content["passages"]
        assert passage["text"] == Path(passage["path"]).read_text()
        assert passage["text"] in text_of(found)
    with MemoryBank.open(home / "memory.mbc", read_only=True) as bank:
        assert bank.totals().documents == 2


LOUD = """
import os, sys
from pathlib import Path
import anyio
from mbc_cli.mcp import MemoryServer, allowed_folders
from mbc_engine.events import DocumentsIngested, IngestFinished, IngestStarted
from mbc_engine.memory import Memory

class Loud(Memory):
    def add(self, paths, stop):
        yield IngestStarted(2, 20)
        print("stray")
        os.write(1, b"stray")
        os.system("echo stray")
        yield DocumentsIngested(1, 1, 0, 10, 0.0, ())
        stop.wait()
        Path("stopped").touch()
        yield IngestFinished(*[0] * 5, 0.0, 0.0, False, *[0] * 6)

anyio.run(MemoryServer(Loud([Path("none.mbc")], "none"), allowed_folders([Path("notes")])).run)
"""


def test_stdout_is_the_protocols_and_the_end_of_stdin_ends_work_and_server(notes: Path, home: Path) -> None:
    with process(home, "-c", LOUD) as server:
        assert server.stdin is not None and server.stdout is not None and server.stderr is not None
        send(server, 1, "initialize", **HELLO)
        assert receive(server)["result"]["serverInfo"]["name"] == "mbc"
        send(server, 2, "tools/call", name="ingest", arguments={"paths": ["."]}, _meta={"progressToken": "far"})
        step = receive(server)
        assert step["method"] == "notifications/progress"
        assert step["params"] == {
            "progressToken": "far",
            "progress": 10,
            "total": 20,
            "message": "1 document, 1 chunk",
        }
        server.stdin.close()
        assert server.wait(PATIENCE) == 0
        assert [json.loads(line)["jsonrpc"] for line in server.stdout.read().splitlines()] in ([], ["2.0"])
        assert server.stderr.read().count(b"stray") == 3
    assert (home / "stopped").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_end_of_stdin_lets_the_batch_end(notes: Path, home: Path, number: int) -> None:
    ending = "stop.wait()\n        os.write(2, b'!')\n        time.sleep(0.5)"
    slow = LOUD.replace("import os, sys", "import os, sys, time").replace("stop.wait()", ending)
    with process(home, "-c", slow) as server:
        assert server.stdin is not None and server.stderr is not None
        send(server, 1, "initialize", **HELLO)
        receive(server)
        send(server, 2, "tools/call", name="ingest", arguments={"paths": ["."]})
        server.stdin.close()
        while server.stderr.read(1) != b"!":
            pass
        server.send_signal(number)
        assert server.wait(PATIENCE) == 0
        assert server.stderr.read() == b""
    assert (home / "stopped").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(home: Path, number: int) -> None:
    with process(home, "-m", "mbc_cli", "mcp") as server:
        send(server, 1, "initialize", **HELLO)
        receive(server)
        server.send_signal(number)
        assert server.wait(PATIENCE) == 0
        assert server.stderr is not None and server.stderr.read() == b""


def test_the_missing_library_is_named_with_the_way_to_it(mbc: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *own: None if name == "mcp" else find(name, *own))
    result = mbc("mcp")
    assert result.exit_code == 2
    assert (
        result.stderr.splitlines()[1].strip()
        == "Install them, in mbc's folder: pip install -c constraints.txt -e '.[mcp]'"
    )


def test_what_is_allowed_has_to_be_a_folder(mbc: Run, notes: Path) -> None:
    result = mbc("mcp", "--allow", notes / "ada.txt")
    assert result.exit_code == 2 and "ada.txt is not a folder" in result.stderr
