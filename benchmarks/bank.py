"""Size and speed of a bank, compared with one row per document and with what other methods store.

    python benchmarks/bank.py [--chunks 1000000]

Codes are random, with a fixed seed. All timings are of one process on an otherwise idle machine.
"""

import argparse
import hashlib
import resource
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from measuring import in_a_new_process, newswire

from mbc_engine.bank import (
    CodeShape,
    EncodedText,
    MemoryBank,
    ModelSignature,
    Origin,
    StoredDocument,
    fingerprint,
    pack,
)
from mbc_engine.bank.text_codec import encode_chunk
from mbc_engine.bank.verification import verify
from mbc_engine.events import BankVerified
from mbc_engine.text import Chunk

T5_WIDTH = 768  # D of the T5-base that MAC and the paper's larger models use


@dataclass(frozen=True)
class BankLayout:
    """A bank layout to measure."""

    name: str
    shape: CodeShape
    dim: int
    chunks_per_document: int
    keeps_origins: bool
    keeps_text: bool = False


PAPER = CodeShape(tokens=12, levels=1, num_codes=512, per_position=False)
RESIDUAL = CodeShape(tokens=12, levels=2, num_codes=512, per_position=True)
MINI = CodeShape(tokens=24, levels=1, num_codes=512, per_position=True)
MINI_DIM = 8
LAYOUTS = [
    BankLayout(f"{name}, {per} per document, {'sources' if keeps else 'no sources'}", shape, dim, per, keeps)
    for name, shape, dim in (("paper's codes", PAPER, T5_WIDTH), ("12 x 2 residual codes", RESIDUAL, 192))
    for per in (1, 5)
    for keeps in (True, False)
]
WITH_TEXT = [
    BankLayout(
        f"mini's codes and text, {per} per document, {'sources' if keeps else 'no sources'}",
        MINI,
        MINI_DIM,
        per,
        keeps,
        True,
    )
    for per in (1, 5)
    for keeps in (True, False)
]


def signature(codebooks: np.ndarray) -> ModelSignature:
    """The signature of a model with these random codebooks."""
    return ModelSignature("benchmark", "00" * 8, fingerprint(codebooks))


