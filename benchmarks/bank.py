"""What a bank weighs and how fast it is, beside a row a document and beside what other methods keep.

    python benchmarks/bank.py [--chunks 1000000]

Codes come from a generator with a fixed seed. Every figure of speed is of one process on an otherwise idle machine.
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
from measuring import in_a_new_process

from mbc_engine.bank import (
    CodeShape,
    EncodedText,
    MemoryBank,
    ModelSignature,
    Origin,
    StoredDocument,
    fingerprint,
    pack,
    verify,
)
from mbc_engine.bank.text_codec import encode_chunk
from mbc_engine.events import BankVerified
from mbc_engine.text import Chunk

T5_WIDTH = 768  # D of the T5-base that MAC and the paper's larger models use


@dataclass(frozen=True)
class Form:
    """A kind of bank to measure."""

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
FORMS = [
    Form(f"{name}, {per} a document, {'sources' if keeps else 'no sources'}", shape, dim, per, keeps)
    for name, shape, dim in (("paper's codes", PAPER, T5_WIDTH), ("12 x 2 residual codes", RESIDUAL, 192))
    for per in (1, 5)
    for keeps in (True, False)
]
WITH_TEXT = [
    Form(
        f"mini's codes and text, {per} a document, {'sources' if keeps else 'no sources'}",
        MINI,
        MINI_DIM,
        per,
        keeps,
        True,
    )
    for per in (1, 5)
    for keeps in (True, False)
]


def signature(books: np.ndarray) -> ModelSignature:
    """A model's signature for made-up books."""
    return ModelSignature("benchmark", "00" * 8, fingerprint(books))


