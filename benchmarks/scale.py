"""A question to ten million chunks: its stages, the same on a Ray cluster, and how much an index over codes could skip.

    python benchmarks/scale.py search --folder build/scale
    python benchmarks/scale.py lists --data ../shared/data

The bank is `search.py`'s, 131,072 chunks with random codes and texts of generated news, whose blocks are stored 76 times.
Random codes and real ones take the same time to scan, but an index could skip more of the real ones: `lists` is about
codes of 1,200 SQuAD paragraphs and 11,600 sentences of Wikipedia, scored by questions about the paragraphs.
"""

import argparse
import json
import lzma
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import bank as banks
import numpy as np
from measuring import in_a_new_process
from numpy.typing import NDArray
from search import LAYOUT, QUESTION, TOP

from mbc_engine import load_model
from mbc_engine.bank import MemoryBank
from mbc_engine.mini.model import RetrieverReader
from mbc_engine.shards import Shards

BASE, TIMES, RUNS = 1 << 17, 76, 5
QUESTIONS, PARAGRAPHS, SENTENCES = 300, 1200, 11_600
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
Floats = NDArray[np.float32]


def mini() -> RetrieverReader:
    os.environ["OMP_NUM_THREADS"] = str(os.cpu_count())
    model = load_model("mini")
    assert isinstance(model, RetrieverReader)
    return model


