"""Who has access, and how much of a request is read."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mbc_cli.http.server import is_loopback, read_token
from mbc_engine.errors import ConfigError

TOKEN = "0123456789abcdef-secret"
ROUTES = (
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/tiny"),
    ("GET", "/v1/bank"),
    ("POST", "/v1/documents"),
    ("GET", "/v1/documents"),
    ("GET", "/v1/documents/x"),
    ("DELETE", "/v1/documents/x"),
    ("GET", "/openapi.json"),
    ("GET", "/nothing"),
)


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer \xfc"]
)
async def test_without_the_right_token_only_health_is_served(
    serving: Callable[..., Any], authorization: str | None
) -> None:
    running = serving(token=TOKEN)
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    for method, path in ROUTES:
        response = await running.client.request(method, path, headers=headers)
        assert response.status_code == 401, path
        assert response.json()["error"]["code"] == "invalid_api_key"
        assert response.headers["www-authenticate"] == "Bearer"
    assert (await running.client.get("/health", headers=headers)).json() == {"status": "ok"}


async def test_the_right_token_gives_access_under_any_host_name(serving: Callable[..., Any]) -> None:
    running = serving(token=TOKEN)
    headers = {"Authorization": f"bearer {TOKEN}", "Host": "memory.example", "Origin": "https://memory.example"}
    assert (await running.client.get("/v1/models", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("host", "origin", "is_allowed"),
    [
        ("127.0.0.1:8377", None, True),
        ("localhost", None, True),
        ("LOCALHOST:1", "http://LOCALHOST:1", True),
        ("[::1]:8377", "http://[::1]:8377", True),
        ("127.0.0.1:8377", "http://127.0.0.1:8377", True),
        ("127.0.0.1:8377", "http://127.0.0.1:9999", False),
        ("127.0.0.1:8377", "https://127.0.0.1:8377", False),
        ("127.0.0.1:8377", "http://evil.example", False),
        ("127.0.0.1:8377", "null", False),
        ("evil.example", None, False),
        ("evil.example:8377", "http://evil.example:8377", False),
        ("127.0.0.1.evil.example", None, False),
        ("localhost@evil.example", None, False),
        ("", None, False),
        ("[", None, False),
    ],
)
async def test_without_a_token_only_programs_of_this_machine_get_in(
    serving: Callable[..., Any], host: str, origin: str | None, is_allowed: bool
) -> None:
    running = serving()
    headers = {"Host": host} | ({} if origin is None else {"Origin": origin})
    response = await running.client.get("/v1/models", headers=headers)
    assert response.status_code == (200 if is_allowed else 403)
    assert "access-control-allow-origin" not in response.headers
    assert (await running.client.get("/health", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, True) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")),
        *((host, False) for host in ("0.0.0.0", "10.0.0.1", "::", "example.org", "")),
    ],
)
def test_which_hosts_are_this_machine_alone(host: str, expected: bool) -> None:
    assert is_loopback(host) == expected


def test_a_token_comes_from_its_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(None, "127.0.0.1", {}) is None
    with pytest.raises(ConfigError, match="requires a token"):
        read_token(None, "0.0.0.0", {})
    assert read_token(None, "::", {"MBC_TOKEN": TOKEN}) == TOKEN
    assert read_token(file, "::", {"MBC_TOKEN": "another token entirely"}) == TOKEN


@pytest.mark.parametrize("content", ["", "short", "has a space in it all", "h\xfclle-und-f\xfclle-0", "\x00" * 20])
def test_an_invalid_token_is_refused_and_not_shown(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    for arguments in ((file, "::", {}), (None, "::", {"MBC_TOKEN": content})):
        with pytest.raises(ConfigError, match="is not valid") as caught:
            read_token(*arguments)
        assert content == "" or content not in caught.value.message
    with pytest.raises(ConfigError, match="cannot be read"):
        read_token(tmp_path / "missing", "::", {})


async def _parts(number: int, size: int) -> AsyncIterator[bytes]:
    for _ in range(number):
        yield b" " * size


async def test_a_body_is_counted_as_it_arrives(serving: Callable[..., Any]) -> None:
    running = serving(max_body=1000)
    text = '{"text": "Ada moved."}'
    for length, status in ((1000, 201), (1001, 413)):
        whole = await running.client.post(
            "/v1/documents", content=text.ljust(length), headers={"Content-Type": "application/json"}
        )
        assert whole.status_code == status
    parts = await running.client.post("/v1/documents", content=_parts(40, 100))
    assert parts.status_code == 413
    assert parts.json()["error"]["code"] == "body_too_long"


async def test_an_endless_body_is_not_read_for_ever(serving: Callable[..., Any]) -> None:
    running = serving(max_body=1000)
    response = await running.client.post("/v1/documents", content=_parts(1 << 30, 1 << 20))
    assert response.status_code == 413


async def test_a_body_that_does_not_arrive_times_out(serving: Callable[..., Any]) -> None:
    async def stalled() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    running = serving(body_seconds=0.01)
    response = await running.client.post("/v1/documents", content=stalled())
    assert response.status_code == 408
    assert response.json()["error"]["code"] == "timeout"
