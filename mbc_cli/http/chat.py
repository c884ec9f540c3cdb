"""Questions and answers in the format of OpenAI's chat completions, whole or as a stream of server-sent events."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mbc_cli import request_fields as fields
from mbc_cli.http.server import ApiError, Json, api_error
from mbc_cli.question_options import ask_options
from mbc_cli.render.answer import answer_in, answer_json, answer_text, passage_json
from mbc_engine.answer import AskOptions
from mbc_engine.conversation import is_small_talk, rewritten
from mbc_engine.memory import Memory
from mbc_engine.names import parse_read_mode
from mbc_engine.text.decoding import storable

EVENTS: Final = "text/event-stream"
_MAX_MESSAGES: Final = 1000
_MAX_TURNS: Final = 40  # how many messages back a question may refer
_MAX_TOKENS: Final = 512
_MAX_READ_DOCUMENTS: Final = 1000


class Message(BaseModel):
    """A message of a conversation; only its text can be used."""

    model_config = ConfigDict(strict=True)

    role: str
    content: str | list[Json] | None = None

    @property
    def text(self) -> str:
        content = self.content
        if isinstance(content, list):
            content = "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))
        return storable(content or "").strip()

    @property
    def is_text(self) -> bool:
        parts = self.content if isinstance(self.content, list) else []
        return all(part.get("type") == "text" and isinstance(part.get("text"), str) for part in parts)


def _query(text: str) -> str:
    if not (text := storable(text).strip()):
        raise ValueError("the query is empty")
    return text


def _read_mode(mode: str) -> str:
    if (parse_read_mode(mode).number or 0) > _MAX_READ_DOCUMENTS:
        raise ValueError(f"a read takes at most {_MAX_READ_DOCUMENTS:,} documents")
    return mode


def _one(number: int | None) -> int | None:
    if number not in (None, 1):
        raise ValueError("not supported; each question gets one answer")
    return number


class SearchOptions(BaseModel):
    """The options of `mbc search`, which `mbc ask` has too."""

    model_config = ConfigDict(strict=True, extra="forbid")

    since: fields.Since = None
    as_of: fields.AsOf = None
    half_life: fields.HalfLife = None
    only: fields.Only = []
    exclude: fields.Exclude = []
    read: Annotated[fields.Word, AfterValidator(_read_mode)] | None = Field(
        None, description="How a trained model reads its bank: flat, routed:N, hierarchical:N."
    )

    def options(self, **others: Any) -> AskOptions:
        options = self.model_dump(exclude={"query", "top"})
        return ask_options(read_mode=options.pop("read"), **options, **others)


class MemoryOptions(SearchOptions):
    """The options of `mbc ask`."""

    sources: fields.SourceCount = AskOptions.sources
    min_confidence: fields.MinConfidence = None
    write: bool | None = Field(
        None, description="Let a language model write the answer; left out, if the server was started with --llm."
    )


class SearchRequest(SearchOptions):
    """What to look for, and in which documents."""

    query: Annotated[str, AfterValidator(_query)] = Field(
        max_length=fields.MAX_QUESTION_LENGTH, description="A question or a few words."
    )
    top: fields.Top = 5


class ChatRequest(BaseModel):
    """A question, the text of the user's last message. Unknown fields are ignored."""

    model_config = ConfigDict(strict=True)

    model: str
    messages: list[Message] = Field(min_length=1, max_length=_MAX_MESSAGES)
    stream: bool | None = None
    stream_options: Json | None = Field(None, description="With `include_usage`, a last chunk has the usage.")
    max_tokens: int | None = Field(
        None, ge=-1, description=f"Longest generated answer, {_MAX_TOKENS} at most; -1 as if left out."
    )
    max_completion_tokens: int | None = Field(None, ge=-1, description="The same; takes precedence over max_tokens.")
    n: Annotated[int | None, AfterValidator(_one)] = Field(None, json_schema_extra={"enum": [1, None]})
    mbc: MemoryOptions = MemoryOptions()

    @property
    def question(self) -> str:
        last = next((message for message in reversed(self.messages) if message.role == "user"), Message(role="user"))
        if not last.is_text:
            raise ApiError(400, "Only parts of type text are supported.", "invalid_value", "messages")
        if not (question := last.text):
            raise ApiError(400, "There is no user message with a question.", "no_question", "messages")
        if len(question) > fields.MAX_QUESTION_LENGTH:
            message = f"The question has {len(question):,} characters, more than {fields.MAX_QUESTION_LENGTH:,}."
            raise ApiError(400, message, "question_too_long", "messages")
        return question

    @property
    def options(self) -> AskOptions:
        max_tokens = self.max_completion_tokens or self.max_tokens or -1
        most = min(max_tokens, _MAX_TOKENS) if max_tokens > 0 else None
        return self.mbc.options(max_new_tokens=most, earlier=_last_turn(self.messages))