def documents(form: Form, chunks: int) -> Iterator[StoredDocument]:
    """Documents as a news archive has them: a file each, in folders of a thousand, with sizes and days."""
    random = np.random.default_rng(0)
    per = form.chunks_per_document
    shape = form.shape
    for number in range(chunks // per):
        if number % 10_000 == 0:
            codes = random.integers(0, shape.num_codes, (10_000 * per, shape.tokens, shape.levels), dtype=np.uint16)
        source = f"/home/ada/news/{number // 1000:04d}/article-{number:07d}.txt"
        date = f"{1990 + number // 1000 % 30}-{number // 80 % 12 + 1:02d}-{number % 28 + 1:02d}"
        digest, start = hashlib.sha256(b"%d" % number).hexdigest(), number % 10_000 * per
        own = codes[start : start + per]
        yield StoredDocument(digest, per, 800 + number * 7919 % 4000, (Origin(source, "", date),), own)


@cache
def texts(count: int = 2000) -> list[EncodedText]:
    """Chunks of generated news, about 800 characters each, as a bank keeps them."""
    from mbc_engine.datasets.newswire import stories

    told = [story.text for story in stories("test", 3 * count, seed=0)]
    together = (" ".join(told[start : start + 3]) for start in range(0, len(told), 3))
    return [encode_chunk(Chunk(text, 0)) for text in together]


def items(form: Form, chunks: int) -> Iterator[StoredDocument]:
    """The documents, with text where the form keeps it: the same few thousand chunks of it again and again."""
    pool, at = texts() if form.keeps_text else [], 0
    for document in documents(form, chunks):
        own = [pool[(at + number) % len(pool)] for number in range(document.chunks)] if pool else None
        yield replace(document, texts=own)
        at += document.chunks


def batches(form: Form, chunks: int, size: int) -> Iterator[list[StoredDocument]]:
    """The documents by `size` chunks."""
    batch: list[StoredDocument] = []
    for item in items(form, chunks):
        batch.append(item)
        if len(batch) * form.chunks_per_document == size:
            yield batch
            batch = []
    if batch:
        yield batch


def filled(path: Path, form: Form, chunks: int, batch: int = 50_000) -> float:
    """Make a bank; returns the seconds spent in `put`."""
    books = np.random.default_rng(1).standard_normal(
        (form.shape.levels, form.shape.positions, form.shape.num_codes, form.dim), dtype=np.float32
    )
    seconds = 0.0
    keeps = {"keeps_origins": form.keeps_origins, "keeps_text": form.keeps_text}
    with MemoryBank.create(path, signature(books), form.shape, form.dim, **keeps) as bank:
        for own in batches(form, chunks, batch):
            began = time.perf_counter()
            bank.put(own)
            seconds += time.perf_counter() - began
    return seconds


def filled_by_rows(path: Path, form: Form, chunks: int, batch: int = 50_000) -> float:
    """The plain way: a row a document, indexed by source, each with its packed codes; returns the seconds."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(
        "CREATE TABLE documents (source TEXT PRIMARY KEY, digest BLOB, size INTEGER, date TEXT, codes BLOB)"
    )
    seconds = 0.0
    for own in batches(form, chunks, batch):
        began = time.perf_counter()
        rows = [
            (record.source, bytes.fromhex(record.digest)[:16], record.size, record.date, pack(codes, form.shape))
            for record, codes, _ in own
        ]
        with connection:
            connection.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?)", rows)
        seconds += time.perf_counter() - began
    connection.close()
    return seconds


def weigh(folder: Path, chunks: int) -> None:
    """Bytes a chunk on the disk."""
    print(f"Bytes a chunk on the disk, {chunks:,} chunks:")
    print(f"  {'':46} {'codes':>6} {'text':>6} {'all':>6} {'MAC 4·T·D':>10} {'reference 8·T':>14}")
    for number, form in enumerate([*FORMS, *WITH_TEXT]):
        path = folder / f"weigh{number}.mbc"
        filled(path, form, chunks)
        with MemoryBank.open(path, read_only=True) as bank:
            sizes, held = bank.sizes(), bank.totals().chunks
        others = 4 * form.shape.tokens * T5_WIDTH, 8 * form.shape.tokens
        print(
            f"  {form.name:46} {sizes.codes / held:>6.1f} {sizes.texts / held:>6.1f} {sizes.file / held:>6.1f} "
            f"{others[0]:>10,} {others[1]:>14}"
        )
        path.unlink()
    rows = folder / "rows.sqlite"
    filled_by_rows(rows, FORMS[0], chunks)
    print(f"  {'a row a document, the codes of the paper':46} {'':>6} {'':>6} {rows.stat().st_size / chunks:>6.1f}")
    rows.unlink()


def time_opening(path: str) -> float:
    """Seconds to open a bank and say what it holds."""
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
    """Bytes by which the process grows at most, and seconds, when a question is routed to its best chunks."""
    import torch

    from mbc_engine.paper.codebook import Codebook
    from mbc_engine.paper.memories import BankMemory, Router
    from mbc_engine.ranking import Ranking

    torch.set_num_threads(1)
    with torch.inference_mode(), MemoryBank.open(Path(path), read_only=True) as bank:
        shape = bank.header.shape
        book = Codebook(
            shape.num_codes, bank.header.dim, shape.tokens, levels=shape.levels, per_position=shape.per_position
        )
        router, question = Router(bank.header.dim), torch.randn(1, shape.tokens, bank.header.dim)
        router.tables(question, book)  # what torch allocates for itself on first use is not the bank's
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        with bank.snapshot():
            ranking = Ranking(50)
            for (log_scores,), _ in BankMemory(bank, book).scores(router, question):
                ranking.add(log_scores)
            best = ranking.result()
            scored = time.perf_counter() - began
            bank.chunks_at([own.chunk for own in best[:5]])
            seconds = time.perf_counter() - began
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return grown, scored, seconds


def scale(folder: Path, chunks: int) -> None:
    """Speed with many chunks, one a document: the hardest case."""
    for form in (FORMS[0], FORMS[2], FORMS[4]):
        path, rows = folder / "large.mbc", folder / "large.sqlite"
        seconds, plain = filled(path, form, chunks), filled_by_rows(rows, form, chunks)
        print(f"\n{chunks:,} chunks, {form.name}:")
        print(f"  append            {chunks / seconds:>12,.0f} chunks/s, {plain / seconds:.1f} times a row a document")
        opening = min(in_a_new_process("bank", "time_opening", str(path), one_thread=False) for _ in range(3))
        print(f"  open and info     {1000 * opening:>12.1f} ms in a new process")
        removal, removed = in_a_new_process("bank", "time_removal", str(path), one_thread=False)
        print(f"  remove by source  {1000 * removal:>12.1f} ms in a new process, {removed} document")
        grown, scored, answered = in_a_new_process("bank", "memory_of_a_question", str(path), one_thread=False)
        print(f"  a routed question {1000 * scored:>12.1f} ms to score all, {1000 * answered:.1f} ms with its sources")
        print(f"  its memory        {grown / 1e6:>12.1f} MB")
        began = time.perf_counter()
        last = list(verify(path))[-1]
        assert isinstance(last, BankVerified)
        print(f"  verify            {time.perf_counter() - began:>12.1f} s, {last.damages} damages")
        path.unlink()
        rows.unlink()


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=1_000_000, help="chunks of the large banks")
    parser.add_argument("--weigh", type=int, default=100_000, help="chunks of the banks that are weighed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        weigh(Path(folder), args.weigh)
        scale(Path(folder), args.chunks)


if __name__ == "__main__":
    main()
