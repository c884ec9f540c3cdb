"""What docs/scale.md projects from: bytes, times and memory of one bank on this machine."""

import ctypes
import mmap
import os
import shutil
import statistics
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import bank as banks
import numpy as np
import read
import torch
from measuring import growth_of, seconds_of
from scale_banks import FORMS, SHARDS, TOP, empty, path_of, paths_of, routing_of

from mbc_engine import load_model
from mbc_engine.bank import MemoryBank, Origin, StoredDocument, merge
from mbc_engine.datasets.newswire import stories
from mbc_engine.ingestion.run import BATCH_CHUNKS
from mbc_engine.paper.codebook import Codebook
from mbc_engine.paper.memories import BankMemory, Router
from mbc_engine.ranking import Ranking

QUESTIONS: Final = 16
RUNS: Final = 5
_WEIGHED: Final = 1 << 17


def least_of(work: Callable[[], Any], runs: int = RUNS) -> float:
    """Seconds of a piece of work: the least of its runs, which what else the machine does has least to do with."""
    return min(seconds_of(work)[1] for _ in range(runs))


def one_bank(name: str, chunks: int, folder: str) -> dict[str, dict[str, float]]:
    """All that is measured of a form's whole bank; `small` is the scan of its smallest shard."""
    return {
        "weigh": weigh(name, min(chunks, _WEIGHED), folder),
        "scan": scan(name, folder),
        "small": scan(name, folder, max(SHARDS)),
        "write": write(name, chunks, folder),
    }


def weigh(name: str, chunks: int, folder: str) -> dict[str, float]:
    """Bytes a chunk on the disk with sources and, of a bank of so many chunks, without."""
    found: dict[str, float] = {}
    form = FORMS[name]
    lean = Path(folder) / f"{name}-lean.mbc"
    with empty(lean, form, False) as bank:
        bank.put(list(islice(banks.items(form, chunks), chunks)))
    for kind, path in (("sources", path_of(folder, name, 1, 0)), ("lean", lean)):
        with MemoryBank.open(path, read_only=True) as bank:
            sizes, held = bank.sizes(), bank.totals().chunks
            found |= {f"{kind}_bytes": sizes.file / held, "code_bytes": sizes.codes / held}
            found |= {"text_bytes": sizes.texts / held, "counts_bytes": bank.counts().nbytes}
    lean.unlink()
    return found


@torch.no_grad()
def scan(name: str, folder: str, shards: int = 1) -> dict[str, float]:
    """The routed scan of a whole bank, or of one shard: seconds of one question and of many at once, memory, bytes.

    Returns:
        `chunks`, `seconds`, `batch` (of `QUESTIONS` at once), `opening`, `unfold` (of a chunk's text, or of its codes in a bank without), `grown`
        (bytes of memory), `cold` (seconds from the disk) and `touched` (bytes of the file that this read); the last two
        are 0 where the page cache would not be emptied.
    """
    torch.set_num_threads(1)
    path = path_of(folder, name, shards, 0)
    one, many = routing_of(name, 1), routing_of(name, QUESTIONS)

    def ask(routing: tuple[Codebook, Router, torch.Tensor]) -> list[Ranking]:
        book, router, vectors = routing
        with MemoryBank.open(path, read_only=True) as bank, bank.snapshot():
            rankings = [Ranking(TOP) for _ in vectors]
            for log_scores, lengths in BankMemory(bank, book).scores(router, vectors):
                for ranking, own in zip(rankings, log_scores, strict=True):
                    ranking.add(own, lengths)
            return rankings

    def unfold() -> None:
        with MemoryBank.open(path, read_only=True) as bank:
            if bank.header.keeps_text:
                bank.texts_at([0])
            else:
                bank.codes_at([0])

    def open_it() -> int:
        with MemoryBank.open(path, read_only=True) as bank:
            return bank.totals().chunks

    ask(one)
    _, grown, _ = growth_of(lambda: ask(one))
    found = {
        "chunks": open_it(),
        "seconds": least_of(lambda: ask(one)),
        "batch": least_of(lambda: ask(many)),
        "opening": least_of(open_it),
        "unfold": least_of(unfold),
        "grown": grown,
        "cold": 0.0,
        "touched": 0.0,
    }
    if forgotten(path):
        found["cold"] = seconds_of(lambda: ask(one))[1]
        found["touched"] = cached_share(path) * path.stat().st_size
    return found


