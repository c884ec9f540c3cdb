"""The sections of docs/performance.md: what each measures, and its text, tables and plots."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import read
import search
from keeping import Result
from read_written import read_plots, render_reads
from throughput import render_memorising, render_training
from wording import format_seconds, plot, table


@dataclass(frozen=True)
class Step:
    """A call to a function of a module in this folder; its result is saved under `name`.

    `one_thread` is False for what should run as it does for a user.
    """

    name: str
    module: str
    function: str
    arguments: tuple[object, ...] = ()
    one_thread: bool = True


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Attributes:
        name: of the section and its file in the folder.
        title: its heading.
        steps: what is measured.
        render: its text, from the results by step.
        plots: its plots, from the results by step.
        seed: its random seeds, in words.
        is_optional: measured only if `--only` names it.
    """

    name: str
    title: str
    steps: Callable[[argparse.Namespace], list[Step]]
    render: Callable[[dict[str, Result]], Iterator[str]]
    plots: Callable[[dict[str, Result], Path], None] | None = None
    seed: str = "0"
    is_optional: bool = False
    needs_data: bool = False


def cell_steps(cells: Iterable[read.Cell], args: argparse.Namespace) -> list[Step]:
    """One step per cell."""
    more = (str(args.folder), args.memory)
    return [Step(" ".join(map(str, cell)), "read", "measure", (*cell, *more)) for cell in cells]


def read_steps(args: argparse.Namespace) -> list[Step]:
    """The comparison, and the growth of the flat read."""
    steps = cell_steps(read.plan(args.largest), args)
    if args.largest >= read.GROWTH[-1]:
        grown = (Step(f"{name} growth", "read", "measure_growth", (name, str(args.folder))) for name in read.SHAPES)
        steps.extend(grown)
    return steps


def render_search(found: dict[str, Result]) -> Iterator[str]:
    """The section on mini's search."""
    (result,) = found.values()
    yield (
        f"A search by `mini` of {search.CHUNKS:,} chunks with random codes, one per document, with sources and texts. *First* "
        "is the first search in a new process whose model is loaded, *later* ones are of other words in the same open bank, as "
        "in `mbc chat` or `mbc serve`. Checksums are verified once."
    )
    stages = {name: name for name in search.STAGES}
    stages |= {"whiten by codes of the bank": "whiten with the bank's codes", "all of it": "total"}
    rows = [
        [title, *(format_seconds(result[name][when]) for when in ("first", "later"))] for name, title in stages.items()
    ]
    yield from table(["", "first", "later"], rows)
    yield (
        f"When {search.SEVERAL} questions are asked at once, the scan takes "
        f"{format_seconds(result[f'{search.SCAN}, each of {search.SEVERAL} questions']['later'])} per question. Selecting "
        "documents takes another "
        + " and ".join(f"{format_seconds(result[name]['first'])} for {name}" for name in search.SELECTIONS)
        + ", once per selection."
    )


def render_answers(found: dict[str, Result]) -> Iterator[str]:
    """A section on answers."""
    rows = [row for several in found.values() for row in several]
    yield (
        f"Encoding the question, the model's default read of {rows[0]['documents']:,} documents, the prefix and exactly "
        f"{rows[0]['tokens']} greedily decoded tokens. *Without cache*, as in the released code, the base LM reprocesses the "
        "whole sequence for each token. Each time is that of a batch divided by its size."
    )
    head = ["model", "device", "batch", "with cache", "tokens/s", "without cache", "tokens/s", "speed-up"]
    yield from table(
        head,
        [
            [
                row["model"],
                row["device"],
                str(row["batch"]),
                *(
                    figure
                    for way in ("cached", "uncached")
                    for figure in (format_seconds(row[way]), f"{row['tokens'] / row[way]:,.1f}")
                ),
                f"{row['uncached'] / row['cached']:.1f}",
            ]
            for row in rows
        ],
        words=2,
    )
    yield from plot(plot_of(rows), "Time per answer with and without a key/value cache")


def plot_of(rows: Sequence[Result]) -> str:
    """The name of the plot of answers, by device."""
    return "answers" if rows[0]["device"] == "cpu" else f"answers-{rows[0]['device']}"


