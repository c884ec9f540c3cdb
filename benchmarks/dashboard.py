"""Cost of the dashboard: how soon it shows a training run, and how much CPU it uses while watching one.

    python benchmarks/dashboard.py [--events 100000] [--seconds 15]

Starts the real `mbc tui` in a pseudo-terminal, at 80x24 and at 200x50, on a training run with a long log. Linux only:
CPU use is read from /proc. Other programs running at the same time distort the figures. Prints JSON.
"""

import argparse
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mbc_engine.events import TrainStarted, TrainStep, Validated
from mbc_engine.runs.event_log import EventLog, work_lock
from mbc_engine.runs.training_runs import EVENTS, LOCK

SIZES = ((80, 24), (200, 50))
RATE = 50
SETTLE = 4.0
# Colours and cursor movements.
ESCAPES = re.compile(rb"\x1b(\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|.)")


def step(number: int, loss: float) -> TrainStep:
    """A training step as it is logged."""
    return TrainStep(
        step=number,
        epoch=number // 10_000,
        loss=loss,
        question_loss=loss * 0.5,
        vq_loss=loss * 0.1,
        route_loss=loss * 0.2,
        reconstruction_loss=loss * 0.2,
        route_accuracy=0.5 + 0.4 * (number % 7) / 7,
        perplexity=100.0 + number % 13,
        dead_codes=number % 5,
        document_variance=0.5,
        learning_rate=3e-5,
        examples_per_second=150.0 + number % 11,
        reset_codes=3 * (number % 500 == 0),
    )


def write_run(run: Path, events: int, last_loss: float) -> None:
    """Write a run in progress, with steps, resets and validations."""
    run.mkdir(parents=True)
    log = EventLog(run / EVENTS)
    log.append(TrainStarted(0, events * 2, 5000, 1000, 3_000_000))
    for number in range(1, events):
        log.append(step(number, 9.0 - 8.0 * number / events + number % 17 / 20))
        if number % 10_000 == 0:
            log.append(Validated(number, number // 10_000, 500, 400, 30.0, 40.0, 80.0, True))
    log.append(step(events, last_loss))
    log.close()


class Terminal:
    """A dashboard in a pseudo-terminal, with all its output.

    Args:
        arguments: what follows `mbc`.
    """

    def __init__(self, arguments: list[str], columns: int, rows: int) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environment.pop("NO_COLOR", None)
        command = [sys.executable, "-m", "mbc_cli", *arguments]
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)
        self._written, self._grown = bytearray(), threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def seconds_until(self, text: str, patience: float = 60.0) -> float:
        """Seconds from the process start until `text` appears in the output."""
        with self._grown:
            while text.encode() not in ESCAPES.sub(b"", self._written):
                if not self._grown.wait(timeout=self.began + patience - time.monotonic()):
                    raise TimeoutError(f"{text!r} did not appear on the screen")
            return time.monotonic() - self.began

    def load(self, seconds: float) -> float:
        """CPU use over the next seconds, in percent of a core."""
        before, began = self._ticks(), time.monotonic()
        time.sleep(seconds)
        used = (self._ticks() - before) / os.sysconf("SC_CLK_TCK")
        return round(100 * used / (time.monotonic() - began), 2)

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=20)
        os.close(self._ours)

    def _ticks(self) -> int:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def _read(self) -> None:
        while True:
            try:
                read = os.read(self._ours, 65536)
            except OSError:
                return
            with self._grown:
                self._written += read
                self._grown.notify_all()


@contextmanager
def growing_run(run: Path, start: int) -> Iterator[None]:
    """Append `RATE` steps per second to a run."""
    log, stop = EventLog(run / EVENTS), threading.Event()

    def write() -> None:
        number, due = start, time.monotonic()
        while not stop.wait(max(0.0, due - time.monotonic())):
            number, due = number + 1, due + 1 / RATE
            log.append(step(number, 1.0 + number % 23 / 40))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()
        log.close()


def measure(columns: int, rows: int, events: int, seconds: float) -> dict[str, float]:
    """Watch a run in a terminal of this size.

    Returns:
        `open_seconds` from process start until the plots show the last event; `idle_percent` of a core
        while nothing happens; `busy_percent` while the run writes 50 events per second.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "runs", "long")
        write_run(run, events, last_loss=0.7654)
        places = ["--runs", str(run.parent), "--run", run.name, "--bank", str(Path(folder, "none.mbc"))]
        with work_lock(run / LOCK):
            terminal = Terminal(["tui", *places, "--view", "train"], columns, rows)
            try:
                opened = terminal.seconds_until("0.765")
                time.sleep(SETTLE)
                idle = terminal.load(seconds)
                with growing_run(run, events):
                    time.sleep(SETTLE)
                    busy = terminal.load(seconds)
            finally:
                terminal.close()
    return {"open_seconds": round(opened, 2), "idle_percent": idle, "busy_percent": busy}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000, help="steps in the run's log")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long to measure CPU use")
    args = parser.parse_args()
    measured: dict[str, Any] = {"events": args.events, "cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    for columns, rows in SIZES:
        measured[f"{columns}x{rows}"] = measure(columns, rows, args.events, args.seconds)
    print(json.dumps(measured, indent=2))


if __name__ == "__main__":
    main()
