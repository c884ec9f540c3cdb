"""Measures everything that docs/performance.md says, and writes it, tables, plots and prose.

    pip install -c constraints.txt -e '.[embedded,bench]'
    python benchmarks/performance.py                       # everything, on an otherwise idle machine
    python benchmarks/performance.py --only read sources   # some sections; the others stay as they were
    python benchmarks/performance.py --only                # none: write the page from what is kept

What was measured is kept in the folder, step by step, with the machine it was measured on: an interrupted run goes on
where it was. `--again` measures the sections anew. Each step is a process of its own.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

import read
import sources

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = ("torch", "numpy", "transformers", "tokenizers", "bm25s", "matplotlib")
HINT: Final = "pip install -c constraints.txt -e '.[bench]'"
WANTED_GROWTH: Final = 1.2
TITLES: Final = {"distilgpt2": "DistilGPT2's shape", "llama2-7b": "LLaMA-2-7B's shape", "mini": "mini's codes"}

_LEAST_GROWTH: Final = 1e6

Result = Any
Table = list[list[str]]


@dataclass(frozen=True)
class Step:
    """A call to a function of a module of this folder; its name is what its result is kept under.

    `one_thread` is False for what is to run as it does for a user.
    """

    name: str
    module: str
    function: str
    arguments: tuple[object, ...] = ()
    one_thread: bool = True


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        name: of the section and of its file in the folder.
        title: its heading.
        steps: what is measured.
        written: its text, of the results by step.
        plots: its plots, of the results by step.
        seed: what its random numbers start from, in words.
        is_asked_for: it is measured only when `--only` names it.
    """

    name: str
    title: str
    steps: Callable[[argparse.Namespace], list[Step]]
    written: Callable[[dict[str, Result]], Iterator[str]]
    plots: Callable[[dict[str, Result], Path], None] | None = None
    seed: str = "0"
    is_asked_for: bool = False


# Figures in words -----------------------------------------------------------------------------------------------------


def in_time(seconds: float) -> str:
    """Three figures and a unit."""
    return f"{seconds:,.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def in_bytes(number: float) -> str:
    """Three figures and a unit; growth below a megabyte is a page here and there."""
    if number < _LEAST_GROWTH:
        return "< 1 MB"
    return f"{number / 1e9:.3g} GB" if number >= 1e9 else f"{number / 1e6:.3g} MB"


def times(ratio: float) -> str:
    """How many times."""
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2f}"


def table(head: Sequence[str], rows: Table, *, words: int = 1) -> Iterator[str]:
    """A table in Markdown, the first columns words, the others figures."""
    yield ""
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join(['---'] * words + ['---:'] * (len(head) - words))}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def plot(name: str, title: str) -> Iterator[str]:
    """A plot that the page shows."""
    yield ""
    yield f"![{title}](plots/{name}.png)"
    yield ""


# What a question costs ------------------------------------------------------------------------------------------------


def cell_steps(cells: Iterable[read.Cell], args: argparse.Namespace) -> list[Step]:
    """A step for each cell."""
    more = (str(args.folder), args.memory)
    return [Step(" ".join(map(str, cell)), "read", "measure", (*cell, *more)) for cell in cells]


def read_steps(args: argparse.Namespace) -> list[Step]:
    """The comparison, and the growth of the flat read."""
    steps = cell_steps(read.plan(args.largest), args)
    if args.largest >= read.GROWTH[-1]:
        grown = (Step(f"{name} growth", "read", "measure_growth", (name, str(args.folder))) for name in read.SHAPES)
        steps.extend(grown)
    return steps


def cells_of(found: dict[str, Result], name: str) -> dict[tuple[str, int], Result]:
    """The cells of a shape by read and documents."""
    split = {tuple(step.split()): result for step, result in found.items()}
    return {(key[1], int(key[2])): own for key, own in split.items() if key[0] == name and len(key) == 3}


