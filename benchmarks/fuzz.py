"""Fuzzes the document readers and the bank with damaged and hostile files, for as long as you like.

    python benchmarks/fuzz.py --seconds 1200 --seed 0 [--format pdf] [--keep findings]

A process reads one file after another, each determined by the seed and its number: a valid file from `fuzz_samples.py`
whose bytes, tokens or members are changed, cut, spliced or repeated, or a hostile one. Allowed outcomes are documents,
a reason why there are none, or one of our own errors. Everything else is a finding: another exception, a crash, more
CPU time or memory than a reader may use, output on the terminal, a text or reason that cannot be stored or printed, the
content of another file. The first of each kind is minimised and saved in a folder.
"""

import argparse
import mmap
import os
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count, takewhile
from pathlib import Path
from random import Random
from typing import Final

from fuzz_targets import CANARY, READ, REFUSED, Finding, Target, targets

SECONDS: Final = 30
MEMORY: Final = 2 << 30
# Hard limit on the address space, where memory that is allocated but never used counts too.
_ADDRESSES: Final = 8 << 30
# Attempts to minimise a finding.
_TRIES: Final = 300
_TRIES_OF_SLOW: Final = 12


@dataclass
class Tally:
    """Number of files by outcome, and the first of each finding: its number and minimised content."""

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: dict[str, tuple[int, bytes]] = field(default_factory=dict)


class SharedStatus:
    """Shared memory that survives a crash of the process: outcome counts, the last file and its finding."""

    _LAYOUT: Final = struct.Struct("<qqq200s")

    def __init__(self, number: int) -> None:
        self._shared = mmap.mmap(-1, self._LAYOUT.size)
        self._write(number, 0, 0, "")

    def begin(self, number: int) -> None:
        """Record which file is next."""
        _, read, refused, _ = self.state()
        self._write(number, read, refused, "")

    def end(self, outcome: str) -> None:
        """Record the file's outcome."""
        number, read, refused, _ = self.state()
        is_fine = outcome in (READ, REFUSED)
        self._write(number, read + (outcome == READ), refused + (outcome == REFUSED), "" if is_fine else outcome)

    def state(self) -> tuple[int, int, int, str]:
        """Number of the last file, how many were read, how many refused, and the finding or ""."""
        number, read, refused, finding = self._LAYOUT.unpack(self._shared[:])
        return number, read, refused, finding.rstrip(b"\0").decode("utf-8", "replace")

    def _write(self, number: int, read: int, refused: int, finding: str) -> None:
        self._shared[:] = self._LAYOUT.pack(number, read, refused, finding.encode())


def fuzz(target: Target, seed: int, folder: Path, seconds: float = float("inf"), max_files: int | None = None) -> Tally:
    """Read files for `seconds`, or `max_files` of them; each finding ends a process, and a new one continues."""
    tally, first, end = Tally(), 0, time.monotonic() + seconds

    def file(number: int) -> bytes:
        return target.make(Random(f"{seed} {target.name} {number}"))

    while time.monotonic() < end and (max_files is None or first < max_files):
        status = SharedStatus(first)
        numbers = takewhile(
            lambda _: time.monotonic() < end, count(first) if max_files is None else range(first, max_files)
        )
        files = ((number, file(number)) for number in numbers)
        crash = _in_a_process(lambda files=files, status=status: _read(target, files, folder, status))
        number, read, refused, finding = status.state()
        tally.outcomes.update({READ: read, REFUSED: refused})
        if not (finding := crash or finding):
            break
        tally.outcomes["findings"] += 1
        if finding not in tally.findings:
            tally.findings[finding] = number, _minimise(target, file(number), finding, folder)
        first = number + 1
    return tally


def _read(target: Target, files: Iterable[tuple[int, bytes]], folder: Path, status: SharedStatus) -> None:
    """Read files up to the first finding."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    terminal = os.open(folder / "terminal", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(terminal, stream)
    path = folder / f"a.{target.name}"
    for number, data in files:
        status.begin(number)
        path.unlink(missing_ok=True)  # a new inode, by which SQLite identifies files
        path.write_bytes(data)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        outcome = _outcome(target, path)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10 > MEMORY:
            outcome = f"more than {MEMORY >> 30} GiB"
        if os.fstat(terminal).st_size:
            outcome = "words on the terminal"
        status.end(outcome)
        if outcome not in (READ, REFUSED):
            return


def _outcome(target: Target, path: Path) -> str:
    try:
        return target.read(path)
    except Finding as finding:
        return str(finding)
    except Exception as error:  # noqa: BLE001 - every type is a finding of its own
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "mbc_engine" in frame.filename]
        return (
            f"{type(error).__name__} in {Path(frames[-1].filename).name}:{frames[-1].name}" if frames else repr(error)
        )


def _in_a_process(work: Callable[[], None]) -> str:
    """Run in a forked process; returns why it died, or ""."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - a fork must not run its parent's cleanup
            os._exit(1)
        os._exit(0)
    _, wait_status = os.waitpid(child, 0)
    if os.WIFSIGNALED(wait_status):
        name = signal.Signals(os.WTERMSIG(wait_status)).name
        return f"more than {SECONDS} s" if name == "SIGPROF" else name
    return "the process failed" if os.WEXITSTATUS(wait_status) else ""


def _minimise(target: Target, data: bytes, finding: str, folder: Path) -> bytes:
    """Minimise a file: remove whatever the finding does not depend on."""

    def is_same(some: bytes) -> bool:
        status = SharedStatus(0)
        crash = _in_a_process(lambda: _read(target, [(0, some)], folder, status))
        return (crash or status.state()[-1]) == finding

    tries = _TRIES_OF_SLOW if finding.startswith("more than") else _TRIES
    step = max(1, len(data) // 2)
    while step:
        place, has_shrunk = 0, False
        while place < len(data) and tries:
            tries -= 1
            less = data[:place] + data[place + step :]
            if is_same(less):
                data, has_shrunk = less, True
            else:
                place += step
        if not has_shrunk:
            step //= 2
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="time for all formats together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", help="fuzz only this format, such as pdf, txt.gz, mbc or export")
    parser.add_argument("--keep", type=Path, default=Path("findings"), metavar="FOLDER", help="where to save findings")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="mbc-fuzz-"))
    (folder / "canary").write_text(CANARY)
    chosen = [target for target in targets(folder / "canary") if arguments.format in (None, target.name)]
    if not chosen:
        parser.error(f"unknown format: {arguments.format}")
    print("| format | files | read | refused | findings |\n|---|---:|---:|---:|---:|", flush=True)
    total: Counter[str] = Counter()
    try:
        for target in chosen:
            tally = fuzz(target, arguments.seed, folder, arguments.seconds / len(chosen))
            total += tally.outcomes
            _print(f"`{target.name}`", tally.outcomes)
            for finding, (number, data) in tally.findings.items():
                arguments.keep.mkdir(parents=True, exist_ok=True)
                place = arguments.keep / f"{number}.{target.name}"
                place.write_bytes(data)
                print(f"{place}: {finding}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder)
    _print("all", total)
    sys.exit(1 if total["findings"] else 0)


def _print(name: str, outcomes: Counter[str]) -> None:
    cells = (outcomes.total(), outcomes[READ], outcomes[REFUSED], outcomes["findings"])
    print(f"| {name} | {' | '.join(f'{number:,}' for number in cells)} |", flush=True)


if __name__ == "__main__":
    main()
