"""Questions and answers in OpenAI's format, with scripted answers."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from mbc_engine.answer import Confidence, Source
from mbc_engine.bank import Selection
from mbc_engine.errors import BankBusy, BankError, ModelMismatch, NothingToRead
from mbc_engine.memory import Memory
from mbc_engine.paper.mbc import MBC
from tests.needs import PATIENCE


def events(text: str) -> list[Any]:
    """The events of a stream, parsed, except `[DONE]`."""
    lines = text.split("\n\n")
    assert lines.pop() == ""
    assert all(line.startswith("data: ") for line in lines)
    data = [line.removeprefix("data: ") for line in lines]
    return [own if own == "[DONE]" else json.loads(own) for own in data]


async def test_the_last_question_of_the_user_is_answered(serving: Callable[..., Any]) -> None:
    running = serving()
    response = await running.client.post(
        "/v1/chat/completions",
        json={
            "model": "tiny",
            "temperature": 0.7,
            "user": "somebody",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Who moved?"},
                {"role": "assistant", "content": None, "refusal": None},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Where did Ada"}, {"type": "text", "text": "go?"}],
                },
                {"role": "assistant", "content": "Well"},
            ],
        },
    )
    assert response.status_code == 200
    completion = response.json()
    assert completion["id"].startswith("chatcmpl-")
    assert (completion["object"], completion["model"]) == ("chat.completion", "tiny")
    assert completion["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "to Where did Ada\ngo?"},
            "finish_reason": "stop",
            "logprobs": None,
        }
    ]
    usage = completion["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 2
    assert completion["mbc"]["answer"] == "to Where did Ada\ngo?"
    assert completion["mbc"]["together"] == 1
    assert completion["sources"] == []


async def test_a_follow_up_is_completed_from_the_messages_before(serving: Callable[..., Any]) -> None:
    running = serving()
    roles = ("user", "assistant", "user", "assistant", "user")
    image = [{"type": "image_url", "image_url": {"url": "data:"}}, {"type": "text", "text": "Where did Ada move?"}]
    texts = [image, "Aalen", "And when?", "Not in this memory.", "Did she like it there?"]
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    response = await running.client.post("/v1/chat/completions", json={"model": "tiny", "messages": messages})
    answer = response.json()["mbc"]
    completed = "Did Ada like it there?"
    assert (answer["question"], answer["asked"]) == (texts[-1], completed)
    assert running.memory.batches[-1][1] == [completed]


async def test_the_options_of_a_request_are_those_of_the_question(serving: Callable[..., Any]) -> None:
    running = serving()
    own = {
        "sources": 20,
        "read": "routed:3",
        "since": "2024",
        "half_life": "4w",
        "exclude": ["*.csv"],
    }
    assert (await running.ask(max_tokens=40, mbc=own)).status_code == 200
    (options, _) = running.memory.batches[0]
    assert (options.read_mode, options.sources) == ("routed:3", 20)
    assert (options.max_new_tokens, options.beams, options.min_confidence) == (40, 1, None)
    assert (options.selection.half_life, options.selection.exclude) == (28.0, ("*.csv",))
    await running.ask(max_tokens=40, max_completion_tokens=100_000, mbc={"min_confidence": 0.5})
    (options, _) = running.memory.batches[1]
    assert (options.max_new_tokens, options.min_confidence) == (512, 0.5)
    await running.ask()
    assert running.memory.batches[2][0].selection == Selection()


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"messages": []}, "messages", "at least 1"),
        ({"messages": [{"role": "system", "content": "Hello"}]}, "messages", "no user message"),
        ({"messages": [{"role": "user", "content": " \n"}]}, "messages", "no user message"),
        ({"messages": [{"role": "user", "content": None}]}, "messages", "no user message"),
        ({"messages": [{"role": "user", "content": "x" * 8001}]}, "messages", "8,001 characters"),
        ({"messages": [{"role": "user", "content": "x"}] * 1001}, "messages", "at most 1000"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages", "type text"),
        ({"messages": [{"content": "Who?"}]}, "messages.0.role", "required"),
        ({"n": 2}, "n", "not supported"),
        ({"tools": [{"type": "function"}]}, "tools", "not supported"),
        ({"functions": [{}]}, "functions", "not supported"),
        ({"max_tokens": 0}, "max_tokens", "greater than"),
        ({"stream": "yes"}, "stream", "boolean"),
        ({"mbc": {"sources": 21}}, "mbc.sources", "less than"),
        ({"mbc": {"answers": "both"}}, "mbc.answers", "not permitted"),
        ({"mbc": {"read": "sideways"}}, None, "no read"),
        ({"mbc": {"read": "routed:1001"}}, "mbc.read", "at most"),
        ({"mbc": {"since": "soon"}}, None, "since 'soon' is not a date"),
        ({"mbc": {"half_life": "0d"}}, None, "half_life 30d"),
        ({"mbc": {"only": ["x" * 201]}}, "mbc.only.0", "at most 200"),
        ({"mbc": {"only": ["*a*a*a*b"]}}, "mbc.only.0", "at most 3 places"),
        ({"mbc": {"exclude": ["/a\0b"]}}, "mbc.exclude.0", "cannot contain NUL"),
        ({"mbc": {"x" * 100_000: 1}}, f"mbc.{'x' * 196}", "not permitted"),
        ({"mbc": {"min_confidence": 1.5}}, "mbc.min_confidence", "less than"),
    ],
)
async def test_an_invalid_request_is_refused_in_a_line(
    serving: Callable[..., Any], fields: dict[str, Any], param: str | None, message: str
) -> None:
    running = serving(is_started=False)
    response = await running.ask(**fields)
    assert response.status_code == 400
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert message in error["message"]
    assert "\n" not in error["message"]


async def test_another_model_is_not_found(serving: Callable[..., Any]) -> None:
    running = serving(is_started=False)
    for response in (await running.ask(model="gpt-4"), await running.client.get("/v1/models/gpt-4")):
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "model_not_found"
    (listed,) = (await running.client.get("/v1/models")).json()["data"]
    assert listed == (await running.client.get("/v1/models/tiny")).json()
    assert (listed["id"], listed["owned_by"]) == ("tiny", "mbc")


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"\xff", b"1" * 5000, b"null", b'"x"'])
async def test_invalid_json_is_refused(serving: Callable[..., Any], body: bytes) -> None:
    running = serving(is_started=False)
    for path in ("/v1/chat/completions", "/v1/documents"):
        response = await running.client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert response.status_code == 400
        assert response.json()["error"]["type"] == "invalid_request_error"


async def test_another_content_type_than_json_is_refused(serving: Callable[..., Any]) -> None:
    running = serving(is_started=False)
    response = await running.client.post("/v1/documents", content='{"text": "Ada"}', headers={"Content-Type": "a/b"})
    assert response.status_code == 400
    assert "Content-Type: application/json" in response.json()["error"]["message"]


async def test_unknown_paths_and_methods_get_an_error_in_the_same_shape(serving: Callable[..., Any]) -> None:
    running = serving(is_started=False)
    for method, path, status in (("GET", "/v1/nothing", 404), ("PUT", "/v1/models", 405), ("GET", "/docs", 404)):
        response = await running.client.request(method, path)
        assert response.status_code == status
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NothingToRead("It is empty.", hint="Widen --as-of or --only."), 400, "nothing_to_read"),
        (BankBusy("Another writes."), 503, "bank_busy"),
        (BankError("It is damaged."), 500, "bank_error"),
        (ModelMismatch("Another model."), 500, "model_error"),
        (ZeroDivisionError("secret"), 500, "unexpected"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_errors_of_the_memory_have_a_status_and_no_traceback(
    serving: Callable[..., Any], error: Exception, status: int, code: str, stream: bool
) -> None:
    def fail(question: str) -> str:
        raise error

    running = serving()
    running.memory.answer = fail
    response = await running.ask(stream=stream)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert "secret" not in response.text
    assert running.crashes == ([error] if code == "unexpected" else [])
    if code == "nothing_to_read":
        assert response.json()["error"]["message"] == "It is empty. Widen as_of or only."
    running.memory.answer = lambda question: "Aalen"
    assert (await running.ask()).status_code == 200


async def test_a_stream_says_the_pieces_and_then_the_rest(serving: Callable[..., Any]) -> None:
    running = serving()
    running.memory.answer = lambda question: " Ada| moved |to Aalen. |"
    response = await running.ask(stream=True, stream_options={"include_usage": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    first, *pieces, last, usage, done = events(response.text)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [chunk["choices"][0]["delta"]["content"] for chunk in pieces] == ["Ada", " moved", " to Aalen."]
    assert {chunk["id"] for chunk in (first, *pieces, last, usage)} == {first["id"]}
    assert (last["choices"][0]["finish_reason"], last["choices"][0]["delta"]) == ("stop", {})
    assert last["mbc"]["answer"] == "Ada moved to Aalen."
    assert last["sources"] == []
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] > 0
    assert done == "[DONE]"


async def test_an_answer_that_is_not_generated_is_streamed_in_one_piece(serving: Callable[..., Any]) -> None:
    running = serving()
    _, whole, last, done = events((await running.ask("Who?", stream=True)).text)
    assert whole["choices"][0]["delta"] == {"content": "to Who?"}
    assert (last["choices"][0]["finish_reason"], done) == ("stop", "[DONE]")


async def test_an_answer_is_written_if_a_request_asks_for_it(serving: Callable[..., Any]) -> None:
    running = serving()
    running.memory.answer = lambda _: "Ada |moved.|"
    running.memory.changes = {"confidence": Confidence(0.9, "high"), "extracted": "Ada", "written_by": "tiny-chat"}
    _, *pieces, last, _ = events((await running.ask(stream=True, mbc={"write": True})).text)
    assert [piece["choices"][0]["delta"] for piece in pieces] == [{"content": "Ada"}, {"content": " moved."}]
    assert (last["mbc"]["written_by"], last["mbc"]["extracted"]) == ("tiny-chat", "Ada")
    await running.ask()
    assert [options.write for options, _ in running.memory.batches] == [True, False]


async def test_a_model_that_cannot_write_says_so_in_the_requests_words(
    serving: Callable[..., Any], tiny_model: MBC, tmp_path: Path
) -> None:
    running = serving(memory=Memory([tmp_path / "b.mbc"], tiny_model))
    await running.add({"text": "Ada moved."})
    error = (await running.ask(mbc={"write": True})).json()["error"]
    assert error["message"].startswith("write does not apply to")
    assert error["code"] == "invalid_value"


SOURCE = Source(
    path="/notes/ada.txt",
    part="",
    share=0.75,
    ties=0,
    state="gone",
    sentence="Ada moved.",
    passage="Ada moved. All of it.",
    text_from="bank",
    start=0,
    date="2024-05-01",
    bank="b.mbc",
)


async def test_an_answer_comes_with_its_confidence_and_sources(serving: Callable[..., Any]) -> None:
    running = serving()
    running.memory.changes = {"text": "Aalen", "confidence": Confidence(0.87654, "high"), "sources": (SOURCE,)}
    completion = (await running.ask()).json()
    assert completion["choices"][0]["message"]["content"] == completion["mbc"]["answer"] == "Aalen"
    assert (completion["mbc"]["confidence"], completion["mbc"]["label"]) == (0.8765, "high")
    (source,) = completion["sources"]
    assert (source["path"], source["share"], source["sentence"]) == ("/notes/ada.txt", 0.75, "Ada moved.")
    assert (source["state"], source["text_from"]) == ("gone", "bank")
    assert "passage" not in source


@pytest.mark.parametrize(("answer", "content"), [("", "(no answer)"), (None, "Not in this memory.")])
@pytest.mark.parametrize("stream", [False, True])
async def test_without_an_answer_the_content_says_so_and_sources_are_the_closest(
    serving: Callable[..., Any], answer: str | None, content: str, stream: bool
) -> None:
    running = serving()
    running.memory.changes = {"text": answer, "confidence": Confidence(0.08, "low"), "sources": (SOURCE,)}
    response = await running.ask(stream=stream)
    if stream:
        (_, chunk, completion, *_) = events(response.text)
        assert chunk["choices"][0]["delta"]["content"] == content
    else:
        completion = response.json()
        assert completion["choices"][0]["message"]["content"] == content
    assert completion["mbc"]["answer"] == answer
    assert [source["path"] for source in completion["sources"]] == ["/notes/ada.txt"]


@pytest.mark.parametrize(
    ("failure", "code"), [(BankBusy("Another writes."), "bank_busy"), (ZeroDivisionError("secret"), "unexpected")]
)
async def test_an_error_in_the_middle_of_a_stream_ends_it(
    serving: Callable[..., Any], failure: Exception, code: str
) -> None:
    def ask(questions: list[str], options: Any, *, on_token: Callable[[str], None]) -> Any:
        on_token("Ada")
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(PATIENCE)
        raise failure

    running, loop = serving(), asyncio.get_running_loop()
    running.memory.ask = ask
    *_, chunk, error = events((await running.ask(stream=True)).text)
    assert chunk["choices"][0]["delta"]["content"] == "Ada"
    assert error["error"]["code"] == code
    assert running.crashes == ([failure] if code == "unexpected" else [])


async def test_a_server_that_is_shutting_down_is_not_healthy(serving: Callable[..., Any]) -> None:
    running = serving(is_started=False)
    await asyncio.wrap_future(running.service.close())
    health = await running.client.get("/health")
    assert (health.status_code, health.json()) == (503, {"status": "unavailable"})
    for response in (await running.ask(), await running.add({"text": "Ada moved."})):
        assert (response.status_code, response.json()["error"]["code"]) == (503, "unavailable")
        assert response.headers["retry-after"] == "1"


async def test_openais_client_asks_streams_and_understands_errors(
    serving: Callable[..., Any], tiny_model: MBC, home: Path
) -> None:
    token = "0123456789abcdef-secret"
    running = serving(memory=Memory([home / "b.mbc"], tiny_model), token=token)
    client = openai.AsyncOpenAI(
        base_url="http://127.0.0.1:8377/v1", api_key=token, max_retries=0, http_client=running.client
    )
    with pytest.raises(openai.AuthenticationError):
        await client.with_options(api_key="none").models.list()
    running.client.headers["Authorization"] = f"Bearer {token}"
    assert (await running.add({"text": "Ada moved to Aalen.", "name": "\x1b[2Jada"})).status_code == 201
    (model,) = (await client.models.list()).data
    assert await client.models.retrieve(model.id) == model
    question: Any = {"model": model.id, "messages": [{"role": "user", "content": "Where did Ada move?"}]}
    reply = await client.chat.completions.create(**question, temperature=0.2, extra_body={"mbc": {"sources": 1}})
    assert [source["part"] for source in reply.model_extra["sources"]] == ["\x1b[2Jada"]
    assert reply.usage.total_tokens > 0
    stream = await client.chat.completions.create(**question, stream=True, stream_options={"include_usage": True})
    *chunks, usage = [chunk async for chunk in stream]
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert streamed == reply.choices[0].message.content
    assert chunks[-1].model_extra["sources"]
    assert usage.usage == reply.usage
    with pytest.raises(openai.NotFoundError) as missing:
        await client.chat.completions.create(**{**question, "model": "gpt-4"})
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="not supported"):
        await client.chat.completions.create(**question, n=2)