def read_written(found: dict[str, Result]) -> Iterator[str]:
    """The section on reads."""
    yield (
        "One question, its vectors at hand, against a bank of N documents of one chunk. *Dense* is what the published "
        "code does: it looks up the vectors of all codes and, in each of the aggregator's four blocks, normalises all "
        "of them, projects them to keys and values, and attends. *Flat* has the same result: rows with the same code "
        "are one row, weighted by how often it occurs, and keys and values of the codebook are computed once per "
        "model. It reads the counts from the bank's file. *Sources of flat* is what it leaves for later: which "
        "documents the attention went to, a scan of all codes. *Hierarchical* is the paper's divide and conquer, "
        "whose result is another than that of the dense read; it and *routed* name their sources on the way. The "
        "aggregator has the paper's shape and random weights; the codes are random. One thread, float32; medians of "
        "repeated runs in a process of their own, files in the page cache. Memory is by how much the process grew at "
        "most, above the model itself and what libraries take on first use."
    )
    for name in read.SHAPES:
        cells = cells_of(found, name)
        if cells:
            yield from shape_written(name, cells, found.get(f"{name} growth"))
    yield from plot("read-time", "Time of a question over documents in the bank")
    yield from plot("read-memory", "Memory of a question over documents in the bank")


def shape_written(name: str, cells: dict[tuple[str, int], Result], grown: Result | None) -> Iterator[str]:
    """A shape's tables and what follows from them."""
    yield from ["", f"### {TITLES[name]}"]
    modes = ["dense", "flat", "sources", read.HIERARCHICAL, "routed"]
    sizes = sorted({size for _, size in cells})
    titles = ["dense", "flat", "dense / flat", "sources of flat", read.HIERARCHICAL, "routed"]

    def shown(mode: str, size: int, figure: str, form: Callable[[float], str]) -> str:
        own = cells.get((mode, size), {})
        return form(own[figure]) if figure in own else "skipped" if "skipped" in own else ""

    rows = []
    for size in sizes:
        row = [shown(mode, size, "seconds", in_time) for mode in modes]
        ratio = ""
        if row[0] not in ("", "skipped") and row[1]:
            ratio = times(cells["dense", size]["seconds"] / cells["flat", size]["seconds"])
        rows.append([f"{size:,}", *row[:2], ratio, *row[2:]])
    yield from ["", "Time:"]
    yield from table(["N", *titles], rows, words=0)
    yield "Memory:"
    rows = [[f"{size:,}", *(shown(mode, size, "grown", in_bytes) for mode in modes)] for size in sizes]
    yield from table(["N", *modes], rows, words=0)
    yield from dense_written(cells)
    if grown:
        yield from ["", growth_written(grown, cells)]


def dense_written(cells: dict[tuple[str, int], Result]) -> Iterator[str]:
    """What there is to say about the dense reads of a shape."""
    dense = {size: own for (mode, size), own in cells.items() if mode == "dense"}
    read_whole = [own for own in dense.values() if "difference" in own]
    if read_whole:
        worst = max(read_whole, key=lambda own: own["difference"])
        yield (
            f"Dense and flat differ by {worst['difference']:.1e} at most (float32), where the read changes the "
            f"question's vectors by up to {worst['change']:.2g}."
        )
    for size, own in dense.items():
        if own.get("in_slices"):
            yield (
                f"At {size:,} documents the dense read normalised and projected {read._SLICE:,} rows at a time, as it "
                "would not have fitted into the machine otherwise: the same sums in less memory than the published "
                "code takes."
            )
        if own.get("runs") == 1:
            yield f"The dense read of {size:,} documents took so long that it ran once."
        if "skipped" in own:
            yield f"The dense read of {size:,} documents was skipped: {own['skipped']}."


def growth_written(grown: Result, cells: dict[tuple[str, int], Result]) -> str:
    """Whether the flat read grows with the bank."""
    small, large = grown["sizes"]
    within = "within" if grown["ratio"] <= WANTED_GROWTH else "**more than**"
    text = (
        f"In turns in one process, the flat read of {large:,} documents took {in_time(grown['large'])}, that of "
        f"{small:,} {in_time(grown['small'])} ({grown['runs']} runs each): {grown['ratio']:.2f} times, {within} the "
        f"{WANTED_GROWTH} that we want."
    )
    scan = cells.get(("sources", large))
    if scan:
        text += f" Naming its sources is a scan, and took {in_time(scan['seconds'])} more."
    return text


