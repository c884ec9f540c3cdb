"""Records docs/recording/mbc.svg: real commands, typed into a real shell in an 80×24 terminal.

    python docs/recording/record.py         a minute on two cores

The shell runs in a pseudoterminal, and each piece of its output is recorded with its time; `screens.py` reconstructs
the screens, and `drawing.py` draws them. The files are the stories of `mbc demo`. A command that takes longer than
LONGEST is sped up to last that long; the picture's title says so. Needs the embedded encoder (the extra `embedded`) and
pyte (the extra `dev`).
"""

import os
import pty
import selectors
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from drawing import draw
from screens import Output, shown

PICTURE = Path(__file__).parent / "mbc.svg"
SIZE = (80, 24)
# Commands to type, and the seconds for reading their output.
COMMANDS = (
    ("export MBC_BANK=news.mbc", 0.3),
    ("mbc ingest stories", 3.0),
    ('mbc ask "How many people helped Jerome Lopez in the campaign?" --sources 1', 4.0),
    ('mbc ask "Who saved the pigeons in Bramblehaven?" --sources 1', 4.0),
    ("mbc bank remove stories/07-family-business-in.txt --prove", 6.0),
)
LONGEST = 3.0
BETWEEN_KEYS = 0.04
_PATIENCE = 300.0
# The mark by which shells tell terminals where their prompt is (OSC 133); it is invisible.
_PROMPT = b"\x1b]133;A\x07"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        environment = {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "HF_HUB_OFFLINE": "1",
            "PS1": rf"\[{_PROMPT.decode()}\]$ ",
        }
        keep = ["mbc", "--quiet", "demo", "--keep", "demo"]
        subprocess.run(keep, cwd=home, env=environment, check=True, stdout=subprocess.DEVNULL)
        (home / "demo" / "stories").rename(home / "stories")
        shell = RecordedShell(home, environment)
        shell.type(COMMANDS)
    frames, seconds = shown(shell.output, shell.at_work, SIZE, LONGEST), COMMANDS[-1][1]
    made = f"mbc, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores"
    title = f"{made}; commands of more than {LONGEST:g} s are drawn in {LONGEST:g} s"
    PICTURE.write_text(draw(frames, frames[-1].at + seconds, SIZE, title), encoding="utf-8")
    print(PICTURE)


@dataclass
class RecordedShell:
    """A shell in a terminal of its own.

    Attributes:
        home: its initial working directory.
        environment: all of its environment.
        output: the terminal's output.
        at_work: start and end of each command.
    """

    home: Path
    environment: dict[str, str]
    output: list[Output] = field(default_factory=list)
    at_work: list[tuple[float, float]] = field(default_factory=list)

    def type(self, commands: Sequence[tuple[str, float]]) -> None:
        """Type commands, each once the one before has ended and there was time to read its output.

        Args:
            commands: each with the seconds for reading its output.

        Raises:
            TimeoutError: a command takes more than five minutes.
        """
        terminal, inside = pty.openpty()
        termios.tcsetwinsize(inside, SIZE[::-1])
        streams = {"stdin": inside, "stdout": inside, "stderr": inside}
        shell = ["bash", "--noprofile", "--norc", "-i"]
        with subprocess.Popen(shell, cwd=self.home, env=self.environment, start_new_session=True, **streams) as process:
            os.close(inside)
            self._read_until_prompt(terminal)
            for command, seconds in commands:
                for key in command:
                    os.write(terminal, key.encode())
                    self._read(terminal, BETWEEN_KEYS)
                began = time.monotonic()
                os.write(terminal, b"\n")
                self._read_until_prompt(terminal)
                self.at_work.append((began, self.output[-1].at))
                self._read(terminal, seconds)
            process.kill()
        os.close(terminal)

    def _read_until_prompt(self, terminal: int) -> None:
        end = time.monotonic() + _PATIENCE
        since = len(self.output)
        while _PROMPT not in b"".join(output.text for output in self.output[since:]):
            if time.monotonic() > end:
                raise TimeoutError("a command did not finish")
            self._read(terminal, BETWEEN_KEYS)

    def _read(self, terminal: int, seconds: float) -> None:
        """Record output for some seconds."""
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as streams:
            streams.register(terminal, selectors.EVENT_READ)
            while streams.select(max(0.0, end - time.monotonic())):
                self.output.append(Output(os.read(terminal, 1 << 16), time.monotonic()))


if __name__ == "__main__":
    main()