def documents(layout: BankLayout, chunks: int) -> Iterator[StoredDocument]:
    """Documents like a news archive's: one file each, in folders of a thousand, with sizes and dates."""
    random = np.random.default_rng(0)
    per = layout.chunks_per_document
    shape = layout.shape
    for number in range(chunks // per):
        if number % 10_000 == 0:
            codes = random.integers(0, shape.num_codes, (10_000 * per, shape.tokens, shape.levels), dtype=np.uint16)
        source = f"/home/ada/news/{number // 1000:04d}/article-{number:07d}.txt"
        date = f"{1990 + number // 1000 % 30}-{number // 80 % 12 + 1:02d}-{number % 28 + 1:02d}"
        digest, start = hashlib.sha256(b"%d" % number).hexdigest(), number % 10_000 * per
        chunk_codes = codes[start : start + per]
        yield StoredDocument(digest, per, 800 + number * 7919 % 4000, (Origin(source, "", date),), chunk_codes)


@cache
def texts(count: int = 2000) -> list[EncodedText]:
    """Chunks of generated news, about 800 characters each, encoded as a bank stores them."""
    news = [story.text for story in newswire()["stories"]("test", 3 * count, seed=0)]
    groups = (" ".join(news[start : start + 3]) for start in range(0, len(news), 3))
    return [encode_chunk(Chunk(text, 0)) for text in groups]


def items(layout: BankLayout, chunks: int) -> Iterator[StoredDocument]:
    """The documents, with text if the layout keeps it, cycling through a few thousand chunks."""
    pool, at = texts() if layout.keeps_text else [], 0
    for document in documents(layout, chunks):
        encoded = [pool[(at + number) % len(pool)] for number in range(document.chunks)] if pool else None
        yield replace(document, texts=encoded)
        at += document.chunks


def batches(layout: BankLayout, chunks: int, size: int) -> Iterator[list[StoredDocument]]:
    """The documents in batches of `size` chunks."""
    batch: list[StoredDocument] = []
    for item in items(layout, chunks):
        batch.append(item)
        if len(batch) * layout.chunks_per_document == size:
            yield batch
            batch = []
    if batch:
        yield batch


def fill_bank(path: Path, layout: BankLayout, chunks: int, batch: int = 50_000) -> float:
    """Create a bank; returns the seconds spent in `put`."""
    codebooks = np.random.default_rng(1).standard_normal(
        (layout.shape.levels, layout.shape.positions, layout.shape.num_codes, layout.dim), dtype=np.float32
    )
    seconds = 0.0
    keeps = {"keeps_origins": layout.keeps_origins, "keeps_text": layout.keeps_text}
    with MemoryBank.create(path, signature(codebooks), layout.shape, layout.dim, **keeps) as bank:
        for group in batches(layout, chunks, batch):
            began = time.perf_counter()
            bank.put(group)
            seconds += time.perf_counter() - began
    return seconds


def fill_row_table(path: Path, layout: BankLayout, chunks: int, batch: int = 50_000) -> float:
    """The baseline: one row per document, indexed by source, with its packed codes; returns the seconds."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(
        "CREATE TABLE documents (source TEXT PRIMARY KEY, digest BLOB, size INTEGER, date TEXT, codes BLOB)"
    )
    seconds = 0.0
    for group in batches(layout, chunks, batch):
        began = time.perf_counter()
        rows = [
            (
                one.origin.source,
                bytes.fromhex(one.digest)[:16],
                one.size,
                one.origin.date,
                pack(one.codes, layout.shape),
            )
            for one in group
        ]
        with connection:
            connection.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?)", rows)
        seconds += time.perf_counter() - began
    connection.close()
    return seconds


def measure_size(folder: Path, chunks: int) -> None:
    """Print the bytes per chunk on disk."""
    print(f"Bytes per chunk on disk, {chunks:,} chunks:")
    print(f"  {'':46} {'codes':>6} {'text':>6} {'total':>6} {'MAC 4·T·D':>10} {'released 8·T':>14}")
    for number, layout in enumerate([*LAYOUTS, *WITH_TEXT]):
        path = folder / f"layout{number}.mbc"
        fill_bank(path, layout, chunks)
        with MemoryBank.open(path, read_only=True) as bank:
            sizes, held = bank.sizes(), bank.totals().chunks
        others = 4 * layout.shape.tokens * T5_WIDTH, 8 * layout.shape.tokens
        print(
            f"  {layout.name:46} {sizes.codes / held:>6.1f} {sizes.texts / held:>6.1f} {sizes.file / held:>6.1f} "
            f"{others[0]:>10,} {others[1]:>14}"
        )
        path.unlink()
    rows = folder / "rows.sqlite"
    fill_row_table(rows, LAYOUTS[0], chunks)
    title = "one row per document, paper's codes"
    print(f"  {title:46} {'':>6} {'':>6} {rows.stat().st_size / chunks:>6.1f}")
    rows.unlink()


def time_opening(path: str) -> float:
    """Seconds to open a bank and read its totals."""
    began = time.perf_counter()
    with MemoryBank.open(Path(path), read_only=True) as bank:
        bank.totals(), bank.sizes(), bank.header
    return time.perf_counter() - began


def time_removal(path: str) -> tuple[float, int]:
    """Seconds to open a bank and remove a document by its source."""
    began = time.perf_counter()
    with MemoryBank.open(Path(path)) as bank:
        removed = bank.remove([("/home/ada/news/0077/article-0077077.txt", "")])
    return time.perf_counter() - began, removed


def memory_of_a_question(path: str) -> tuple[int, float, float]:
    """Peak memory growth in bytes, seconds to score all chunks, and total seconds, of a routed question."""
    import torch

    from mbc_engine.paper.codebook import Codebook
    from mbc_engine.paper.memories import BankMemory, Router
    from mbc_engine.ranking import Ranking

    torch.set_num_threads(1)
    with torch.inference_mode(), MemoryBank.open(Path(path), read_only=True) as bank:
        shape = bank.header.shape
        codebook = Codebook(
            shape.num_codes, bank.header.dim, shape.tokens, levels=shape.levels, per_position=shape.per_position
        )
        router, question = Router(bank.header.dim), torch.randn(1, shape.tokens, bank.header.dim)
        router.tables(question, codebook)  # keeps torch's one-time allocations out of the measurement
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        with bank.snapshot():
            ranking = Ranking(50)
            for (log_scores,), _ in BankMemory(bank, codebook).scores(router, question):
                ranking.add(log_scores)
            best = ranking.result()
            scored = time.perf_counter() - began
            bank.chunks_at([hit.chunk for hit in best[:5]])
            seconds = time.perf_counter() - began
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return grown, scored, seconds


def measure_speed(folder: Path, chunks: int) -> None:
    """Print the speed of three layouts, with one or five chunks per document."""
    for layout in (LAYOUTS[0], LAYOUTS[2], LAYOUTS[4]):
        path, rows = folder / "large.mbc", folder / "large.sqlite"
        seconds, plain = fill_bank(path, layout, chunks), fill_row_table(rows, layout, chunks)
        print(f"\n{chunks:,} chunks, {layout.name}:")
        print(f"  append            {chunks / seconds:>12,.0f} chunks/s, {plain / seconds:.1f} x one row per document")
        opening = min(in_a_new_process("bank", "time_opening", str(path), one_thread=False) for _ in range(3))
        print(f"  open and info     {1000 * opening:>12.1f} ms in a new process")
        removal, removed = in_a_new_process("bank", "time_removal", str(path), one_thread=False)
        print(f"  remove by source  {1000 * removal:>12.1f} ms in a new process, {removed} document")
        grown, scored, answered = in_a_new_process("bank", "memory_of_a_question", str(path), one_thread=False)
        print(f"  a routed question {1000 * scored:>12.1f} ms to score all, {1000 * answered:.1f} ms with sources")
        print(f"  its memory        {grown / 1e6:>12.1f} MB")
        began = time.perf_counter()
        last = list(verify(path))[-1]
        assert isinstance(last, BankVerified)
        print(f"  verify            {time.perf_counter() - began:>12.1f} s, {last.damages} errors")
        path.unlink()
        rows.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=1_000_000, help="chunks in the banks whose speed is measured")
    parser.add_argument("--weigh", type=int, default=100_000, help="chunks in the banks whose size is measured")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure_size(Path(folder), args.weigh)
        measure_speed(Path(folder), args.chunks)


if __name__ == "__main__":
    main()
