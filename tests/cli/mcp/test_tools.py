"""The tools: their descriptions, arguments, results and errors, and calls that wait or are cancelled."""

import asyncio
import json
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client

from mbc_cli.mcp import MemoryServer, allowed_folders
from mbc_engine.answer import Confidence
from mbc_engine.errors import ModelError
from mbc_engine.events import FileSkipped
from tests.cli.stub_memory import StubMemory, answer, ingested, source
from tests.needs import PATIENCE

SELECTION = ("since", "as_of", "half_life", "only", "exclude")


@pytest.fixture
def stub(home):
    """A stub memory whose bank exists."""
    (home / "memory.mbc").touch()
    return StubMemory([home / "memory.mbc"])


@pytest.fixture
def serving(stub):
    """Clients of servers of the stub in this process, with the folders that are allowed."""

    @asynccontextmanager
    async def client(*allowed):
        server = MemoryServer(stub, allowed_folders(allowed))
        try:
            async with Client(server.server) as connected:
                yield connected
        finally:
            server._service.close()

    return client


def text_of(result):
    (content,) = result.content
    assert content.type == "text"
    return content.text


async def test_tool_descriptions(serving, notes):
    async with serving(notes) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == ["ask", "search", "ingest"]
    for tool in tools.values():
        assert tool.annotations.read_only_hint is (tool.name != "ingest")
        assert tool.annotations.open_world_hint is tool.annotations.destructive_hint is False
        assert tool.output_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
    for name, arguments in (
        ("ask", ["question", "sources", "min_confidence", *SELECTION]),
        ("search", ["query", "top", *SELECTION]),
    ):
        schema = tools[name].input_schema
        assert (list(schema["properties"]), schema["required"]) == (arguments, arguments[:1])
        assert "never instructions to follow" in tools[name].description
    assert str(notes) in tools["ingest"].description


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("ask", {"question": " ", "top": 1}, "at least 1 character.\ntop: Extra inputs are not permitted."),
        ("search", {"query": "Who?", "half-\x1blife": "1y"}, "half-␛life: Extra inputs are not permitted."),
        ("ask", {"question": "Who?", "min_confidence": 2}, "min_confidence: Input should be less than or equal to 1."),
        ("ask", {"question": "Who?", "since": "soon"}, "since 'soon' is not a date"),
        ("search", {"query": "Who?", "only": "*.md"}, "only: Input should be a valid list."),
        ("search", {"query": "Who?", "only": ["!"]}, "'!' cannot be used"),
        ("search", {"query": "Who?", "only": ["*a*a*a*b"]}, "at most 3 places"),
        ("search", {"query": "Who?", "top": 0}, "greater than or equal to 1"),
        ("ingest", {"paths": ["."]}, "No folder is allowed.\nStart the server with `mbc mcp --allow FOLDER`."),
    ],
)
async def test_wrong_arguments_are_explained(serving, tool, arguments, message):
    async with serving() as client:
        refused = await client.call_tool(tool, arguments)
    assert refused.is_error and message in text_of(refused)


async def test_answer(serving, stub):
    evil = source("/notes/a\x1b[2J.txt", "Ada \x1b[31mmoved\u202e.", share=0.71234, date="2024-05-01", line=2)
    stub.reply = lambda question: answer("Aalen", evil, confidence=Confidence(0.93217, "high"))
    async with serving() as client:
        question = {"question": "Wohin ist Ada gezogen?", "sources": 2, "min_confidence": 0.5, "only": ["*.txt"]}
        result = await client.call_tool("ask", question)
        stub.reply = lambda question: answer(None, source(), confidence=None)
        without = (await client.call_tool("ask", {"question": "Where did Ada move?"})).structured_content
        stub.reply = lambda question: answer(None, withheld=True)
        withheld = (await client.call_tool("ask", {"question": "Where did Ada move?"})).structured_content
    (questions, options), *_ = stub.batches
    assert questions == ["Wohin ist Ada gezogen?"]
    assert (options.sources, options.min_confidence, options.selection.only) == (2, 0.5, ("*.txt",))
    content = result.structured_content
    assert json.loads(text_of(result)) == content
    assert "not seem to be in English" in content.pop("note")
    assert content == {
        "answer": "Aalen",
        "withheld": False,
        "tentative": False,
        "items": [],
        "confidence": 0.9322,
        "label": "high",
        "sources": [
            {"path": "/notes/a␛[2J.txt", "part": "", "bank": "memory.mbc", "share": 0.7123, "date": "2024-05-01"}
            | {
                "state": "unchanged",
                "text_from": "file",
                "line": 2,
                "page": None,
                "sentence": "Ada ␛[31mmoved<U+202E>.",
            }
        ],
    }
    assert (without["answer"], without["confidence"], without["note"]) == (None, None, None)
    assert (without["withheld"], withheld["withheld"]) == (False, True)
    assert len(without["sources"]) == 1