def read_plots(found: dict[str, Result], folder: Path) -> None:
    """Time and memory over documents."""
    import plots

    series = {"dense": "dense", "flat": "flat", read.HIERARCHICAL: read.HIERARCHICAL, "routed": "routed"}

    def panels(figure: str, least: float) -> dict[str, dict[str, list[tuple[float, float]]]]:
        drawn: dict[str, dict[str, list[tuple[float, float]]]] = {}
        for name in read.SHAPES:
            panel: dict[str, list[tuple[float, float]]] = {}
            cells = cells_of(found, name)
            for (mode, size), own in cells.items():
                if mode in series and figure in own:
                    panel.setdefault(series[mode], []).append((size, max(least, own[figure])))
            if panel:
                drawn[TITLES[name]] = panel
        return drawn

    def with_sources(drawn: dict[str, dict[str, list[tuple[float, float]]]]) -> None:
        for name in read.SHAPES:
            cells = cells_of(found, name)
            both = [
                (size, own["seconds"] + cells["flat", size]["seconds"])
                for (mode, size), own in cells.items()
                if mode == "sources" and "seconds" in cells.get(("flat", size), {})
            ]
            if both:
                drawn[TITLES[name]]["flat, with sources"] = [*map(tuple, both)]

    seconds = panels("seconds", 0.0)
    with_sources(seconds)
    plots.by_documents(seconds, "seconds a question", folder, "read-time")
    megabytes = {
        title: {label: [(size, grown / 1e6) for size, grown in points] for label, points in panel.items()}
        for title, panel in panels("grown", _LEAST_GROWTH).items()
    }
    plots.by_documents(megabytes, "MB more; 1 stands for less, too", folder, "read-memory")


# The scan -------------------------------------------------------------------------------------------------------------


def scan_steps(args: argparse.Namespace) -> list[Step]:
    """Scores of all documents."""
    return cell_steps(read.scan_plan(args.largest), args)


def scan_written(found: dict[str, Result]) -> Iterator[str]:
    """The section on the scan."""
    yield (
        "A routed read scores every chunk: the bank's packed bits are taken apart block by block, and each code is a "
        "look-up in a table made once per question. This is that scan alone, on one core, without ranking."
    )
    rows = []
    for name in ("distilgpt2", "mini"):
        shape = read.form_of(name).shape
        title = f"{'mini' if name == 'mini' else 'the paper'}'s, {shape.bits_per_chunk / 8:g} bytes"
        for (_, size), own in sorted(cells_of(found, name).items()):
            a_million = f"{1e9 * own['seconds'] / size:,.0f} ms"
            rows.append([title, f"{size:,}", in_time(own["seconds"]), a_million, in_bytes(own["grown"])])
    yield from table(["codes", "chunks", "time", "a million", "memory"], rows)


# The right document ---------------------------------------------------------------------------------------------------


def source_steps(args: argparse.Namespace) -> list[Step]:
    """A step for each data set."""
    return [
        Step("newswire", "sources", "measure", (sources.NEWSWIRE, sources.NEWSWIRE_SIZES)),
        Step("squad", "sources", "measure_squad", (str(args.squad),)),
    ]


