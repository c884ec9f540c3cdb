"""Questions and answers in the shapes of OpenAI's chat completions.

An answer as a stream of server-sent events, in OpenAI's chunks.
"""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from mbc_cli.asking_fields import LONGEST_QUESTION, QuestionFields, Word
from mbc_cli.http.queue import Answered, Ended
from mbc_cli.http.security import Refusal, ended, refusal, unexpected
from mbc_cli.render.answer import answer_json
from mbc_engine.config import parse_read_mode
from mbc_engine.errors import MBCError
from mbc_engine.question import AskOptions
from mbc_engine.text.decoding import storable

MOST_MESSAGES: Final = 1000
_MOST_TOKENS: Final = 512
_MOST_READ: Final = 1000


def _one_choice(number: Any) -> Any:
    if type(number) is int and number > 1:
        raise ValueError("each question gets one answer; leave out n")
    return number


def _no_tools(tools: Any) -> Any:
    if isinstance(tools, list) and tools:
        raise ValueError("tools are not supported; leave them out")
    return tools


_Tools = Annotated[Annotated[list[Any], Field(max_length=0)] | None, BeforeValidator(_no_tools)]
_Number = Annotated[Annotated[int, Field(ge=1, le=1)] | None, BeforeValidator(_one_choice)]


class _Given(BaseModel):
    model_config = ConfigDict(strict=True)


class Part(_Given):
    """A part of a message; only texts can be used."""

    type: str
    text: str | None = None


class Message(_Given):
    """What somebody said."""

    role: str
    content: str | list[Part] | None = None


class StreamOptions(_Given):
    """What a stream tells beside the answer."""

    include_usage: bool | None = None


class MemoryOptions(QuestionFields):
    """The options of `mbc ask`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    read: Word | None = Field(
        None,
        description="How a model of the paper's method reads its bank: flat, routed:N, hierarchical:N. "
        "Other models refuse it.",
    )


class ChatRequest(_Given):
    """A question: the text of the user's last message. Unknown fields are ignored."""

    model: str
    messages: list[Message] = Field(
        min_length=1,
        max_length=MOST_MESSAGES,
        json_schema_extra={
            "contains": {
                "type": "object",
                "properties": {"role": {"const": "user"}, "content": {"type": ["string", "array"]}},
                "required": ["role", "content"],
            }
        },
    )
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1, description=f"Longest generated answer, {_MOST_TOKENS} at most.")
    max_completion_tokens: int | None = Field(None, ge=1, description="The same; takes precedence over max_tokens.")
    n: _Number = None
    tools: _Tools = None
    functions: _Tools = None
    mbc: MemoryOptions = MemoryOptions()

    def question(self) -> str:
        """What is asked.

        Raises:
            Refusal: there is no question, or one that is too long.
        """
        last = next((message for message in reversed(self.messages) if message.role == "user"), None)
        said = None if last is None else last.content
        if isinstance(said, list):
            if any(part.type != "text" or part.text is None for part in said):
                raise Refusal(400, "Only parts of type text can be used.", "invalid_value", param="messages")
            said = "\n".join(part.text for part in said if part.text)
        question = storable(said or "").strip()
        if not question:
            raise Refusal(400, "There is no message of the user that asks something.", "no_question", param="messages")
        if len(question) > LONGEST_QUESTION:
            raise Refusal(
                400,
                f"The question has {len(question):,} characters, more than {LONGEST_QUESTION:,}.",
                "question_too_long",
                param="messages",
            )
        return question

    def options(self) -> AskOptions:
        """How it is to be answered.

        Raises:
            ConfigError: a value is not valid, or two of them contradict each other.
        """
        own = self.mbc
        if own.read is not None and (parse_read_mode(own.read).number or 0) > _MOST_READ:
            raise Refusal(400, f"A read takes at most {_MOST_READ:,} documents.", "invalid_value", param="mbc.read")
        return replace(
            own.options(),
            read_mode=own.read,
            max_new_tokens=min(
                self.max_completion_tokens or self.max_tokens or AskOptions.max_new_tokens, _MOST_TOKENS
            ),
        )


class SourceShape(BaseModel):
    """A document an answer came from. The first is the one the answer was read in, where it was read."""

    model_config = ConfigDict(extra="allow")

    path: str
    part: str
    share: float
    ties: int
    state: str
    sentence: str | None
    text_from: Literal["file", "bank"] | None = Field(
        description="Where the text is: in the unchanged file, or only in the bank; null if it is not kept."
    )
    date: str | None