def answers_plots(found: dict[str, Result], folder: Path) -> None:
    """Plot the time of an answer, with one panel per model."""
    import plots

    rows = [row for several in found.values() for row in several]
    panels: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        pair = {"with cache": 1000 * row["cached"], "without cache": 1000 * row["uncached"]}
        panels.setdefault(row["model"], {})[f"batch of {row['batch']}"] = pair
    plots.bars(panels, "ms per answer", folder, plot_of(rows))


def render_startup(found: dict[str, Result]) -> Iterator[str]:
    """The section on a new process."""
    (result,) = found.values()
    yield (
        "`mbc ask` with `mini` and a small bank in a new process, in total and by stage. A later answer comes from a process "
        "that has loaded everything."
    )
    rows = {"`mbc ask`, total": result["command"]} | result["stages"] | {"a later answer": result["later_answer"]}
    yield from table(
        ["", "fastest", "median"],
        [[name, format_seconds(value["min"]), format_seconds(value["median"])] for name, value in rows.items()],
    )


def training_steps(
    args: argparse.Namespace,
    shape: str,
    device: str,
    precision: str,
    *,
    ways: tuple[str, ...] = ("ours", "naive"),
    accumulate: int | None = None,
) -> list[Step]:
    arguments = (str(args.data), shape, device, precision, 3, ways, accumulate)
    return [Step(f"{shape} {precision}", "training", "measure", arguments, one_thread=False)]


def memorising_steps(args: argparse.Namespace, *measured: tuple[str, str, str]) -> list[Step]:
    """One step per (shape, device, precision)."""
    return [
        Step(
            f"{shape} {precision}",
            "memorising",
            "measure",
            (str(args.data), shape, device, precision),
            one_thread=False,
        )
        for shape, device, precision in measured
    ]


SECTIONS: Final = {
    section.name: section
    for section in (
        Section(
            "read",
            "What a question costs",
            read_steps,
            render_reads,
            read_plots,
            seed="0 (weights, question, codes), 1 (codebook)",
        ),
        Section(
            "search",
            "Search with `mini`",
            lambda args: [Step("search", "search", "measure", (str(args.folder),))],
            render_search,
            seed="0 (codes), 1 (codebook)",
        ),
        Section(
            "answer",
            "Complete answers",
            lambda args: [Step("cpu", "answer", "measure", (str(args.data),))],
            render_answers,
            answers_plots,
            needs_data=True,
        ),
        Section(
            "answer-gpu",
            "Complete answers on a GPU",
            lambda args: [Step("gpu", "answer", "measure", (str(args.data), True))],
            render_answers,
            answers_plots,
            is_optional=True,
            needs_data=True,
        ),
        Section(
            "startup",
            "The first answer of a new process",
            lambda _: [Step("startup", "startup", "measure", one_thread=False)],
            render_startup,
            seed="3 (generated news)",
        ),
        Section(
            "training",
            "Training step",
            lambda args: training_steps(args, "distilgpt2", "cpu", "float32", accumulate=8),
            render_training,
            needs_data=True,
        ),
        Section(
            "training-gpu",
            "Training step on a GPU",
            lambda args: training_steps(args, "distilgpt2", "cuda", "bf16"),
            render_training,
            is_optional=True,
            needs_data=True,
        ),
        Section(
            "training-llama",
            "Training step of LLaMA-2-7B's shape on a GPU",
            lambda args: training_steps(args, "llama2-7b", "cuda", "bf16", ways=("ours",)),
            render_training,
            is_optional=True,
            needs_data=True,
        ),
        Section(
            "memorising",
            "Memorising",
            lambda args: memorising_steps(args, ("distilgpt2", "cpu", "float32")),
            render_memorising,
            needs_data=True,
        ),
        Section(
            "memorising-gpu",
            "Memorising on a GPU",
            lambda args: memorising_steps(args, ("distilgpt2", "cuda", "bf16"), ("llama2-7b", "cuda", "bf16")),
            render_memorising,
            is_optional=True,
            needs_data=True,
        ),
    )
}