def completed_question(messages: Sequence[Message]) -> str:
    """The last question of a conversation, completed from the messages it refers to; empty if there is none."""
    question, answer = "", None
    for message in messages[-_MAX_TURNS:]:
        if is_small_talk(message.text) and message is not messages[-1]:
            continue
        if message.role == "user":
            question, answer = rewritten(message.text, question, answer), None
        elif message.role == "assistant":
            answer = answer_in(message.text)
    return question


def _last_turn(messages: Sequence[Message]) -> tuple[tuple[str, str], ...]:
    """The question and answer before the last question, as `AskOptions.earlier` has them."""
    said = [message for message in messages if message.role in ("user", "assistant") and message.text]
    while said and said[-1].role == "assistant":
        said.pop()
    match said[-3:]:
        case [Message(role="user") as question, Message(role="assistant") as reply, _]:
            answer = answer_in(reply.text)
            return () if answer is None else ((question.text, answer),)
    return ()


class Completion(BaseModel):
    """An answer with its sources, and under `mbc` everything that `mbc ask --json` prints."""

    id: str = Field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    object: Literal["chat.completion", "chat.completion.chunk"] = "chat.completion"
    created: int = Field(default_factory=lambda: int(time.time()))
    model: str
    choices: list[Json] = []
    usage: dict[Literal["prompt_tokens", "completion_tokens", "total_tokens"], int] = {}
    sources: list[Json] = Field([], description="As `mbc ask --json` prints them; mini found its answer in the first.")
    mbc: Json = {}


# A question as sent, in completed form, and what gets its answer's tokens, if streamed.
Question = tuple[str, str, Callable[[str], None] | None]


def answer(open_memory: Callable[[], Memory], options: AskOptions, questions: Sequence[Question]) -> list[Json]:
    """The content, usage, sources and `mbc` of a completion for each question."""
    memory = open_memory()
    originals, completed, on_tokens = map(list, zip(*questions, strict=True))
    on_token = on_tokens[0] if len(questions) == 1 and memory.can_stream(options) else None
    answers = memory.ask(completed, options, on_token=on_token)
    contents = [answer_text(answer) or "(no answer)" for answer in answers]
    count = memory.model.chunker.token_counts
    each = zip(originals, contents, count(originals), count(contents), answers, strict=True)
    fields = []
    for question, content, prompt, reply, answer in each:
        details = answer_json(answer.with_question(question), memory.paths, memory.loading)
        usage = {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}
        about = {"sources": details.pop("sources"), "mbc": {**details, "together": len(questions)}}
        fields.append({"content": content, "usage": usage, **about})
    return fields


def search(
    open_memory: Callable[[], Memory], options: AskOptions, top: int, queries: Sequence[str]
) -> list[list[Json]]:
    results = zip(queries, open_memory().search(queries, options, top=top), strict=True)
    return [[passage_json(query, passage) for passage in passages] for query, passages in results]


def completion(model: str, answer: Json) -> Json:
    message = {"role": "assistant", "content": answer.pop("content")}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    return Completion(model=model, choices=[choice], **answer).model_dump()


async def stream_events(
    model: str,
    token: str | None,
    tokens: asyncio.Queue[str | None],
    answer: asyncio.Future[Json],
    *,
    with_usage: bool,
) -> AsyncIterator[str]:
    """An answer as server-sent events; `token` is its first token, `tokens` has the others and ends with None."""
    names = {"id", "object", "created", "model"}
    head = Completion(model=model, object="chat.completion.chunk").model_dump(include=names)

    def chunk(delta: dict[str, str], finish_reason: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return event({**head, "choices": [choice], **more})

    try:
        yield chunk({"role": "assistant", "content": ""})
        is_begun, spaces = False, ""
        while token is not None:
            # Leading and trailing whitespace is not part of the answer.
            text = spaces + (token if is_begun else token.lstrip())
            spaces = text[len(text.rstrip()) :]
            if text := text.rstrip():
                is_begun = True
                yield chunk({"content": text})
            token = await tokens.get()
        try:
            fields = await answer
        except Exception as error:  # noqa: BLE001  # a stream's outermost handler: its status is already sent
            yield event(api_error(error).body)
            return
        if not is_begun:
            yield chunk({"content": fields["content"]})
        yield chunk({}, "stop", sources=fields["sources"], mbc=fields["mbc"])
        if with_usage:
            yield event({**head, "choices": [], "usage": fields["usage"]})
        yield "data: [DONE]\n\n"
    finally:
        answer.cancel()  # if the client has left


def event(value: Json) -> str:
    return f"data: {json.dumps(value)}\n\n"
