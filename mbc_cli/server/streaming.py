"""An answer as a stream of server-sent events, in OpenAI's chunks."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from mbc_cli.server.chat import Writing
from mbc_cli.server.errors import ended, refusal, unexpected
from mbc_cli.server.turns import Ended
from mbc_engine.errors import MBCError

if TYPE_CHECKING:
    from mbc_cli.server.memory import Answered

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
