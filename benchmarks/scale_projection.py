"""A memory of any size on any number of nodes, projected from what was measured of one bank.

Plain arithmetic, without torch. What is measured comes in as `Measured`; what is assumed of nodes and of the network
between them, and what is wanted, stands in `Node`, `Network` and `Wanted`.
"""

import math
from dataclasses import dataclass
from typing import Final

CHUNKS: Final = (10**6, 10**7, 10**8, 10**9)
NODES: Final = (1, 4, 16, 64)
DAY: Final = 86_400.0
# Bits of a content's hash that a bank without sources keeps.
HASH_BITS: Final = 48


@dataclass(frozen=True)
class Node:
    """A machine, assumed: cores, and bytes of memory and disk."""

    cores: int = 16
    memory: float = 64e9
    disk: float = 1e12


@dataclass(frozen=True)
class Network:
    """What lies between nodes, assumed: bits a second, and the seconds of a round trip."""

    bits: float = 10e9
    round_trip: float = 1e-4

    def seconds(self, bytes_sent: float) -> float:
        """A round trip in which so many bytes pass one node's link."""
        return self.round_trip + 8 * bytes_sent / self.bits


@dataclass(frozen=True)
class Wanted:
    """What is enough: seconds to find a question's chunks, seconds to ingest everything."""

    question: float = 1.0
    ingest: float = 30 * DAY


@dataclass(frozen=True)
class Measured:
    """What a bank costs; seconds and bytes, of a chunk unless said otherwise.

    Attributes:
        disk, lean_disk: of the file, with sources and without.
        touched: of the file that a scan reads.
        scan: of one question's scan on one core, files in the page cache; `fixed` is what a scan takes of no chunks.
        cold: of a scan from the disk.
        texts: bytes of the texts of the best chunks, which come back in a second round; 0 where there is none.
        unfold: of reading a chunk's text in a block; 0 where none is read.
        looked_at: chunks whose texts are read.
        block: chunks of a block.
        asked, answered: bytes that go to a node, and come back, in the first round.
        merge: of one node's ranking.
        index: bytes of memory that a writer holds to know what there is.
        encode: on one core.
    """

    disk: float
    lean_disk: float
    touched: float
    scan: float
    fixed: float
    cold: float
    texts: float
    unfold: float
    looked_at: int
    block: int
    asked: float
    answered: float
    merge: float
    index: float
    encode: float


@dataclass(frozen=True)
class Projected:
    """So many chunks on so many nodes.

    Attributes:
        chunks, nodes: how many.
        disk, lean_disk, memory: bytes on each node; memory is what keeps scans off the disk.
        question, spread: seconds to find a question's chunks with one core a node, and with all of them.
        cold: the same with one core, from the disk.
        network_bytes, network: of a question, all nodes together, and its seconds, merging included.
        ingest: seconds to encode everything, on all cores.
        limits: what is needed as a multiple of what there is, or is wanted.
    """

    chunks: int
    nodes: int
    disk: float
    lean_disk: float
    memory: float
    question: float
    spread: float
    cold: float
    network_bytes: float
    network: float
    ingest: float
    limits: dict[str, float]

    @property
    def broken(self) -> list[str]:
        """The limits that are exceeded, the most exceeded first."""
        return sorted((name for name, ratio in self.limits.items() if ratio > 1), key=lambda name: -self.limits[name])


def line_through(one: tuple[int, float], other: tuple[int, float]) -> tuple[float, float]:
    """What each chunk takes, and what is taken without any, from two numbers of chunks and their seconds; never < 0."""
    each = max(0.0, (other[1] - one[1]) / (other[0] - one[0]))
    return each, max(0.0, one[1] - each * one[0])


def confused(chunks: float, nodes: int = 1) -> float:
    """Pairs of documents that banks without sources are expected to take for one: of one node, and with like hashes."""
    each = chunks / nodes
    return float(nodes * each * (each - 1) / 2 / 2**HASH_BITS)


def projected(
    measured: Measured,
    chunks: int,
    nodes: int,
    node: Node = Node(),
    network: Network = Network(),
    wanted: Wanted = Wanted(),
) -> Projected:
    """The whole of it."""
    own = math.ceil(chunks / nodes)
    blocks = min(measured.looked_at, math.ceil(chunks / measured.block))
    unfold = measured.unfold * math.ceil(blocks / nodes)
    crossing = 0.0 if nodes == 1 else nodes * (measured.asked + measured.answered) + measured.texts
    between = 0.0 if nodes == 1 else bool(measured.texts) * network.round_trip + network.seconds(crossing)
    between += nodes * measured.merge

    def found(each: float, cores: int) -> float:
        return measured.fixed + each * own / cores + unfold + between

    disk, memory = own * measured.disk, own * measured.touched
    question = found(measured.scan, 1)
    cold = question + own * max(0.0, measured.cold - measured.scan)
    ingest = chunks * measured.encode / (nodes * node.cores)
    return Projected(
        chunks=chunks,
        nodes=nodes,
        disk=disk,
        lean_disk=own * measured.lean_disk,
        memory=memory,
        question=question,
        spread=found(measured.scan, node.cores),
        cold=cold,
        network_bytes=crossing,
        network=between,
        ingest=ingest,
        limits={
            "question": question / wanted.question,
            "memory": memory / node.memory,
            "index": own * measured.index / node.memory,
            "disk": disk / node.disk,
            "ingest": ingest / wanted.ingest,
        },
    )
