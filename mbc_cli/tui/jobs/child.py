"""Long work in a process of its own: an `mbc` command, which the dashboard follows by its log like anybody else's."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import IO, Final

from mbc_cli.text import plain

# What is kept of a process's last words.
_LAST_BYTES: Final = 4096
_LAST_LINES: Final = 2


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        code: its exit code.
        words: the last lines it wrote on stderr, made harmless; "" where it said nothing.
    """

    code: int
    words: str

    def trouble(self, expected: Collection[int]) -> str:
        """Why it ended, "" with a code that was to be expected."""
        return "" if self.code in expected else self.words or f"It ended with code {self.code}."


class Child:
    """A command at work, in a session of its own: what ends the dashboard does not end it.

    Args:
        arguments: what would be typed after `mbc`.
        ended: is told how it ended, in a thread of its own.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, arguments: Sequence[str], ended: Callable[[Ended], object]) -> None:
        self._words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # a pipe that nobody empties would fill
        self._process = subprocess.Popen(  # noqa: S603  # mbc itself
            [sys.executable, "-m", "mbc_cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._words,
            env={**os.environ, "NO_COLOR": "1"},
            start_new_session=True,
        )
        threading.Thread(target=self._wait, args=(ended,), daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Whether it is still at work."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Ask it to finish what it is at and end, as Ctrl-C does; a second time ends it at once."""
        if self.is_running:
            self._process.send_signal(signal.SIGINT)

    def _wait(self, ended: Callable[[Ended], object]) -> None:
        code = self._process.wait()
        with self._words as words:
            words.seek(0, os.SEEK_END)
            words.seek(max(0, words.tell() - _LAST_BYTES))
            lines = words.read().decode(errors="replace").splitlines()
        ended(Ended(code, " ".join(plain(line).strip() for line in lines[-_LAST_LINES:])))
