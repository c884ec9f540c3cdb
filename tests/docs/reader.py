"""A reader who types what the pages say, with a shell and a home that has a checkout of mbc."""

import os
import pty
import re
import selectors
import signal
import subprocess
import termios
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.warm import ONLY_PARSED
from tests.needs import PATIENCE

PROGRAMS = ("mbc", "python", "torchrun", "accelerate", "pip")
# This machine stands in for others.
_ELSEWHERE = """
ssh() { shift; "$@"; }
curl() { case "${!#}" in https://example.org/*) echo 'The bridge was built in 1911.';; *) command curl "$@";; esac; }
"""
CTRL_C, CTRL_D, CTRL_Q = b"\x03", b"\x04", b"\x11"


@dataclass(frozen=True)
class CommandResult:
    """The result of a command.

    Attributes:
        status: its exit code.
        stdout: what it printed.
        everything: stdout and stderr, as a terminal shows them.
    """

    status: int
    stdout: str
    everything: str


@dataclass
class Reader:
    """Someone who follows the pages.

    Attributes:
        home: the home, and the folder that commands are typed in.
        programs: the folder with `mbc` and `python`.
        stands_for: patterns of placeholders in a page, and what this reader types instead.
    """

    home: Path
    programs: Path
    stands_for: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._going_on: Terminal | None = None
        self._exported = self.programs / "exported"

    @property
    def environment(self) -> dict[str, str]:
        """The shell's whole environment: nothing is inherited from this process."""
        return {
            "HOME": str(self.home),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "HF_HUB_OFFLINE": "1",
            "HF_TOKEN": "hf_reader",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "EDITOR": "true",
            "MBC_READER": "small",  # which opens faster
        }

    def own(self, text: str) -> str:
        """A page's text as this reader types it."""
        for pattern, own in self.stands_for.items():
            text = re.sub(pattern, own, text)
        return text

    def type(self, command: str, *, only_parsed: bool = False) -> CommandResult:
        """Run a command to its end. Its exports hold for later commands.

        Args:
            command: for bash.
            only_parsed: programs end once they have parsed their arguments.
        """
        environment = self.environment | ({ONLY_PARSED: "1"} if only_parsed else {})
        process = subprocess.Popen(
            ["bash", "-c", self._script(command)],
            cwd=self.home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        printed, everything = b"", b""
        end = time.monotonic() + PATIENCE
        with selectors.DefaultSelector() as streams, process:
            for stream in (process.stdout, process.stderr):
                streams.register(stream, selectors.EVENT_READ)
            while streams.get_map():
                if not (ready := streams.select(end - time.monotonic())):
                    os.killpg(process.pid, signal.SIGKILL)
                    raise TimeoutError(f"{command} did not end; it printed:\n{everything.decode()}")
                for key, _ in ready:
                    if not (piece := os.read(key.fd, 1 << 16)):
                        streams.unregister(key.fileobj)
                    printed += piece if key.fileobj is process.stdout else b""
                    everything += piece
        return CommandResult(process.returncode, printed.decode(), everything.decode())

    def start(self, command: str, until: str, key: bytes) -> CommandResult:
        """Start a command that keeps running, and wait until it is ready; ends the one before.

        Args:
            command: for bash.
            until: a pattern in its output that shows it is ready.
            key: what will end it.
        """
        self.end()
        environment = self.environment | {"TERM": "xterm-256color"}
        self._going_on = Terminal(self._script(command), self.home, environment, key)
        output = self._going_on.output_until(until)
        below = output.rpartition("\x1b[2K")[2]  # progress lines were erased
        return CommandResult(0, below, output)

    def end(self) -> None:
        """End the running command, if any, as its user would.

        Raises:
            AssertionError: it fails.
        """
        going_on, self._going_on = self._going_on, None
        if going_on:
            status = going_on.end()
            assert status in (0, 130), f"ended with {status}:\n{going_on.text}"

    def close(self) -> None:
        """End the running command, and forget what was exported."""
        self._exported.unlink(missing_ok=True)
        self.end()

    def _script(self, command: str) -> str:
        return (
            f'set -o pipefail; {_ELSEWHERE} [ -e {self._exported} ] && . {self._exported}; cd "$PWD"; '
            f"trap 'unset {ONLY_PARSED}; declare -px > {self._exported}' EXIT\n{command}\n"
        )


class Terminal:
    """A terminal in which a command runs until a key ends it."""

    def __init__(self, script: str, folder: Path, environment: dict[str, str], key: bytes) -> None:
        self._key = key
        self._terminal, inside = pty.openpty()
        termios.tcsetwinsize(inside, (24, 80))
        self._process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=folder,
            env=environment,
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
        )
        os.close(inside)
        self._all = b""

    def output_until(self, until: str) -> str:
        """The output so far, once a pattern is in it."""
        while not re.search(until, self.text):
            if not self._read():
                raise AssertionError(f"it ended, or never printed {until!r}:\n{self.text}")
        return self.text

    def end(self) -> int:
        """Press the key that ends the command; returns its exit code."""
        if self._key == CTRL_C:
            os.killpg(self._process.pid, signal.SIGINT)
        else:
            os.write(self._terminal, self._key)
        while self._read():
            pass
        os.close(self._terminal)
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            raise

    @property
    def text(self) -> str:
        """The output so far."""
        return self._all.decode(errors="replace").replace("\r\n", "\n")

    def _read(self) -> bool:
        with selectors.DefaultSelector() as streams:
            streams.register(self._terminal, selectors.EVENT_READ)
            if not streams.select(PATIENCE):
                return False
        try:
            piece = os.read(self._terminal, 1 << 16)
        except OSError:  # nobody has the terminal any more
            return False
        self._all += piece
        return bool(piece)