def sources_written(found: dict[str, Result]) -> Iterator[str]:
    """The section on sources."""
    yield (
        "How often the right document is the first source, or among the first five, for the embedded `mini`. *Routed* "
        "is its own read. Its codes are residual, which a flat read by counts cannot take, so *flat* is "
        "`hierarchical:N` with all N chunks in one group: attention over everything. In training, mini's attention "
        "had one document at a time before it, and never learned to tell documents apart: the flat figures show that. "
        "*BM25* (bm25s with its own settings, English stop words, no stemming) has the full text of the same "
        "documents, and needs it kept."
    )
    results = [own for name in ("newswire", "squad") for own in found.get(name, [])]
    rows = []
    for own in results:
        for name, rates in own["methods"].items():
            kept = {"BM25": f"{own['text_bytes']:,.0f}", "chance": ""}.get(name, f"{own['code_bytes']:.0f}")
            figures = ["skipped"] * 2 if "skipped" in rates else [f"{rates[key]:.1f}" for key in ("first", "in_five")]
            rows.append([own["data"], f"{own['documents']:,}", f"{own['questions']:,}", name, *figures, kept])
    head = ["data", "documents in the bank", "questions", "found by", "first, %", "in five, %", "bytes a document"]
    yield from table(head, rows)
    if found.get("squad") == []:
        yield "squad_val was not there when this was measured, and is left out."
    skipped = {rates["skipped"] for own in results for rates in own["methods"].values() if "skipped" in rates}
    yield from (f"Skipped: {reason}." for reason in skipped)


# Whole answers --------------------------------------------------------------------------------------------------------


def answers(llama: bool = False) -> list[Result]:
    """The figures of answer.py as plain values; with `llama` that shape alone, on a GPU."""
    import answer

    on_gpu = ("LLaMA-2-7B's shape", answer.llama2_7b, "cuda", 3)
    found = answer.measure_model(*on_gpu) if llama else answer.measure()
    return [vars(row) | {"tokens": answer.TOKENS, "documents": answer.DOCUMENTS} for row in found]


def answers_written(found: dict[str, Result]) -> Iterator[str]:
    """A section on answers."""
    rows = [own for several in found.values() for own in several]
    yield (
        f"A whole answer: encoding the question, the model's own read of {rows[0]['documents']:,} documents, the "
        f"prefix, and exactly {rows[0]['tokens']} tokens, greedy. *Without cache* is the way of the published code: "
        "the whole sequence goes through the base LM again for each token. Both say the same texts. Each figure is "
        "the time of a batch divided by its answers."
    )
    head = ["model", "on", "batch", "with cache", "tokens/s", "without", "tokens/s", "times"]
    yield from table(
        head,
        [
            [
                own["model"],
                own["device"],
                str(own["batch"]),
                *(
                    figure
                    for way in ("cached", "uncached")
                    for figure in (in_time(own[way]), f"{own['tokens'] / own[way]:,.1f}")
                ),
                f"{own['uncached'] / own['cached']:.1f}",
            ]
            for own in rows
        ],
        words=2,
    )
    yield from plot(plot_of(rows), "Time of an answer with and without a key/value cache")


def plot_of(rows: Sequence[Result]) -> str:
    """The name of the plot of answers, by where they were made."""
    return "answers" if rows[0]["device"] == "cpu" else f"answers-{rows[0]['device']}"


def answers_plots(found: dict[str, Result], folder: Path) -> None:
    """Time of an answer, a panel a model."""
    import plots

    rows = [own for several in found.values() for own in several]
    panels: dict[str, dict[str, dict[str, float]]] = {}
    for own in rows:
        pair = {"with cache": 1000 * own["cached"], "without cache": 1000 * own["uncached"]}
        panels.setdefault(own["model"], {})[f"batch of {own['batch']}"] = pair
    plots.bars(panels, "ms an answer", folder, plot_of(rows))


# The first answer -----------------------------------------------------------------------------------------------------


def startup_written(found: dict[str, Result]) -> Iterator[str]:
    """The section on a new process."""
    (own,) = found.values()
    yield (
        "`mbc ask` with `mini` and a small bank in a new process, and its parts, each timed where it happens; files "
        "are in the page cache. A later answer is one when all is loaded."
    )
    rows = {"`mbc ask`, all of it": own["command"]} | own["stages"] | {"a later answer": own["later_answer"]}
    yield from table(
        ["", "least", "median"],
        [[name, in_time(value["min"]), in_time(value["median"])] for name, value in rows.items()],
    )


