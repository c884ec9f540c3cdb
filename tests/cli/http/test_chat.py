"""Questions in OpenAI's format, and searches: what is asked, replied and refused."""

import asyncio
import json
from typing import Any

import openai
import pytest

from mbc_engine.answer import Confidence
from mbc_engine.bank import Selection
from mbc_engine.errors import BankBusy, ModelMismatch, NothingToRead
from tests.cli.http.conftest import TOKEN
from tests.cli.stub_memory import answer, source
from tests.needs import PATIENCE

SOURCE = source(passage="Ada moved to Aalen. All of it.", state="gone", text_from="bank")


def events(text):
    """The events of a stream, parsed, except `[DONE]`."""
    lines = text.split("\n\n")
    assert lines.pop() == ""
    assert all(line.startswith("data: ") for line in lines)
    data = [line.removeprefix("data: ") for line in lines]
    return [event if event == "[DONE]" else json.loads(event) for event in data]


def contents(chunks):
    return [chunk["choices"][0]["delta"]["content"] for chunk in chunks]


async def test_last_question_is_completed(serving):
    running = serving()
    running.memory.reply = lambda question: answer("Aalen", SOURCE)
    image = [{"type": "image_url", "image_url": {"url": "data:"}}, {"type": "text", "text": "Where did Ada move?"}]
    question = [{"type": "text", "text": "Did she like"}, {"type": "text", "text": "it there?"}]
    turns = [("system", "Be brief."), ("user", image), ("assistant", "Aalen"), ("user", "And when?")]
    turns += [("assistant", "Not in this memory."), ("user", question), ("assistant", None)]
    body = {"model": "tiny", "temperature": 0.7, "messages": [{"role": role, "content": text} for role, text in turns]}
    completion = (await running.client.post("/v1/chat/completions", json=body)).json()
    assert running.memory.batches[0][0] == ["Did Ada like it there?"]
    mbc = completion["mbc"]
    assert (mbc["question"], mbc["asked"]) == ("Did she like\nit there?", "Did Ada like it there?")
    assert (mbc["confidence"], mbc["label"], mbc["together"]) == (0.82, "high", 1)
    (choice,) = completion["choices"]
    message = {"role": "assistant", "content": "Aalen"}
    assert choice == {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    assert completion["usage"] == {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    (first,) = completion["sources"]
    assert (first["path"], first["state"], first["text_from"]) == (SOURCE.path, "gone", "bank")
    assert "passage" not in first


async def test_options_of_a_request(serving):
    running = serving()
    options = {"sources": 20, "read": "routed:3", "half_life": "4w", "exclude": ["*.csv"], "write": True}
    assert (await running.ask(max_tokens=40, mbc=options)).status_code == 200
    await running.ask(max_tokens=40, max_completion_tokens=100_000, mbc={"min_confidence": 0.5})
    first, second = (options for _, options in running.memory.batches)
    assert (first.read_mode, first.sources, first.write, first.max_new_tokens) == ("routed:3", 20, True, 40)
    assert (first.selection.half_life, first.selection.exclude) == (28.0, ("*.csv",))
    assert (second.max_new_tokens, second.min_confidence, second.write) == (512, 0.5, None)
    assert second.selection == Selection()


@pytest.mark.parametrize(
    ("said", "asked", "earlier"),
    [
        (["Who won?", "Perhaps: Ann Lee, or: Bob Ray", "And when?"], "when Ann Lee won?", (("Who won?", "Ann Lee"),)),
        (["Where is Ada?", "Perhaps: Aalen", "Who is Bo?"], "Who is Bo?", (("Where is Ada?", "Aalen"),)),
        (["Where is Hugo?", "Not in this memory.", "Who knows?"], "Who knows?", ()),
        (["Where is Ada?"], "Where is Ada?", ()),
    ],
)
async def test_a_follow_up_knows_the_likelier_answer(serving, said, asked, earlier):
    running = serving()
    turns = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(said)]
    await running.client.post("/v1/chat/completions", json={"model": "tiny", "messages": turns})
    ((questions, options),) = running.memory.batches
    assert (questions, options.earlier) == ([asked], earlier)


QUESTION, SEARCH = "/v1/chat/completions", "/v1/search"


@pytest.mark.parametrize(
    ("path", "fields", "param", "message"),
    [
        (QUESTION, {"messages": [{"role": "user", "content": None}]}, "messages", "no user message"),
        (QUESTION, {"messages": [{"role": "user", "content": "x" * 8001}]}, "messages", "8,001 characters"),
        (QUESTION, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages", "type text"),
        (QUESTION, {"messages": [{"content": "Who?"}]}, "messages.0.role", "required"),
        (QUESTION, {"n": 2}, "n", "not supported"),
        (QUESTION, {"mbc": {"only": ["*a*a*a*b"]}}, "mbc.only.0", "at most 3 places"),
        (QUESTION, {"mbc": {"exclude": ["/a\0b"]}}, "mbc.exclude.0", "cannot contain NUL"),
        (QUESTION, {"mbc": {"half_life": "0d"}}, None, "half_life 30d"),
        (QUESTION, {"mbc": {"x" * 100_000: 1}}, f"mbc.{'x' * 196}", "not permitted"),
        (SEARCH, {"query": " "}, "query", "empty"),
        (SEARCH, {"query": "x", "read": "sideways"}, None, "no read"),
        (SEARCH, {"query": "x", "read": "routed:1001"}, "read", "at most"),
        (SEARCH, {"query": "x", "sources": 3}, "sources", "not permitted"),
    ],
)
async def test_an_invalid_request_is_refused_in_a_line(serving, path, fields, param, message):
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Who?"}], **fields}
    response = await serving().client.post(path, json=body if path == QUESTION else fields)
    error = response.json()["error"]
    assert (response.status_code, set(error)) == (400, {"message", "type", "param", "code"})
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert message in error["message"]
    assert "\n" not in error["message"]


@pytest.mark.parametrize("body", [b"", b"[" * 100_000, b"\xff", b"null", b'"x"'])
async def test_invalid_json_is_refused(serving, body):
    running = serving()
    for path in ("/v1/chat/completions", "/v1/documents"):
        response = await running.client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")
    response = await running.client.post(path, content='{"text": "Ada"}', headers={"Content-Type": "a/b"})
    assert "Content-Type: application/json" in response.json()["error"]["message"]


async def test_unknown_routes_and_methods(serving):
    client = serving().client
    for path, status, methods in (
        ("nothing", 404, ""),
        ("documents", 405, "GET, POST"),
        ("documents/a", 405, "DELETE, GET"),
    ):
        response = await client.put(f"/v1/{path}")
        assert (response.status_code, response.headers.get("Allow", "")) == (status, methods)
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NothingToRead("It is empty.", hint="Widen --as-of or --only."), 400, "nothing_to_read"),
        (BankBusy("Another writes."), 503, "bank_busy"),
        (ModelMismatch("Another model."), 500, "model_error"),
        (ZeroDivisionError("secret"), 500, "unexpected"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_errors_of_the_memory(serving, error, status, code, stream):
    running = serving()
    running.memory.problem = error
    response = await running.ask(stream=stream)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert "secret" not in response.text
    assert running.crashes == ([error] if code == "unexpected" else [])
    if code == "nothing_to_read":
        assert response.json()["error"]["message"] == "It is empty. Widen as_of or only."
    running.memory.problem = None
    assert (await running.ask()).status_code == 200


async def test_stream(serving):
    running = serving()
    running.memory.reply = lambda question: answer("Ada moved. ", SOURCE, extracted="Ada", written_by="tiny-chat")
    response = await running.ask(stream=True, stream_options={"include_usage": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    first, *pieces, last, usage, done = events(response.text)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert contents(pieces) == ["Ada", " moved."]
    assert {chunk["id"] for chunk in (first, *pieces, last, usage)} == {first["id"]}
    assert (last["choices"][0]["finish_reason"], last["choices"][0]["delta"]) == ("stop", {})
    assert (last["mbc"]["written_by"], last["mbc"]["extracted"], len(last["sources"])) == ("tiny-chat", "Ada", 1)
    assert (usage["choices"], usage["usage"]["completion_tokens"], done) == ([], 2, "[DONE]")


@pytest.mark.parametrize(("text", "content"), [("Aalen", "Aalen"), ("", "(no answer)"), (None, "Not in this memory.")])
@pytest.mark.parametrize("stream", [False, True])
async def test_extracted_answer_is_one_chunk(serving, text, content, stream):
    running = serving()
    running.memory.streams = False
    running.memory.reply = lambda question: answer(text, SOURCE, confidence=Confidence(0.08, "low"))
    response = await running.ask(stream=stream)
    if stream:
        (_, piece, completion, _) = events(response.text)
        assert contents([piece]) == [content]
    else:
        completion = response.json()
        assert completion["choices"][0]["message"]["content"] == content
    assert (completion["mbc"]["answer"], completion["sources"][0]["path"]) == (text, SOURCE.path)


@pytest.mark.parametrize(
    ("failure", "code"), [(BankBusy("Another writes."), "bank_busy"), (ZeroDivisionError("secret"), "unexpected")]
)
async def test_error_within_a_stream(serving, failure, code):
    def ask(questions, options, *, on_token):
        on_token(" Ada ")
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(PATIENCE)
        raise failure

    running, loop = serving(), asyncio.get_running_loop()
    running.memory.ask = ask
    *_, chunk, error = events((await running.ask(stream=True)).text)
    assert contents([chunk]) == ["Ada"]
    assert error["error"]["code"] == code
    assert running.crashes == ([failure] if code == "unexpected" else [])


async def test_health_while_shutting_down(serving):
    running = serving()
    await asyncio.wrap_future(running.model_thread.close())
    health = await running.client.get("/health")
    assert (health.status_code, health.json()) == (503, {"status": "unavailable"})
    for response in (await running.ask(), await running.add({"text": "Ada moved."})):
        assert (response.status_code, response.json()["error"]["code"]) == (503, "unavailable")
        assert response.headers["retry-after"] == "1"


async def test_a_search_replies_whole_passages(serving):
    running = serving()
    running.memory.passages = (SOURCE, source("/notes/bruno.md", "Bruno moved."))
    body = {"query": " Where did Ada go? ", "top": 1, "only": ["*.txt"]}
    found = (await running.client.post("/v1/search", json=body)).json()
    ((queries, options, top),) = running.memory.queries
    assert (queries, options.selection.only, top) == (["Where did Ada go?"], ("*.txt",), 1)
    assert (found["object"], found["has_more"]) == ("list", False)
    (ada,) = found["data"]
    assert (ada["passage"], ada["words"], ada["line"]) == (SOURCE.passage, ["Ada"], SOURCE.line)


async def test_openai_client(serving, real_memory):
    running = serving(real_memory, token=TOKEN)
    client = openai.AsyncOpenAI(
        base_url="http://127.0.0.1:8377/v1", api_key=TOKEN, max_retries=0, http_client=running.client
    )
    with pytest.raises(openai.AuthenticationError):
        await client.with_options(api_key="none").models.list()
    running.client.headers["Authorization"] = f"Bearer {TOKEN}"
    assert (await running.add({"text": "Ada moved to Aalen.", "name": "\x1b[2Jada"})).status_code == 201
    (model,) = (await client.models.list()).data
    question: Any = {"model": model.id, "messages": [{"role": "user", "content": "Where did Ada move?"}]}
    reply = await client.chat.completions.create(**question, temperature=0.2, extra_body={"mbc": {"sources": 1}})
    assert [source["part"] for source in reply.model_extra["sources"]] == ["\x1b[2Jada"]
    stream = await client.chat.completions.create(**question, stream=True, stream_options={"include_usage": True})
    *chunks, usage = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == reply.choices[0].message.content
    assert chunks[-1].model_extra["sources"]
    assert usage.usage == reply.usage and usage.usage.total_tokens > 0
    with pytest.raises(openai.NotFoundError) as missing:
        await client.chat.completions.create(**{**question, "model": "gpt-4"})
    assert missing.value.code == "model_not_found"
