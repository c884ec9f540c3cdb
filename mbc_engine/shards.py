"""Banks on the machines of a Ray cluster read as one: an actor beside each file does whatever needs all of it.

Only the best of each bank and its totals are sent, never a score for each chunk.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank import MemoryBank, ReadableBank, Selection
from mbc_engine.bank.block_table import BlockTable
from mbc_engine.bank.records import Numbers, read_across
from mbc_engine.errors import BankError, ConfigError, MBCError, ShardLost
from mbc_engine.ingestion.ray import connected
from mbc_engine.names import is_on_cluster

_T = TypeVar("_T")
_LOCAL: Final = ("localhost", "127.0.0.1")


class Shards(ReadableBank):
    """Banks read where they are, named MACHINE:/PATH or on this machine, as one that holds the documents of each.

    The cluster is that of `RAY_ADDRESS`, or a temporary one of this machine alone. A bank whose machine is not there, or
    whose actor ends, is left out from then on, see `missing`: a call that meets this raises ShardLost, and works when
    repeated. Raises ConfigError if Ray is not installed, BankError as `MemoryBank.open` does.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._lost: list[str] = []
        self._actors: dict[str, Any] = {}  # by the names of their banks
        self._held = 0  # snapshots, each within the one before
        self._chunks: list[int] = []  # of each bank, in a snapshot
        with ExitStack() as stack:
            stack.enter_context(connected(os.environ.get("RAY_ADDRESS")))
            for path in paths:
                self._start(path)
            while not hasattr(self, "header"):
                with suppress(ShardLost):
                    self.header = self.each(attrgetter("header"))[0]
            self._connection = stack.pop_all()

    def _start(self, path: Path) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        name, machine, file = str(path), _LOCAL[0], path.absolute()
        if is_on_cluster(path):
            machine, file = path.parts[0][:-1], Path("/", *path.parts[1:])
        node = ray.get_runtime_context().get_node_id() if machine in _LOCAL else _node_of(machine)
        if name in self._actors:
            raise ConfigError(f"{name} is named twice.", hint="Name it once.")
        if node is None:
            self._lost.append(name)
            return
        beside = NodeAffinitySchedulingStrategy(node, soft=False)
        self._actors[name] = ray.remote(ShardReader).options(num_cpus=0, scheduling_strategy=beside).remote(file)

    @property
    def name(self) -> str:
        return " + ".join(self._actors)

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(self._lost)

    def each(self, work: Callable[..., _T], *arguments: Sequence[Any]) -> list[_T]:
        return self._gather("run", work, *arguments)

    def _gather(self, method: str, work: Any = None, *arguments: Sequence[Any]) -> list[Any]:
        import ray
        from ray.exceptions import ActorUnschedulableError, RayActorError, RayError

        shared, everyone = ray.put(work), list(self._actors.items())
        each = zip(*arguments, strict=True) if arguments else [()] * len(everyone)
        calls = [
            getattr(actor, method).remote(shared, *given) for (_, actor), given in zip(everyone, each, strict=True)
        ]
        found, lost = [], []
        for (name, _), call in zip(everyone, calls, strict=True):
            try:
                value, error = ray.get(call)
            except (RayActorError, ActorUnschedulableError):
                lost.append(name)
                continue
            except RayError as failure:
                raise BankError(f"{name} cannot be read: {failure}", hint="Look into Ray's logs.") from failure
            if error is not None:
                raise error
            found.append(value)
        for name in lost:
            del self._actors[name]
        self._lost += lost
        if not self._actors:
            raise BankError(
                f"No actor answers for {' + '.join(self._lost)}.",
                hint="Check that the machines are in the cluster, with this version of mbc.",
            )
        if lost:
            raise ShardLost(f"The actor of {' + '.join(lost)} has ended.", hint="Ask again: the rest answers.")
        return found

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        if not self._held:
            self._chunks = self._gather("hold")
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            if not self._held and self._actors:
                with suppress(ShardLost):  # the next call misses it
                    self._gather("release")

    def _of_banks(self, work: Callable[..., _T]) -> list[_T]:
        return self.each(work)

    def close(self) -> None:
        import ray

        for actor in self._actors.values():
            ray.kill(actor)
        self._actors = {}
        self._connection.close()

    def log_weights(self, selection: Selection) -> Iterator[NDArray[np.float64]]:
        with self.snapshot():
            yield from chain.from_iterable(self.each(lambda bank: list(bank.log_weights(selection))))

    def _each(self, read: Callable[[BlockTable], Iterable[_T]]) -> Iterator[_T]:
        """Much to send if `read` yields all codes; only models of the paper's method ask for them."""
        with self.snapshot():
            yield from chain.from_iterable(self.each(partial(_list, read)))

    def _read_at(self, method: str, chunks: Numbers) -> list[Any]:
        with self.snapshot():
            wanted: list[list[int]] = [[] for _ in self._actors]
            places = read_across(
                chunks, np.array(self._chunks, np.int64), lambda at, several: ((at, one) for one in several)
            )
            for at, chunk in places:
                wanted[at].append(chunk)
            found = list(map(iter, self.each(partial(_read, method), wanted, list(self._actors))))
            return [next(found[at]) for at, _ in places]


def _node_of(machine: str) -> str | None:
    """The machine of this name or address in the cluster."""
    import ray

    names = "NodeName", "NodeManagerHostname", "NodeManagerAddress"
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return next((node["NodeID"] for node in nodes if node["Alive"] and machine in map(node.get, names)), None)


def _list(read: Callable[[BlockTable], Iterable[_T]], bank: MemoryBank) -> list[_T]:
    return list(bank._each(read))  # noqa: SLF001 - what this module does for all banks


def _read(method: str, bank: MemoryBank, chunks: list[int], name: str) -> list[Any]:
    found = getattr(bank, method)(chunks)
    return [chunk._replace(bank=name) for chunk in found] if method == "chunks_at" else list(found)


class ShardReader:
    """The actor: opens a bank on its machine. What it raises comes back beside the result, as Ray would wrap it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._bank: MemoryBank | None = None
        self._snapshot = ExitStack()

    def run(self, work: Callable[..., Any], *arguments: Any) -> tuple[Any, MBCError | None]:
        try:
            if self._bank is None:
                self._bank = MemoryBank.open(self._file, read_only=True)
            return work(self._bank, *arguments), None
        except MBCError as error:
            return None, error

    def hold(self, _: None) -> tuple[Any, MBCError | None]:
        """Read from one snapshot until `release`; returns how many chunks there are."""
        self._snapshot.close()
        return self.run(self._hold)

    def _hold(self, bank: MemoryBank) -> int:
        self._snapshot.enter_context(bank.snapshot())
        return bank.totals().chunks

    def release(self, _: None) -> tuple[None, None]:
        self._snapshot.close()
        return None, None
