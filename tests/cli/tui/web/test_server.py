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
        assert process.stdout is not None and process.stderr is not None
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert "Traceback" not in process.stderr.read()


@pytest.mark.slow
async def test_only_the_printed_address_works(url):
    parts = urlsplit(url)
    bare = f"http://{parts.netloc}/"
    assert parts.hostname == "127.0.0.1"
    refused = [
        (bare, {}),
        (f"{bare}?key=guessed", {}),
        (f"{bare}?key=ü", {}),
        (f"{bare}ws", {}),
        (f"{bare}static/js/textual.js", {}),
        (url, {"Host": "elsewhere.example"}),
        (url, {"Origin": "http://elsewhere.example"}),
    ]
    async with aiohttp.ClientSession() as session:
        for address, headers in refused:
            async with session.get(address, headers=headers) as answer:
                assert answer.status == 403, address


@pytest.mark.slow
async def test_page_loads_from_server_only(url):
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session, session.get(url) as answer:
        page = await answer.text()
        own = urlsplit(url).netloc
        assert answer.status == 200 and answer.url.query == {}
        assert own in page
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'self'")
        async with session.get(f"http://{own}/static/js/textual.js") as script:
            assert script.status == 200


@pytest.mark.slow
async def test_dashboard_over_websocket(url):
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(url):
            pass
        netloc = urlsplit(url).netloc
        async with session.ws_connect(f"ws://{netloc}/ws?width=80&height=24", origin=f"http://{netloc}") as socket:
            drawn = b""
            async with asyncio.timeout(PATIENCE):
                while b"Overview" not in drawn:
                    drawn += _bytes(await socket.receive())


def _bytes(message):
    assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), message
    return message.data if isinstance(message.data, bytes) else b""
