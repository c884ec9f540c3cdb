"""The fuzzer reads every format, finds nothing, and would find what is wrong."""

import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import fuzz
import pytest
from fuzz_targets import CANARY, READ, REFUSED, Finding, Target, targets

# Readers have tests of their own, and are slow while their lines are counted.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_cover")]

NAMES = [target.name for target in targets(Path("canary"))]


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files(tmp_path: Path, rounds: Callable[..., int], name: str) -> None:
    (tmp_path / "canary").write_text(CANARY)
    target = next(target for target in targets(tmp_path / "canary") if target.name == name)
    max_files = rounds(full=2000, reduced=15)
    tally = fuzz.fuzz(target, 7, tmp_path, max_files=max_files)
    assert tally.findings == {}
    assert tally.outcomes[READ]
    assert tally.outcomes[READ] + tally.outcomes[REFUSED] == max_files


def bad(act: Callable[[], object], sign: bytes = b"!") -> Target:
    """A target some of whose files have a sign, over which its reader does something."""

    def make(rng: Random) -> bytes:
        return b"ab" if rng.random() < 0.7 else b"ab" + sign

    def read(path: Path) -> str:
        if sign in path.read_bytes():
            act()
        return READ

    return Target("txt", make, read)


def fail() -> None:
    raise KeyError


def find() -> None:
    raise Finding("told")


def grow() -> None:
    assert b"a" * fuzz.MEMORY


def work() -> None:
    end = time.process_time() + 5
    while time.process_time() < end:
        pass


@pytest.mark.parametrize(
    ("act", "finding"),
    [
        (fail, "KeyError()"),
        (find, "told"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
        (lambda: os._exit(3), "the process failed"),
        (lambda: os.write(2, b"\x1b[2J"), "words on the terminal"),
        (grow, "more than 0 GiB"),
        (work, "more than 0.05 s"),
    ],
)
def test_findings_are_reduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], finding: str
) -> None:
    if act is grow:
        monkeypatch.setattr(fuzz, "MEMORY", (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) + (16 << 20))
        finding = f"more than {fuzz.MEMORY >> 30} GiB"
    if act is work:
        monkeypatch.setattr(fuzz, "SECONDS", 0.05)
        monkeypatch.setattr(fuzz, "_TRIES_OF_SLOW", 2)
    tally = fuzz.fuzz(bad(act), 0, tmp_path, max_files=8)
    assert list(tally.findings) == [finding]
    number, data = tally.findings[finding]
    assert b"!" in data
    assert len(data) == 1 or finding.startswith("more than")
    assert bad(act).make(Random(f"0 txt {number}")).count(b"!") == 1
    assert tally.outcomes.total() == 8
