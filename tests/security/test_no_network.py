"""No command that works on files and banks uses a network; a guard in each of its processes checks that.

The guard sees what Python does; libraries in other languages could open sockets past it. Of those that these commands
load, onnxruntime would, see `tests/lm/test_quantized.py`; the downloads of others begin with a request of Python's.
"""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

GUARD = Path(__file__).parent / "no_network"
ONLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK", "MBC_CONFIG")


@pytest.fixture
def environment(tmp_path):
    """The environment of a user without settings, with the guard."""
    kept = {name: value for name, value in os.environ.items() if name not in ONLINE and not name.startswith("XDG_")}
    path = os.pathsep.join([str(GUARD), *filter(None, sys.path)])
    own = {"HOME": str(tmp_path), "PYTHONPATH": path, "SEEN_NETWORK": str(tmp_path / "seen"), "TERM": "xterm-256color"}
    own |= {"MBC_READER": "small", "MBC_PRECISION": "auto"}  # the small one opens faster
    return {**kept, **own}


def seen(folder):
    return (folder / "seen").read_text() if (folder / "seen").exists() else ""


@pytest.mark.parametrize(
    ("code", "attempt"),
    [
        ("import socket; socket.create_connection(('127.0.0.1', 9))", "socket.getaddrinfo 127.0.0.1 9"),
        ("import socket; socket.socket().connect(('127.0.0.1', 9))", "socket.connect ('127.0.0.1', 9)"),
        ("import socket; socket.socket().bind(('127.0.0.1', 0))", "socket.bind ('127.0.0.1', 0)"),
        ("import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'a', ('127.0.0.1', 9))", "socket.sendto"),
        ("import huggingface_hub as hub; hub.HfApi().model_info('a/b')", "socket.getaddrinfo huggingface.co 443"),
        ("import multiprocessing as m, socket as s; m.get_context('spawn').Process(target=s.gethostbyname, args=['a']).start()", "socket.gethostbyname a"),
    ],
)  # fmt: skip
def test_guard_detects_network_use(tmp_path, environment, code, attempt):
    subprocess.run([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL, check=False)
    assert attempt in seen(tmp_path)


def test_guard_allows_local_sockets(tmp_path, environment):
    code = "import asyncio, socket; a, b = socket.socketpair(); a.send(b'x'); asyncio.run(asyncio.sleep(0)); print(b.recv(1))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert done.stdout == b"b'x'\n"
    assert not seen(tmp_path)


def test_telemetry_is_off(environment):
    code = (
        "from mbc_cli.app import main; main()",
        "from huggingface_hub.constants import *; print(HF_HUB_DISABLE_TELEMETRY)",
    )
    code = f"import contextlib, sys; sys.argv = ['mbc', '--version']\nwith contextlib.suppress(SystemExit): {code[0]}\n{code[1]}"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert done.stdout.endswith(b"True\n")


def test_ingest_ask_bank_demo_and_tui_use_no_network(tmp_path, environment):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("Ada Krummholz repaired the bridge of Aalen in 1954.")
    (notes / "b.html").write_text("<img src=http://127.0.0.1:9/a.png><p>Bruno moved to Bergen.</p>")
    bank = ["--bank", str(tmp_path / "notes.mbc")]
    commands = [
        ["ingest", str(notes), *bank, "--workers", "1"],
        ["bank", "info", *bank],
        ["ask", "Who repaired the bridge of Aalen?", *bank],
        ["demo"],
        ["tui", *bank],
    ]
    terminal, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, str(GUARD / "commands.py"), json.dumps(commands)],
        env=environment, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    written = until(terminal, b"<demo ended>")
    assert b"<demo ended>" in written, written[-2000:] + seen(tmp_path).encode()
    drawn = until(terminal, b"notes.mbc")
    assert b"notes.mbc" in drawn, drawn[-2000:] + seen(tmp_path).encode()
    os.write(terminal, b"\x11")  # Ctrl-Q: "q" would be part of a question
    until(terminal, b"<tui ended>")
    assert child.wait() == 0
    os.close(terminal)
    assert not seen(tmp_path)
    assert b"Ada Krummholz" in written


def until(terminal, sign):
    """Output of a terminal up to some text, or its end."""
    written = b""
    while sign not in written:
        try:
            written += os.read(terminal, 1 << 16)
        except OSError:  # nobody has it open any more
            break
    return written
