"""Requests that wait for the thread that has the model, for as long as their clients do."""

import asyncio
from typing import Any

from starlette.requests import Request

from mbc_cli.server.errors import ended, overloaded
from mbc_cli.server.turns import Ended, QueueFull, Turns, Work


def begun(turns: Turns, work: Work) -> "asyncio.Future[Any]":
    """What will come of work, which waits for its turn from now on.

    Raises:
        Refusal: too much waits, or no more is done.
    """
    try:
        future = turns.submit(work)
    except QueueFull as error:
        raise overloaded() from error
    except Ended as error:
        raise ended() from error
    return asyncio.wrap_future(future)


class Gone(Exception):
    """The client does not wait any more."""


async def while_there(request: Request, wanted: "asyncio.Future[Any]", work: "asyncio.Future[Any]") -> Any:
    """What is waited for, as long as the client is there; else work that has not begun is dropped."""
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({wanted, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            raise Gone
        return wanted.result()
    except asyncio.CancelledError:
        raise Ended from None  # the server waits no longer for what is still at work
    finally:
        leaving.cancel()
        if not wanted.done():
            work.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
