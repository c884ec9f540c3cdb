"""Chunks per second that an ingest on Ray memorises, with one actor and with two, against a single process.

    python benchmarks/ray_ingest.py --data ../shared/data [--model mini] [--chunks 480] [--json]

The same files of newswire stories go into a new bank each time, with one thread per encoder: by `ingest` in this
process, and on a cluster on this machine with one actor and with two. The banks' exports must be identical, byte for
byte. *Chunks/s* is measured from the first commit to the last, once everything has started; *total time* includes the
start of the actors and their models, but not of Ray. *Efficiency* is that rate divided by the rate of one process and
by the number of actors: two need two otherwise idle cores.
"""

import argparse
import json
import lzma
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from keeping import conditions
from wording import format_seconds, table

from mbc_engine import MBC, ingest, load_model, open_bank
from mbc_engine.bank import MemoryBank
from mbc_engine.bank.exchange import export
from mbc_engine.events import DocumentsIngested, Event
from mbc_engine.ingestion.ray import Actors, connected

STORIES: Final = "news/reuters21578.jsonl.xz"
CHUNKS: Final = 480

Result = dict[str, Any]


def write_stories(stories: Path, folder: Path, model: MBC, chunks: int) -> None:
    """Write one file per story, for `chunks` chunks in all."""
    with lzma.open(stories, "rt") as rows:
        for row in map(json.loads, rows):
            text = f"{row['title']}. {row['text']}"
            chunks -= len(model.chunker(text))
            (folder / f"{row['id']}.txt").write_text(text)
            if chunks <= 0:
                return


def track_ingest(events: Iterable[Event]) -> Result:
    """An ingest's total time, chunks and rate."""
    began, commits = time.perf_counter(), []
    for event in events:
        if isinstance(event, DocumentsIngested) and event.chunks > (commits[-1][1] if commits else 0):
            commits.append((time.perf_counter(), event.chunks))
    (first, before), (last, chunks) = commits[0], commits[-1]
    return {"whole": time.perf_counter() - began, "chunks": chunks, "rate": (chunks - before) / (last - first)}


def measure(name: str, stories: Path, chunks: int, folder: Path) -> dict[str, Result]:
    """Measure each way in turn.

    Raises:
        ValueError: two banks differ.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    model = load_model(name)
    news = folder / "news"
    news.mkdir()
    write_stories(stories, news, model, chunks)
    results, exports = {}, set()

    def run_ingest(way: str, bank: MemoryBank, events: Iterator[Event]) -> None:
        print(f"{way} ...", file=sys.stderr, flush=True)
        results[way] = track_ingest(events)
        exports.add(b"".join(export(bank)))

    with open_bank(model, folder / "serial.mbc") as bank:
        run_ingest("one process", bank, ingest(model, bank, [news]))
    began = time.perf_counter()
    with connected():
        start = time.perf_counter() - began
        for number in (1, 2):
            way = f"{number} actor{'s' if number > 1 else ''}"
            with open_bank(model, folder / f"{number}.mbc") as bank:
                run_ingest(way, bank, ingest(model, bank, [news], actors=Actors(number=number, chunks=32)))
            results[way] |= {
                "start": start,
                "efficiency": results[way]["rate"] / results["one process"]["rate"] / number,
            }
    if len(exports) > 1:
        raise ValueError("The banks differ.")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help=f"the folder that has {STORIES}")
    parser.add_argument("--model", default="mini")
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    environment = conditions()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(args.model, args.data / STORIES, args.chunks, Path(folder))
    if args.json:
        print(json.dumps(environment | {"ways": results}, indent=1))
        return
    rows = [
        [
            way,
            f"{result['rate']:.1f}",
            format_seconds(result["whole"]),
            f"{result['efficiency']:.0%}" if "efficiency" in result else "",
        ]
        for way, result in results.items()
    ]
    print("\n".join(table(["", "chunks/s", "total time", "efficiency"], rows)))
    print(f"{results['one process']['chunks']} chunks; Ray started in {format_seconds(results['1 actor']['start'])}.")
    print(f"{environment['machine']}; {environment['versions']}; load {environment['load']}; {environment['date']}.")


if __name__ == "__main__":
    main()
