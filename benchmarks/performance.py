"""Measures everything that docs/performance.md says, and writes it, tables, plots and prose.

    pip install -c constraints.txt -e '.[embedded,bench]'
    python benchmarks/performance.py                       # everything, on an otherwise idle machine
    python benchmarks/performance.py --only read startup   # some sections; the others stay as they were
    python benchmarks/performance.py --only                # none: write the page from what is kept

What was measured is kept in the folder, step by step, with the machine it was measured on: an interrupted run goes on
where it was. `--again` measures the sections anew. Each step is a process of its own.
"""

import argparse
import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import read
from keeping import Kept, conditions
from measuring import in_a_new_process
from sections import SECTIONS, Section
from wording import in_time, wrapped

ROOT: Final = Path(__file__).resolve().parents[1]
HINT: Final = "pip install -c constraints.txt -e '.[report]'"


def measure(section: Section, args: argparse.Namespace) -> None:
    """Take the steps of a section that are not kept yet."""
    kept = Kept(args.folder, section.name)
    if args.again:
        kept.steps.clear()
    for step in section.steps(args):
        if step.name in kept.steps:
            continue
        print(f"{section.name}: {step.name} ...", end=" ", flush=True)
        under, began = conditions(), time.perf_counter()
        result = in_a_new_process(step.module, step.function, *step.arguments, one_thread=step.one_thread)
        seconds = time.perf_counter() - began
        kept.keep(step.name, result, seconds, under)
        print(f"{seconds:.0f} s", flush=True)


def page(args: argparse.Namespace) -> Iterator[str]:
    """docs/performance.md from what is kept."""
    yield "# How fast, how large"
    yield ""
    yield (
        "Written by `python benchmarks/performance.py` from what it measured; change that, not this. What banks weigh "
        "and survive is in [bank.md](bank.md), how well `mini` answers in [mini.md](mini.md). Sections "
        "name their processors: times on different ones are not to be compared."
    )
    for section in SECTIONS.values():
        kept = Kept(args.folder, section.name)
        wanted = [step.name for step in section.steps(args)]
        steps = {name: kept.steps[name] for name in wanted if name in kept.steps}
        if section.is_asked_for and not steps:
            continue
        yield from ["", f"## {section.title}", ""]
        if not steps:
            yield f"Not measured yet: `{command_of(section, args)}`."
            continue
        yield from section.written({name: own["result"] for name, own in steps.items()})
        yield from under_what(section, steps, args)
        if len(steps) < len(wanted):
            yield f"- **{len(wanted) - len(steps)} of {len(wanted)} steps are still to be measured.**"


def under_what(section: Section, steps: dict[str, dict[str, Any]], args: argparse.Namespace) -> Iterator[str]:
    """The conditions of a section, below its figures."""
    dates = sorted({own["date"] for own in steps.values()})
    threads = "one thread" if all(step.one_thread for step in section.steps(args)) else "threads as torch chooses"
    loads = [own["load"] for own in steps.values() if own["load"] is not None]
    yield ""
    yield f"- Command: `{command_of(section, args)}`; {' to '.join(dict.fromkeys((dates[0], dates[-1])))}; {threads}."
    for machine_and_versions in sorted({(own["machine"], own["versions"]) for own in steps.values()}):
        yield from (f"- {fact}." for fact in machine_and_versions)
    noise = f" Load average as steps began: {min(loads):.1f} to {max(loads):.1f}, ours included." if loads else ""
    yield f"- Seed: {section.seed}. {in_time(sum(own['seconds'] for own in steps.values()))} in all.{noise}"


def command_of(section: Section, args: argparse.Namespace) -> str:
    """What measures a section."""
    command = f"python benchmarks/performance.py --only {section.name}"
    if section.name in ("read", "scan") and args.largest != read.SIZES[-1]:
        command += f" --largest {args.largest}"
    return command


def draw(args: argparse.Namespace) -> None:
    """All plots of what is kept, or a word about why not."""
    if importlib.util.find_spec("matplotlib") is None:
        print(f"There is no matplotlib, and no plot is drawn: {HINT}", file=sys.stderr)
        return
    for section in SECTIONS.values():
        wanted = {step.name for step in section.steps(args)}
        results = {name: own for name, own in Kept(args.folder, section.name).results.items() if name in wanted}
        if section.plots and results:
            section.plots(results, args.output / "plots")


def main() -> None:
    """Measure what is not kept, then write the page and the plots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = [name for name, section in SECTIONS.items() if not section.is_asked_for]
    parser.add_argument(
        "--only", nargs="*", choices=SECTIONS, default=usual, metavar="SECTION", help=", ".join(SECTIONS)
    )
    parser.add_argument("--folder", type=Path, default=read.FOLDER, help="where results and banks are kept")
    parser.add_argument("--output", type=Path, default=ROOT / "docs", help="where the page goes (default %(default)s)")
    parser.add_argument("--again", action="store_true", help="measure these sections anew")
    parser.add_argument("--largest", type=int, default=read.SIZES[-1], help="documents of the largest bank")
    parser.add_argument("--memory", type=float, default=read.MEMORY_GB, help="GB a dense read may take (%(default)s)")
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    failed = []
    for name in args.only:
        try:
            measure(SECTIONS[name], args)
        except subprocess.CalledProcessError:
            print("failed; the next section goes on.", file=sys.stderr)
            failed.append(name)
    draw(args)
    args.output.mkdir(parents=True, exist_ok=True)
    path = args.output / "performance.md"
    path.write_text(wrapped(page(args)))
    print(path)
    if failed:
        sys.exit(f"These sections are not complete: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