SECTIONS: Final = {
    section.name: section
    for section in (
        Section(
            "read",
            "What a question costs",
            read_steps,
            read_written,
            read_plots,
            seed="0 (weights, question, codes), 1 (codebook)",
        ),
        Section("scan", "The routed scan", scan_steps, scan_written, seed="0 (question, codes), 1 (codebook)"),
        Section("sources", "The right document", source_steps, sources_written, seed="0 (generated news)"),
        Section(
            "answer",
            "Whole answers",
            lambda args: [Step("cpu", "performance", "answers")],
            answers_written,
            answers_plots,
        ),
        Section(
            "answer-gpu",
            "Whole answers on a GPU",
            lambda args: [Step("gpu", "performance", "answers", (True,))],
            answers_written,
            answers_plots,
            is_asked_for=True,
        ),
        Section(
            "startup",
            "The first answer of a new process",
            lambda args: [Step("startup", "startup", "measure", one_thread=False)],
            startup_written,
            seed="3 (generated news)",
        ),
    )
}


# What is kept ---------------------------------------------------------------------------------------------------------


def conditions() -> dict[str, Any]:
    """Where and with what something is measured."""
    return {
        "machine": machine(),
        "versions": versions(),
        "date": date.today().isoformat(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def machine() -> str:
    """The machine in words."""
    facts = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in facts.read_text().splitlines() if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    memory = ""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = f", {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB of memory"
    return f"{name}, {os.cpu_count()} cores{memory}{graphics()}, {platform.system()} {platform.machine()}"


def graphics() -> str:
    """The GPU, where there is one."""
    import torch

    return f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""


def versions() -> str:
    """Python and the packages that matter."""
    found = [f"Python {platform.python_version()}"]
    for package in ("mbc", *PACKAGES):
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


class Kept:
    """What a section measured, kept in a file after each step."""

    def __init__(self, folder: Path, section: str) -> None:
        self._path = folder / f"{section}.json"
        self.steps: dict[str, dict[str, Any]] = json.loads(self._path.read_text()) if self._path.exists() else {}

    @property
    def results(self) -> dict[str, Result]:
        """Results by step."""
        return {name: own["result"] for name, own in self.steps.items()}

    def keep(self, step: str, result: Result, seconds: float, under: dict[str, Any]) -> None:
        """Add a step."""
        self.steps[step] = under | {"seconds": seconds, "result": result}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_suffix(".part")
        unfinished.write_text(json.dumps(self.steps, indent=1))
        unfinished.replace(self._path)


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
        result = read.in_a_new_process(step.module, step.function, *step.arguments, one_thread=step.one_thread)
        seconds = time.perf_counter() - began
        kept.keep(step.name, result, seconds, under)
        print(f"{seconds:.0f} s", flush=True)


# The page -------------------------------------------------------------------------------------------------------------


def page(args: argparse.Namespace) -> Iterator[str]:
    """docs/performance.md from what is kept."""
    yield "# How fast, how large, how often right"
    yield ""
    yield (
        "Written by `python benchmarks/performance.py` from what it measured; change that, not this. What banks weigh "
        "and survive is in [bank.md](bank.md), how well `mini` answers in [mini.md](mini.md)."
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


def wrapped(lines: Iterable[str]) -> str:
    """Paragraphs at the width of this project's pages; tables, lists and headings as they are; no two empty lines."""
    text: list[str] = []
    for line in lines:
        is_prose = not line.startswith(("|", "#", "!", "- "))
        text.extend((textwrap.wrap(line, 120, break_on_hyphens=False) if is_prose else [line]) or [""])
    kept = [line for place, line in enumerate(text) if line or (place and text[place - 1])]
    return "\n".join(kept).rstrip() + "\n"


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
    parser.add_argument("--squad", type=Path, default=sources.SQUAD, help="squad_val.jsonl.xz (default %(default)s)")
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    if "sources" in args.only and importlib.util.find_spec("bm25s") is None:
        print(f"There is no bm25s, and nothing to hold mini's sources against: {HINT}", file=sys.stderr)
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