def forgotten(path: Path) -> bool:
    """Whether the system has let go of what it held of a file."""
    if not hasattr(os, "posix_fadvise"):
        return False
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    return cached_share(path) < 0.01


def cached_share(path: Path) -> float:
    """The share of a file that lies in the page cache, as `mincore` says."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    size = path.stat().st_size
    with path.open("rb") as file:
        address = library.mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE, file.fileno(), 0)
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    library.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages)
    library.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
    return float((np.frombuffer(pages, np.uint8) & 1).mean())


def write(name: str, chunks: int, folder: str) -> dict[str, float]:
    """Writing to a large bank: the first look for a document, a commit of an ingest, and taking another bank in.

    Returns:
        `index` (seconds until a writer knows what the bank holds), `index_bytes` (memory that takes), `commit`
        (seconds of a batch's), `merge` (seconds a chunk).
    """
    copy = Path(folder) / f"{name}-copy.mbc"
    shutil.copy(path_of(folder, name, 1, 0), copy)
    fresh = made_elsewhere(name, (RUNS + 1) * BATCH_CHUNKS)
    with MemoryBank.open(copy) as bank:
        bank.totals()
        _, grown, index = growth_of(lambda: bank.lookup([own[:2] for own in fresh[0].origins]))
        bank.put(fresh[:BATCH_CHUNKS])  # the index by contents is made here
        batches = [fresh[start : start + BATCH_CHUNKS] for start in range(BATCH_CHUNKS, len(fresh), BATCH_CHUNKS)]
        commit = min(seconds_of(lambda own=own: bank.put(own))[1] for own in batches)
    copy.unlink()
    half, other = paths_of(folder, name, 2)
    shutil.copy(half, copy)
    with MemoryBank.open(copy) as bank, MemoryBank.open(other, read_only=True) as giver:
        merging = seconds_of(lambda: list(merge(bank, giver)))[1]
        assert bank.totals().chunks == chunks
    copy.unlink()
    return {"index": index, "index_bytes": grown, "commit": commit, "merge": merging / (chunks // 2)}


def made_elsewhere(name: str, chunks: int) -> list[StoredDocument]:
    """Documents that the banks do not hold."""
    return [
        replace(own, digest=f"{number:064x}", origins=(Origin(f"/elsewhere/{number}.txt", "", own.origin.date),))
        for number, own in enumerate(banks.items(FORMS[name], chunks))
    ]


@torch.no_grad()
def flat(folder: str) -> dict[str, float]:
    """The flat read of the whole bank, and a group of 256 of the hierarchical read: seconds each."""
    torch.set_num_threads(1)
    with MemoryBank.open(path_of(folder, "paper", 1, 0), read_only=True) as bank:
        parts = read.make_parts("distilgpt2")
        seconds = {mode: least_of(read.MODES[mode](parts, bank)) for mode in ("flat", "sources")}
    groups = 4
    codes = np.random.default_rng(0).integers(0, 512, (groups * 256, 12, 1), dtype=np.uint16)
    with read.small_bank("distilgpt2") as small:
        form = FORMS["paper"]
        documents = zip(banks.documents(form, len(codes)), codes, strict=True)
        small.put([replace(document, codes=own[None]) for document, own in documents])
        held = small.totals().chunks
        taken = least_of(read.MODES[read.HIERARCHICAL](parts, small), 3)
    return seconds | {"hierarchical": taken / held}


@torch.no_grad()
def encode(texts: int) -> dict[str, float]:
    """Mini's encoding of chunks that fill its window: seconds a chunk on one thread, and tokens of one."""
    torch.set_num_threads(1)
    model = load_model("mini")
    told = " ".join(story.text for story in stories("test", 8 * texts))
    chunker = model.chunker
    chunks = chunker(told)[:texts]
    assert len(chunks) == texts
    model.memorise(chunks[:4])
    taken = seconds_of(lambda: model.memorise(chunks))[1]
    return {"seconds": taken / texts, "tokens": statistics.mean(chunker.token_counts(chunks))}
