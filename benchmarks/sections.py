"""The sections of docs/performance.md: what is measured for each, and the text, tables and plots made of that."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import read
import sources
from keeping import Result
from throughput import memorising_written, training_written
from wording import LEAST_GROWTH, in_bytes, in_time, plot, table, times

WANTED_GROWTH: Final = 1.2
TITLES: Final = {"distilgpt2": "DistilGPT2's shape", "llama2-7b": "LLaMA-2-7B's shape", "mini": "mini's codes"}


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
        "whose result is another than that of the dense read, and whose memory grows until a group of groups is full "
        "at N = M² = 65,536; it and *routed* name their sources on the way. The aggregator has the paper's shape and "
        "random weights; the codes are random. One thread, float32; medians of "
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
        for title, panel in panels("grown", LEAST_GROWTH).items()
    }
    plots.by_documents(megabytes, "MB more; 1 stands for less, too", folder, "read-memory")


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
            figures = [f"{rates[key]:.1f}" for key in ("first", "in_five")]
            rows.append([own["data"], f"{own['documents']:,}", f"{own['questions']:,}", name, *figures, kept])
    head = ["data", "documents in the bank", "questions", "found by", "first, %", "in five, %", "bytes a document"]
    yield from table(head, rows)
    if found.get("squad") == []:
        yield "squad_val was not there when this was measured, and is left out."


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


def training_steps(
    shape: str,
    device: str,
    precision: str,
    *,
    ways: tuple[str, ...] = ("ours", "naive"),
    accumulate: int | None = None,
) -> list[Step]:
    """Training a shape."""
    arguments = (shape, device, precision, 3, ways, accumulate)
    return [Step(f"{shape} {precision}", "training", "measure", arguments, one_thread=False)]


def memorising_steps(*measured: tuple[str, str, str]) -> list[Step]:
    """Memorising with shapes, on devices, in precisions."""
    return [
        Step(f"{shape} {precision}", "memorising", "measure", (shape, device, precision), one_thread=False)
        for shape, device, precision in measured
    ]


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
            lambda args: [Step("cpu", "sections", "answers")],
            answers_written,
            answers_plots,
        ),
        Section(
            "answer-gpu",
            "Whole answers on a GPU",
            lambda args: [Step("gpu", "sections", "answers", (True,))],
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
        Section(
            "training",
            "A step of training",
            lambda args: training_steps("distilgpt2", "cpu", "float32", accumulate=8),
            training_written,
        ),
        Section(
            "training-gpu",
            "A step of training on a GPU",
            lambda args: training_steps("distilgpt2", "cuda", "bf16"),
            training_written,
            is_asked_for=True,
        ),
        Section(
            "training-llama",
            "A step of training LLaMA-2-7B's shape on a GPU",
            lambda args: training_steps("llama2-7b", "cuda", "bf16", ways=("ours",)),
            training_written,
            is_asked_for=True,
        ),
        Section(
            "memorising",
            "Memorising",
            lambda args: memorising_steps(("distilgpt2", "cpu", "float32")),
            memorising_written,
        ),
        Section(
            "memorising-gpu",
            "Memorising on a GPU",
            lambda args: memorising_steps(("distilgpt2", "cuda", "bf16"), ("llama2-7b", "cuda", "bf16")),
            memorising_written,
            is_asked_for=True,
        ),
    )
}
