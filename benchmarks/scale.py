"""Measures what a memory takes past one machine, and writes the second part of docs/scale.md.

    python benchmarks/scale.py              # a million chunks, some minutes on an otherwise idle machine
    python benchmarks/scale.py --small      # a few thousand: tries everything out, prints, writes no page

Constants of one bank, the same documents in shards, what crosses between processes, and a projection from these; each
step is a process of its own, and is kept until `--again`.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import read
from keeping import Kept, conditions
from measuring import in_a_new_process
from scale_written import written
from wording import in_time, wrapped

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs/scale.md"
BEGIN, END = "<!-- written by python benchmarks/scale.py -->", "<!-- end of what it writes -->"
CHUNKS: Final = 1 << 20
SMALL: Final = 1 << 13

Step = tuple[str, str, str, tuple[object, ...]]  # name, module, function, arguments


def steps(chunks: int, texts: int, folder: str) -> list[Step]:
    """What is measured, in this order: the banks come first."""
    return [
        ("make paper", "scale_banks", "make", ("paper", chunks, folder)),
        ("make mini", "scale_banks", "make", ("mini", chunks, folder)),
        ("bank paper", "scale_constants", "one_bank", ("paper", chunks, folder)),
        ("bank mini", "scale_constants", "one_bank", ("mini", chunks, folder)),
        ("flat read", "scale_constants", "flat", (folder,)),
        ("encode", "scale_constants", "encode", (texts,)),
        ("shards paper", "scale_shards", "of_paper", (folder,)),
        ("shards mini", "scale_shards", "passages", (folder,)),
        ("shards hierarchical", "scale_shards", "hierarchical", ()),
        ("all-reduce 2", "scale_processes", "all_reduce", (2,)),
        ("all-reduce 4", "scale_processes", "all_reduce", (4,)),
        ("nodes paper", "scale_processes", "scatter_and_gather", ("paper", folder, 2)),
        ("nodes mini", "scale_processes", "scatter_and_gather", ("mini", folder, 2)),
    ]


def measure(kept: Kept, chunks: int, texts: int, where: Path) -> None:
    """Take the steps that are not kept yet, with banks made for the time being."""
    with tempfile.TemporaryDirectory(dir=where) as folder:
        planned = steps(chunks, texts, folder)
        if all(name in kept.steps for name, *_ in planned):
            return
        for name, module, function, arguments in planned:
            if name in kept.steps and function != "make":
                continue
            print(f"{name} ...", end=" ", flush=True)
            under, began = conditions(), time.perf_counter()
            result = in_a_new_process(module, function, *arguments)
            seconds = time.perf_counter() - began
            kept.keep(name, result, seconds, under)
            print(f"{seconds:.0f} s", flush=True)


def part(steps: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The lines of the page."""
    yield from written({name: own["result"] for name, own in steps.items()})
    dates = sorted({own["date"] for own in steps.values()})
    loads = [own["load"] for own in steps.values() if own["load"] is not None]
    noise = f" Load average as steps began: {min(loads):.1f} to {max(loads):.1f}, ours included." if loads else ""
    yield ""
    yield f"- Command: `python benchmarks/scale.py`; {' to '.join(dict.fromkeys((dates[0], dates[-1])))}; one thread."
    for facts in sorted({(own["machine"], own["versions"]) for own in steps.values()}):
        yield from (f"- {fact}." for fact in facts)
    yield f"- Seed: 0. {in_time(sum(own['seconds'] for own in steps.values()))} in all.{noise}"


def renewed(page: str, text: str) -> str:
    """A page with what stands between the two marks written anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text.strip()}\n\n{END}{after}"


def main() -> None:
    """Measure, then write the page or, of a small run, print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a few thousand chunks, printed")
    parser.add_argument("--again", action="store_true", help="measure anew what is kept")
    parser.add_argument("--folder", type=Path, default=read.FOLDER, help="where results are kept (default %(default)s)")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    kept = Kept(args.folder, "scale-small" if args.small else "scale")
    if args.again:
        kept.steps.clear()
    measure(kept, SMALL if args.small else CHUNKS, 16 if args.small else 128, args.folder)
    text = wrapped(part(kept.steps))
    if args.small:
        print(text)
    else:
        PAGE.write_text(renewed(PAGE.read_text(), text))
        print(PAGE)


if __name__ == "__main__":
    main()
