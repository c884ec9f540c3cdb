"""One thread that looks, a few times a second, at everything other processes may change, and posts what is new."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Final

from textual.message import Message

# Slower than a person notices, faster than a second even when a look takes its time.
_EVERY_SECONDS: Final = 0.25


class Watch(ABC):
    """Something that can be looked at again and again."""

    @abstractmethod
    def look(self) -> Iterator[Message]:
        """What has changed since the last look."""

    def close(self) -> None:  # noqa: B027  # most have nothing open
        """Let go of what is open, if anything is. It runs in the thread that looks."""


class Lookout:
    """Looks at watches, which come and go by name, until it is stopped.

    Args:
        post: takes messages; it is called in the lookout's own thread.
    """

    def __init__(self, post: Callable[[Message], object]) -> None:
        self._post = post
        self._watches: dict[str, Watch] = {}
        self._gone: list[Watch] = []
        self._guard = threading.Lock()
        self._awake, self._is_over = threading.Event(), False

    def put(self, name: str, watch: Watch | None) -> None:
        """Look at this from now on under a name, in place of what had it; None looks at nothing."""
        with self._guard:
            if before := self._watches.pop(name, None):
                self._gone.append(before)
            if watch is not None:
                self._watches[name] = watch
        self._awake.set()

    def stop(self) -> None:
        """Come to an end soon."""
        self._is_over = True
        self._awake.set()

    def run(self) -> None:
        """Look until stopped."""
        while not self._is_over:
            self._awake.clear()
            with self._guard:
                watches, gone, self._gone = list(self._watches.values()), self._gone, []
            for watch in gone:
                watch.close()
            for watch in watches:
                for message in watch.look():
                    if self._is_over:
                        break
                    self._post(message)
            self._awake.wait(_EVERY_SECONDS)
        for watch in [*self._watches.values(), *self._gone]:
            watch.close()
