"""`mbc tui` around the dashboard: errors, how its process ends, and in a browser, who has access to it."""

import asyncio
import os
import pty
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import get_args
from urllib.parse import urlsplit

import aiohttp
import pytest

from mbc_cli.commands.tui import View
from mbc_cli.tui.app import VIEWS
from tests.needs import PATIENCE

_STUCK = "import time; from mbc_cli.tui.app import Dashboard; Dashboard._draw_if_stale = lambda _: time.sleep(86_400)"
_RUN = "import sys; from mbc_cli.app import main; sys.exit(main())"
_PAGE = {"TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver", "COLUMNS": "80", "ROWS": "24"}


def test_needs_a_terminal(refusal):
    error = refusal(2, "tui")
    assert "needs a terminal" in error and "--web" in error


def test_any_view_can_be_opened():
    assert get_args(View) == tuple(view.NAME for view in VIEWS)


def test_port_in_use(refusal):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "another with --port" in refusal(2, "tui", "--web", "--port", taken.getsockname()[1])


@pytest.mark.slow
def test_errors_can_be_redirected(home):
    parent, child = pty.openpty()
    with (home / "errors.txt").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "mbc_cli", "tui"], stdin=child, stdout=child, stderr=errors, start_new_session=True
        )
    os.close(child)
    drawn = b""
    while b"Ask" not in drawn:
        drawn += os.read(parent, 4096)
    os.write(parent, b"\x11")
    with suppress(OSError):  # closed
        while os.read(parent, 4096):
            pass
    assert process.wait() == 0
    assert (home / "errors.txt").read_text() == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "end", "number"),
    [
        ("pass", lambda process: process.stdin.close(), signal.SIGHUP),
        (_STUCK, lambda process: process.send_signal(signal.SIGTERM), signal.SIGTERM),
    ],
    ids=["stdin", "stuck"],
)
def test_ends(home, first, end, number):
    command = [sys.executable, "-c", f"{first}; {_RUN}", "tui", "--bank", str(home / "none.mbc")]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **_PAGE})
    drawn = b""
    while b"Overview" not in drawn and (more := os.read(process.stdout.fileno(), 4096)):
        drawn += more
    end(process)
    assert process.wait(PATIENCE) == 128 + number


@pytest.fixture
def url(home):
    """The address that `mbc tui --web` prints; Ctrl-C ends it afterwards."""
    command = [sys.executable, "-m", "mbc_cli", "tui", "--web", "--bank", str(home / "none.mbc")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert "Traceback" not in process.stderr.read()


@pytest.mark.slow
async def test_only_the_printed_address_gives_access(url):
    netloc = urlsplit(url).netloc
    bare = f"http://{netloc}/"
    assert urlsplit(url).hostname == "127.0.0.1"
    async with aiohttp.ClientSession() as stranger:
        for address, headers in (
            *((f"{bare}{path}", {}) for path in ("", "?key=guessed", "?key=ü", "ws", "static/js/textual.js")),
            (url, {"Host": "elsewhere.example"}),
            (url, {"Origin": "http://elsewhere.example"}),
        ):
            async with stranger.get(address, headers=headers) as answer:
                assert answer.status == 403, address
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.get(url) as answer:
            assert answer.status == 200 and answer.url.query == {}
            assert netloc in await answer.text()
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'")
        async with session.get(f"{bare}static/js/textual.js") as script:
            assert script.status == 200
        async with session.ws_connect(f"ws://{netloc}/ws?width=80&height=24", origin=f"http://{netloc}") as socket:
            drawn = b""
            async with asyncio.timeout(PATIENCE):
                while b"Overview" not in drawn:
                    drawn += _bytes(await socket.receive())


def _bytes(message):
    assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), message
    return message.data if isinstance(message.data, bytes) else b""
