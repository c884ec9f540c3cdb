"""What crosses a network when a bank lies on several nodes, done between processes of this machine over loopback."""

import json
import pickle
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Final

import torch
from measuring import seconds_of
from scale_banks import FORMS, paths_of, routing_of
from scale_shards import merged, rank
from torch import distributed

from mbc_engine.bank import MemoryBank
from mbc_engine.paper.memories import BankMemory
from mbc_engine.ranking import Ranking

RUNS: Final = 21
_KEY: Final = b"mbc"


def all_reduce(processes: int) -> dict[str, float]:
    """Sum the counts of so many processes with gloo: by form, the least of the first one's seconds."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_reduce, (processes, folder), nprocs=processes, join=True)
        found: dict[str, float] = json.loads((Path(folder) / "found").read_text())
    return found


def _reduce(number: int, processes: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=number, world_size=processes)
    found = {}
    for name in ("paper", "mini"):
        shape = FORMS[name].shape
        counts = torch.full((shape.levels, shape.positions, shape.num_codes), number + 1, dtype=torch.int64)
        seconds = []
        for _ in range(RUNS):
            own = counts.clone()
            distributed.barrier()
            seconds.append(seconds_of(lambda own=own: distributed.all_reduce(own))[1])
            assert (own == processes * (processes + 1) // 2).all()
        found[name] = min(seconds)
    if number == 0:
        (Path(folder) / "found").write_text(json.dumps(found))
    distributed.destroy_process_group()


@torch.no_grad()
def scatter_and_gather(name: str, folder: str, shards: int) -> dict[str, float]:
    """Ask processes, one a shard, for their best chunks over TCP.

    Returns:
        `scanned` (seconds until the merged ranking is there), `sent_back` (the same where the processes have their
        rankings, so that the way there and back and the merge are left), `alone` (of one process with the whole bank),
        `asked_bytes`, `answered_bytes` (of one process).
    """
    torch.set_num_threads(1)
    _, router, vectors = routing_of(name, 1)
    scan, again = (("scan", router, vectors), ("again", router, vectors))
    with asked(name, paths_of(folder, name, 1)) as processes:
        expected = put_together(processes, scan).result()
        alone = least_of(processes, scan)
    with asked(name, paths_of(folder, name, shards)) as processes:
        found = put_together(processes, scan).result()
        assert [own.chunk for own in found[0]] == [own.chunk for own in expected[0]]
        scanned, sent_back = (least_of(processes, question) for question in (scan, again))
        processes[0].send(again)
        answered = len(processes[0].recv_bytes())
    return {
        "alone": alone,
        "scanned": scanned,
        "sent_back": sent_back,
        "asked_bytes": len(pickle.dumps(scan)),
        "answered_bytes": answered,
    }


def least_of(processes: Sequence[Connection], question: tuple[Any, ...]) -> float:
    """Seconds of asking them, the least of some runs."""
    return min(seconds_of(lambda: put_together(processes, question))[1] for _ in range(RUNS))


def put_together(processes: Sequence[Connection], question: tuple[Any, ...]) -> Ranking:
    """Ask all, then merge what they say, in their order."""
    for process in processes:
        process.send(question)
    return merged([process.recv() for process in processes])


@contextmanager
def asked(name: str, paths: Sequence[Path]) -> Iterator[list[Connection]]:
    """Processes that hold a shard each and are reached over loopback TCP; they end with the block."""
    context = get_context("spawn")
    with Listener(("127.0.0.1", 0), authkey=_KEY) as listener:
        started = [
            context.Process(target=_answer, args=(name, str(path), listener.address), daemon=True) for path in paths
        ]
        connections = []
        for process in started:
            process.start()
            connections.append(listener.accept())  # one by one, so that they are in the order of the shards
        yield connections
        for connection in connections:
            connection.send(None)
            connection.close()
        for process in started:
            process.join()


@torch.no_grad()
def _answer(name: str, path: str, address: tuple[str, int]) -> None:
    torch.set_num_threads(1)
    book, _, _ = routing_of(name, 1)
    with Client(address, authkey=_KEY) as connection, MemoryBank.open(Path(path), read_only=True) as bank:
        memory, last = BankMemory(bank, book), Ranking(1)
        while (question := connection.recv()) is not None:
            what, router, vectors = question
            if what == "scan":
                with bank.snapshot():
                    last = rank(memory, router, vectors)
            connection.send(last)
