import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from mbc_cli.http.queue import Doing, Ended, QueueFull, Turns
from mbc_engine.errors import DataError


@dataclass(frozen=True)
class Step:
    name: str
    kind: str = "a"
    weight: float = 0.0


class Worker:
    """Does steps once it may, and notes which ones together."""

    def __init__(self) -> None:
        self.groups: list[str] = []
        self.may_begin = threading.Event()
        self.is_over = False

    @contextmanager
    def working(self) -> Iterator[Doing]:
        assert self.may_begin.wait(10)
        yield self.do
        self.is_over = True

    def do(self, steps: Sequence[Step]) -> Sequence[Any]:
        self.groups.append("".join(step.name for step in steps))
        if steps[0].name == "!":
            raise DataError("No.")
        if steps[0].name == "?":
            raise ZeroDivisionError
        if steps[0].name == "X":
            raise SystemExit
        return [DataError("Not this.") if step.name == "-" else step.name.upper() for step in steps]


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def crashes() -> list[BaseException]:
    return []


@pytest.fixture
def turns(worker: Worker, crashes: list[BaseException]) -> Turns:
    turns = Turns(worker.working(), most=3, room=8, crashed=crashes.append)
    turns.start()
    return turns


def test_what_waits_is_done_oldest_first_with_what_is_alike(turns: Turns, worker: Worker) -> None:
    futures = [turns.submit(Step(name, kind)) for name, kind in ("pa", "qb", "ra", "sb", "ta", "ua")]
    worker.may_begin.set()
    assert turns.close(10)
    assert worker.groups == ["prt", "qs", "u"]
    assert [future.result() for future in futures] == ["P", "Q", "R", "S", "T", "U"]
    assert worker.is_over


def test_weights_limit_what_is_done_together_and_nothing_overtakes_its_own_kind(turns: Turns, worker: Worker) -> None:
    for name, weight in (("p", 0.6), ("q", 0.6), ("r", 0.3), ("s", 7.0), ("t", 0.1)):
        turns.submit(Step(name, weight=weight))
    worker.may_begin.set()
    turns.close(10)
    assert worker.groups == ["p", "qr", "s", "t"]


def test_cancelled_work_is_not_done_and_leaves_its_place(turns: Turns, worker: Worker) -> None:
    futures = [turns.submit(Step(name)) for name in "pqrstuvw"]
    with pytest.raises(QueueFull):
        turns.submit(Step("x"))
    assert futures[0].cancel()
    assert futures[4].cancel()
    turns.submit(Step("x"))
    worker.may_begin.set()
    turns.close(10)
    assert worker.groups == ["qrs", "uvw", "x"]


def test_an_error_is_that_of_its_work_alone(turns: Turns, worker: Worker, crashes: list[BaseException]) -> None:
    told, one, other = turns.submit(Step("!", "b")), turns.submit(Step("-")), turns.submit(Step("p"))
    worker.may_begin.set()
    with pytest.raises(DataError, match="No"):
        told.result(10)
    with pytest.raises(DataError, match="Not this"):
        one.result(10)
    assert other.result(10) == "P"
    assert crashes == []
    with pytest.raises(ZeroDivisionError):
        turns.submit(Step("?")).result(10)
    assert [type(error) for error in crashes] == [ZeroDivisionError]
    assert turns.submit(Step("q")).result(10) == "Q"
    turns.close(10)


def test_the_end_of_the_thread_ends_what_waits_and_takes_no_more(
    turns: Turns, worker: Worker, crashes: list[BaseException]
) -> None:
    first, second = turns.submit(Step("X")), turns.submit(Step("p", "b"))
    worker.may_begin.set()
    for future in (first, second):
        with pytest.raises(Ended):
            future.result(10)
    assert turns.close(10)
    assert not turns.is_alive
    assert [type(error) for error in crashes] == [SystemExit]
    with pytest.raises(Ended):
        turns.submit(Step("q"))


def test_closing_does_not_wait_for_ever(turns: Turns, worker: Worker) -> None:
    turns.submit(Step("p"))
    assert not turns.close(0.01)
    worker.may_begin.set()
    assert turns.close(10)
    assert worker.groups == ["p"]
