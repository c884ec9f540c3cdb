"""What goes wrong with a request, in the shape that OpenAI's clients read."""

import re
from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel
from starlette.responses import JSONResponse

from mbc_engine.errors import BankBusy, BankError, ConfigError, DataError, MBCError, NothingToRead

INVALID, SERVER = "invalid_request_error", "server_error"
# Options of `mbc ask` that a request has as fields, under names with underscores.
_OPTION: Final = re.compile(r"--(since|as-of|half-life|only|exclude|read|min-confidence)\b")
_RETRY: Final = {"Retry-After": "1"}


class ErrorDetail(BaseModel):
    """What is wrong, which kind of thing that is, the field it is about, and a word for programs."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorReply(BaseModel):
    """A reply to what could not be done."""

    error: ErrorDetail


class Refusal(Exception):
    """A request that is answered with an error.

    Args:
        status: of HTTP.
        message: one line, for a person.
        code: a word for programs.
        param: the field it is about.
        headers: to send with it.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param, self.headers = status, message, code, param, headers

    def detail(self) -> ErrorReply:
        """As it is sent."""
        kind = SERVER if self.status >= 500 else INVALID
        if self.status == 401:
            kind = "authentication_error"
        if self.status == 429:
            kind = "rate_limit_error"
        return ErrorReply(error=ErrorDetail(message=self.message, type=kind, param=self.param, code=self.code))

    def response(self) -> JSONResponse:
        """As an answer."""
        return JSONResponse(self.detail().model_dump(), self.status, self.headers)


def refusal(error: MBCError) -> Refusal:
    """An error of the engine, with its way out."""
    message = " ".join([error.message, *([error.hint] if error.hint else [])])
    message = _OPTION.sub(lambda found: f"mbc.{found[1].replace('-', '_')}", message)
    if isinstance(error, NothingToRead):
        return Refusal(400, message, "nothing_to_read")
    if isinstance(error, ConfigError | DataError):
        return Refusal(400, message, "invalid_value")
    if isinstance(error, BankBusy):
        return Refusal(503, message, "bank_busy", headers=_RETRY)
    return Refusal(500, message, "bank_error" if isinstance(error, BankError) else "model_error")


def overloaded() -> Refusal:
    """Of a request that finds too many others waiting."""
    return Refusal(429, "Too many requests wait for the model; try again in a moment.", "queue_full", headers=_RETRY)


def ended() -> Refusal:
    """Of a request that comes when no more work is done, or is not done by then."""
    return Refusal(503, "The server is ending.", "unavailable", headers=_RETRY)


def unexpected() -> Refusal:
    """Of what nobody expected; more of it is told on the server's own terminal."""
    return Refusal(500, "Unexpected error; the server's terminal tells more.", "unexpected")
