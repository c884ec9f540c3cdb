"""The dashboard in a browser: only the printed address gives access, and nothing is loaded from elsewhere."""

import asyncio
import signal
import subprocess
import sys
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.needs import PATIENCE


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