class Spoken(BaseModel):
    """The answer as a message."""

    role: Literal["assistant"] = "assistant"
    content: str


class Choice(BaseModel):
    """The only answer that is given."""

    index: Literal[0] = 0
    message: Spoken
    finish_reason: Literal["stop"] = "stop"
    logprobs: None = None


class Usage(BaseModel):
    """Tokens of the question and the answer, counted by the model's tokenizer."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(BaseModel):
    """An answer, the documents it came from, and under `mbc` everything that `mbc ask --json` prints."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    sources: list[SourceShape]
    mbc: dict[str, Any]


class Writing:
    """Puts what came of one question into the shapes in which it is sent.

    Args:
        model: the name under which the model is served.
        banks: where the banks are.
        loading: seconds that loading the model took.
    """

    def __init__(self, model: str, banks: Sequence[Path], loading: float) -> None:
        self._model, self._banks, self._loading = model, banks, loading
        self._id, self._created = f"chatcmpl-{uuid.uuid4().hex}", int(time.time())

    def whole(self, answered: Answered) -> Completion:
        """An answer in one piece."""
        return Completion(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=[Choice(message=Spoken(content=answered.content))],
            usage=usage(answered),
            **self._extra(answered),
        )

    def piece(self, **delta: str) -> dict[str, Any]:
        """A chunk of a stream that says more of the answer."""
        return self._chunk([{"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}])

    def last(self, answered: Answered) -> dict[str, Any]:
        """The chunk that ends the answer."""
        return {
            **self._chunk([{"index": 0, "delta": {}, "finish_reason": "stop", "logprobs": None}]),
            **self._extra(answered),
        }

    def usage(self, answered: Answered) -> dict[str, Any]:
        """The chunk behind it, for clients that ask for it."""
        return {**self._chunk([]), "usage": usage(answered).model_dump()}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }

    def _extra(self, answered: Answered) -> dict[str, Any]:
        told = answer_json(answered.reply, self._banks, self._loading)
        sources = told.pop("sources")
        return {"sources": sources, "mbc": {**told, "together": answered.together}}


def usage(answered: Answered) -> Usage:
    """What a question and its answer count."""
    asked, said = answered.question_tokens, answered.content_tokens
    return Usage(prompt_tokens=asked, completion_tokens=said, total_tokens=asked + said)


EVENTS: Final = "text/event-stream"


class Pieces:
    """Pieces of an answer on their way from the thread that has the model to the loop that it is made in."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def add(self, piece: str) -> None:
        """Hand on a piece, in any thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody listens
            self._loop.call_soon_threadsafe(self._queue.put_nowait, piece)

    def end(self, _: object) -> None:
        """Let no more come."""
        self._queue.put_nowait(None)

    async def next(self) -> str | None:
        """The next one, None at the end."""
        return await self._queue.get()


async def events(
    piece: str | None,
    pieces: Pieces,
    answer: "asyncio.Future[Answered]",
    writing: Writing,
    *,
    with_usage: bool,
) -> AsyncIterator[str]:
    """An answer as events, piece by piece if it comes so.

    Args:
        piece: the first, if there is one.
        pieces: the others.
        answer: what they come to.
        writing: gives events their shape.
        with_usage: whether to tell in the end what it took.
    """
    try:
        yield _event(writing.piece(role="assistant", content=""))
        said = held = ""
        while piece is not None:
            # White space at the end of what is said is no part of the answer.
            text = held + (piece if said else piece.lstrip())
            held = text[len(text.rstrip()) :]
            if text := text.rstrip():
                said += text
                yield _event(writing.piece(content=text))
            piece = await pieces.next()
        try:
            answered = await answer
        except (MBCError, Ended) as error:
            yield _event((refusal(error) if isinstance(error, MBCError) else ended()).detail().model_dump())
            return
        except Exception:  # noqa: BLE001  # the outermost of a stream: its status is sent already
            yield _event(unexpected().detail().model_dump())
            return
        if not said:
            yield _event(writing.piece(content=answered.content))
        yield _event(writing.last(answered))
        if with_usage:
            yield _event(writing.usage(answered))
        yield "data: [DONE]\n\n"
    finally:
        answer.cancel()  # if the client has left: nobody asks any more what went wrong


def _event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value)}\n\n"