def repeat(path: Path, times: int) -> None:
    """Store each block of a bank again, as a document of other names would be: time does not depend on what is alike."""
    with MemoryBank.open(path) as bank, bank.changing():
        blocks, connection = bank._blocks, bank._connection  # noqa: SLF001 - a bank has no public way to do this
        numbers, counts = blocks.numbers(), blocks.counts.copy()
        for number in range(len(numbers), times * len(numbers)):
            row = blocks.row(numbers[number % len(numbers)])
            values = number + 1, *row._replace(crc=row.checksum(number + 1))
            connection.execute("INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            for table in ("codes", "words"):
                blocks._write_part(table, number + 1, blocks.packed(numbers[number % len(numbers)], table))  # noqa: SLF001
        blocks.counts += counts * (times - 1)
        blocks._sizes = None  # noqa: SLF001


def time_search(*paths: str) -> dict[str, list[float]]:
    """Processor seconds of each stage, the first time and later, in one bank or in several of a cluster, and all seconds."""
    model, found = mini(), dict[str, list[float]]()
    opened = MemoryBank.open(Path(paths[0]), read_only=True) if len(paths) == 1 else Shards(list(map(Path, paths)))
    with opened as bank:

        def used() -> float:
            return sum(bank.each(lambda _: time.process_time())) + (time.process_time() if len(paths) > 1 else 0.0)

        for run in range(1 + RUNS):
            words = f"{QUESTION} Nobody{run}"  # other words, or they would be known
            with bank.snapshot():
                scope, weight = model.scope(bank), model.settings.word_weight
                start, began = time.perf_counter(), used()
                tables = scope.tables(model.sentence_vectors([words]))
                encoded = used()
                matches = scope.words([words], weight)
                looked_up = used()
                hits = scope.best(tables, TOP, matches)
                ended, end = used(), time.perf_counter()
            stages = {"encode and whiten": encoded - began, "words": looked_up - encoded, "scan": ended - looked_up}
            for name, seconds in (stages | {"wall": end - start}).items():
                found.setdefault(name, []).append(seconds)
    found["best"] = [hit.share for hits_of in hits for hit in hits_of]
    return found


def search(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    whole, half, other = (folder / f"{name}.mbc" for name in ("whole", "half", "other"))
    if not other.exists():
        banks.fill_bank(half, LAYOUT, BASE)
        shutil.copy(half, whole)
        repeat(half, TIMES // 2)
        repeat(whole, TIMES)
        shutil.copy(half, other)
    print(
        f"{BASE * TIMES:,} chunks, {whole.stat().st_size / 1e9:.1f} GB; processor seconds, first and median of {RUNS} later:"
    )
    found = {
        "one bank": in_a_new_process("scale", "time_search", str(whole), one_thread=False),
        "two shards": in_a_new_process(
            "scale", "time_search", f"localhost:{half.absolute()}", str(other.absolute()), one_thread=False
        ),
    }
    best = [times.pop("best") for times in found.values()]
    for name, times in found.items():
        later = {stage: np.median(seconds[1:]) for stage, seconds in times.items()}
        shown = ", ".join(f"{stage} {times[stage][0]:.2f}/{later[stage]:.2f}" for stage in later)
        print(f"  {name}: {shown}; load average {os.getloadavg()[0]:.1f}")
    print(f"  the same shares: {best[0] == best[1]}, at most {np.abs(np.subtract(*best)).max():.1e} apart")


def real_codes(data: Path) -> tuple[RetrieverReader, NDArray[np.int64], Floats]:
    """Codes of paragraphs and sentences, [chunks, tokens], and tables of questions, [questions, tokens, num_codes]."""
    model, chance = mini(), np.random.default_rng(0)
    with lzma.open(data / "qa" / "squad_realigned.jsonl.xz", "rt", encoding="utf-8") as lines:
        rows = list(map(json.loads, lines))
    texts = chance.permutation(list({row["text"]: None for row in rows}))[:PARAGRAPHS].tolist()
    asked = chance.permutation([row["question"] for row in rows if row["text"] in set(texts)])[:QUESTIONS].tolist()
    articles = lzma.decompress((data / "text" / "wikipedia-0.txt.xz").read_bytes()).decode()
    sentences = [part for line in articles.split("\n") for part in line.split(". ")[:3] if 70 <= len(part) <= 140]
    texts += chance.permutation(sentences)[:SENTENCES].tolist()
    address = model.address
    codes = address.encode(address.of_documents(model.sentence_vectors(texts)))
    questions = address.of_questions(model.encoder.vectors(asked, model.settings.question_window))
    return model, codes[chance.permutation(len(codes))], address.tables(questions, address.whitening(codes))


def lists(data: Path) -> None:
    model, codes, tables = real_codes(data)
    for chunks in (len(codes) // 4, len(codes)):
        some = codes[:chunks]
        scores = sum(tables[:, at][:, some[:, at]] for at in range(model.address.tokens))
        best = np.argsort(-scores, 1, kind="stable")[:, :5]
        print(f"{chunks:,} chunks: share to visit for 99% of the best five, and of the best, to be found")
        for name, visiting in ways(model, some, tables):
            order = np.argsort(-visiting, 1, kind="stable")
            ranks = np.empty_like(order)
            np.put_along_axis(ranks, order, np.arange(chunks)[None], 1)
            of_best = np.take_along_axis(ranks, best, 1) / chunks
            enough = [next(x for x in SHARES if (some < x).mean() >= 0.99) for some in (of_best, of_best[:, 0])]
            print(f"  {name:36} {enough[0]:5.0%} {enough[1]:5.0%}")


def ways(model: RetrieverReader, codes: NDArray[np.int64], tables: Floats) -> Iterator[tuple[str, Floats]]:
    """In which order chunks would be visited: those with the largest of these values first, [questions, chunks]."""

    def sums(positions: Callable[[int], NDArray[np.int64]]) -> Floats:
        return np.stack([sum(table[at][codes[:, at]] for at in positions(row)) for row, table in enumerate(tables)])

    varied = np.argsort(-tables.std(2), 1)
    for count in (1, 2):
        fixed = np.argsort(-tables.std(2).mean(0))[:count]
        yield f"lists by the codes of {count} position(s)", sums(lambda _, fixed=fixed: fixed)  # type: ignore[misc]
    vectors = model.address.lookup(codes).reshape(len(codes), -1)
    means = vectors[np.random.default_rng(1).permutation(len(codes))[: len(codes) // 50]]
    for _ in range(8):
        nearest = (vectors @ means.T - (means**2).sum(1) / 2).argmax(1)
        totals = np.zeros_like(means)
        np.add.at(totals, nearest, vectors)
        means = totals / np.maximum(np.bincount(nearest, minlength=len(means)), 1)[:, None].astype(np.float32)
    coarse = np.zeros((len(tables), len(means)), np.float32)
    for number in range(len(means)):
        coarse[:, number] = sums_of_list(codes[nearest == number], tables)
    yield "k-means, fifty chunks a list", coarse[:, nearest]
    for count in (2, 4, 8):
        yield f"scores of the {count} most varied positions", sums(lambda row, count=count: varied[row, :count])  # type: ignore[misc]


def sums_of_list(codes: NDArray[np.int64], tables: Floats) -> Floats:
    """The mean score of a list's chunks."""
    if not len(codes):
        return np.full(len(tables), -np.inf, np.float32)
    return np.asarray(sum(tables[:, at][:, codes[:, at]].mean(1) for at in range(codes.shape[1])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("search", "lists"))
    parser.add_argument("--folder", type=Path, default=Path("build/scale"), help="where the banks are kept")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    args = parser.parse_args()
    search(args.folder) if args.what == "search" else lists(args.data)


if __name__ == "__main__":
    main()
