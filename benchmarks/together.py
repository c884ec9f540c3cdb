"""The cost of asking two banks as one, against one bank that holds the same documents.

    python benchmarks/together.py [--documents 1000000] [--shape distilgpt2]

The parts are those of `read.py`. The one bank, the two, and the two with weights alternate in one process, so that
other load on the machine affects all of them; one chunk per document, one thread, files in the page cache.
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import bank as banks
import numpy as np
import read as reads
import torch
from measuring import in_a_new_process, seconds_of

from mbc_engine.bank import Banks, MemoryBank, delete

READS: Final = ("flat", "sources", "routed")
WEIGHTS: Final = (1.0, 2.0)


def halves_of(name: str, documents: int, folder: Path) -> list[Path]:
    """The documents of `read.bank_of` in two banks, created if missing."""
    paths = [folder / "banks" / f"{name}-{documents}-{number}-of-2.mbc" for number in (1, 2)]
    if all(path.exists() for path in paths):
        return paths
    layout, size = reads.bank_layout(name), min(50_000, documents // 2)
    batches = banks.batches(layout, documents, size)
    with MemoryBank.open(reads.bank_of(name, documents, folder), read_only=True) as whole:
        signature = whole.header.signature
    for path in paths:
        unfinished = Path(f"{path}.part")
        delete(unfinished)
        with MemoryBank.create(unfinished, signature, layout.shape, layout.dim, keeps_origins=False) as half:
            while half.totals().chunks < documents // 2:
                half.put(next(batches))
        unfinished.replace(path)
    return paths


@torch.no_grad()
def measure(name: str, mode: str, documents: int, folder: str) -> reads.Result:
    """Median seconds to read the one bank, the two, and the two with weights; and how much the results differ."""
    torch.set_num_threads(1)
    paths = halves_of(name, documents, Path(folder))
    with (
        Banks.open([reads.bank_of(name, documents, Path(folder))]) as one,
        Banks.open(paths) as two,
        Banks.open(paths, WEIGHTS) as weighted,
    ):
        parts = reads.make_parts(name)
        asks = [reads.MODES[mode](parts, each) for each in (one, two, weighted)]
        runs = 101 if mode == "flat" else 21
        turns = [[seconds_of(ask)[1] for ask in asks] for _ in range(runs)][runs // 10 :]  # the first warm up
        results = [asks[0](), asks[1]()] if mode != "sources" else [torch.zeros(1)] * 2
    medians = [statistics.median(times) for times in zip(*turns, strict=True)]
    return {
        "one": medians[0],
        "two": medians[1],
        "weighted": medians[2],
        "runs": len(turns),
        "difference": float(np.abs(results[0] - results[1]).max()),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=reads.FOLDER, help="where banks are kept (default %(default)s)")
    parser.add_argument(
        "--documents", type=int, default=1_000_000, help="documents in both banks together (default %(default)s)"
    )
    parser.add_argument(
        "--shape", choices=reads.WIDTHS, default="distilgpt2", help="whose codes to use (default %(default)s)"
    )
    args = parser.parse_args(arguments)
    print(f"{args.documents:,} documents, {args.shape}: one bank, two, and two with weights")
    for mode in READS:
        found = in_a_new_process("together", "measure", args.shape, mode, args.documents, str(args.folder.resolve()))
        print(
            f"  {mode:8} {1000 * found['one']:>9.2f} ms {1000 * found['two']:>9.2f} ms, "
            f"ratio {found['two'] / found['one']:.2f} {1000 * found['weighted']:>9.2f} ms, "
            f"ratio {found['weighted'] / found['one']:.2f}; difference {found['difference']:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