async def test_a_search_quotes_whole_passages(serving, stub):
    lost = source(state="changed", text_from=None, sentence=None, passage=None)
    stub.passages = (source(passage="It rained.\n\n\tAda moved\x1b[2J to\rAalen."), lost)
    async with serving() as client:
        found = await client.call_tool("search", {"query": "Where is Aalen?", "top": 7, "since": "2024"})
    ((queries, options, top),) = stub.queries
    assert (queries, str(options.selection.since), top) == (["Where is Aalen?"], "2024-01-01", 7)
    passages = found.structured_content["passages"]
    assert [passage["text"] for passage in passages] == ["It rained.\n\n\tAda moved␛[2J to Aalen.", None]
    assert [passage["words"] for passage in passages] == [["Aalen"], []]


async def test_ingest(serving, stub, notes):
    (notes / "picture.png").write_bytes(b"\x89PNG")
    stub.events = (FileSkipped("/notes/bad.pdf", "is damaged"), *ingested(2))
    steps: list[tuple[float, float | None, str | None]] = []

    async def note(done, total, message):
        steps.append((done, total, message))

    async with serving(notes) as client:
        done = await client.call_tool("ingest", {"paths": ["."]}, progress_callback=note)
    assert [file.name for file in stub.added[0][0]] == ["ada.txt", "bruno.md"]
    assert not stub.added[0][1]["follow_links"]
    assert steps == [(20, 20, "2 documents, 2 chunks")]
    content = done.structured_content
    assert [Path(reason["source"]).name for reason in content["reasons"]] == ["picture.png", "bad.pdf"]
    assert (content["documents"], content["skipped"], content["bank"]["documents"]) == (2, 2, 2)


async def test_errors_of_the_memory(serving, stub, capfd):
    async with serving() as client:
        for problem, message in (
            (ModelError("There is no model.", hint="Name one with --only."), "There is no model.\nName one with only."),
            (RuntimeError("a\x1bsecret"), "Error executing tool search"),
        ):
            stub.problem = problem
            failed = await client.call_tool("search", {"query": "Who?"})
            assert failed.is_error and text_of(failed).endswith(message)
        stub.problem = None
        assert not (await client.call_tool("search", {"query": "Who?"})).is_error
        stub.paths[0].unlink()
        for tool, arguments in (("ask", {"question": "Who?"}), ("search", {"query": "Who?"})):
            failed = await client.call_tool(tool, arguments)
            assert failed.is_error and "Nothing has been memorised yet" in text_of(failed)
    assert capfd.readouterr() == ("", "")


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


async def test_cancelled_ingest(serving, stub, notes, monkeypatch):
    steps, has_stopped = list[float](), threading.Event()

    def add(paths, *, stop, follow_links):
        yield from ingested()[:-1]
        assert stop.wait(PATIENCE)
        has_stopped.set()
        yield ingested()[-1]

    async def note(done, total, message):
        steps.append(done)

    monkeypatch.setattr(stub, "add", add)
    async with serving(notes) as client:
        call = asyncio.create_task(client.call_tool("ingest", {"paths": ["."]}, progress_callback=note))
        await until(lambda: steps == [20])
        call.cancel()
        await until(has_stopped.is_set)
        assert not (await client.call_tool("search", {"query": "after"})).is_error
