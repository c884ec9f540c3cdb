"""Work that waits for the one thread that has the model: bounded, in order of arrival, what is alike done together."""

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from mbc_engine.errors import MBCError


class Work(Protocol):
    """Something to do."""

    @property
    def kind(self) -> Hashable:
        """Works of equal kinds can be done together."""
        ...

    @property
    def weight(self) -> float:
        """How much of one go it takes; those of works done together are at most 1."""
        ...


@dataclass(eq=False)
class Turn:
    """A work and what will come of it. Cancelling the future before the work begins drops it."""

    work: Any
    future: "Future[Any]" = field(default_factory=Future)


# Does works of one kind, and gives each a result, or the error to raise.
Doing = Callable[[Sequence[Any]], Sequence[Any]]


class QueueFull(Exception):
    """So much work waits that no more is taken."""


class Ended(Exception):
    """No more work is done."""


class Turns:
    """A thread that does work, the oldest first, and with it what else of its kind waits.

    Nothing waits for ever: the oldest is always among what is done next.

    Args:
        doing: entered in the thread for as long as it works; gives what does the work.
        most: works done together.
        room: works that may wait.
        crashed: is told of errors that nobody expected; what was being done then fails with them.
    """

    def __init__(
        self,
        doing: AbstractContextManager[Doing],
        *,
        most: int,
        room: int,
        crashed: Callable[[BaseException], object],
    ) -> None:
        self._doing, self._most, self._room, self._crashed = doing, most, room, crashed
        self._waiting: deque[Turn] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether work is done."""
        return self._thread.is_alive()

    def submit(self, work: Work) -> "Future[Any]":
        """Let work wait for its turn.

        Raises:
            QueueFull: too much waits already.
            Ended: nobody works any more.
        """
        with self._changed:
            if self._is_closing or not self._thread.is_alive():
                raise Ended
            if len(self._waiting) >= self._room:
                self._waiting = deque(turn for turn in self._waiting if not turn.future.cancelled())
            if len(self._waiting) >= self._room:
                raise QueueFull
            turn = Turn(work)
            self._waiting.append(turn)
            self._changed.notify()
            return turn.future

    def close(self, timeout: float) -> bool:
        """Finish what waits and end. False if that takes longer than `timeout` seconds, and goes on."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with self._doing as do:
                while turns := self._next():
                    self._take(do, [turn for turn in turns if turn.future.set_running_or_notify_cancel()])
        except BaseException as error:  # noqa: BLE001  # it would end just this thread, and nobody would know
            self._crashed(error)
        finally:
            with self._changed:
                self._is_closing = True
                for turn in self._waiting:
                    if turn.future.set_running_or_notify_cancel():
                        turn.future.set_exception(Ended())
                self._waiting.clear()

    def _take(self, do: Doing, turns: list[Turn]) -> None:
        if not turns:
            return
        try:
            results = do([turn.work for turn in turns])
        except Exception as error:  # noqa: BLE001  # carried to who asked; the next turns may still be done
            if not isinstance(error, MBCError):
                self._crashed(error)
            results = [error] * len(turns)
        except BaseException:
            for turn in turns:
                turn.future.set_exception(Ended())
            raise
        for turn, result in zip(turns, results, strict=True):
            if isinstance(result, BaseException):
                turn.future.set_exception(result)
            else:
                turn.future.set_result(result)

    def _next(self) -> list[Turn]:
        """The oldest that waits and what fits to it; nothing at the end."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting or self._is_closing)
                self._waiting = deque(turn for turn in self._waiting if not turn.future.cancelled())
                if self._waiting:
                    together = self._together()
                    self._waiting = deque(turn for turn in self._waiting if turn not in together)
                    return together
                if self._is_closing:
                    return []

    def _together(self) -> list[Turn]:
        together: list[Turn] = []
        kind, weight = self._waiting[0].work.kind, 0.0
        for turn in self._waiting:
            if turn.work.kind != kind:
                continue
            weight += turn.work.weight
            if together and (len(together) == self._most or weight > 1):
                break  # what came later does not overtake it
            together.append(turn)
        return together
