"""The results page: `python docs/results.py RUN...` renews docs/results.md and its figures.

RUN are folders of `mbc eval --suite smollm2 --run RUN`; figures need matplotlib (the extra `report`).
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from mbc_engine.evaluation.results import ExperimentFolder
from mbc_engine.experiments.page import all_figures, in_markdown, moment
from mbc_engine.experiments.registry import published, title_of
from mbc_engine.experiments.report import CellReport, Report, interval, percent, read_report
from mbc_engine.experiments.tables import OUTCOMES, Entry, Table, tables_of

PAGE: Final = Path(__file__).with_suffix(".md")
FIGURES: Final = PAGE.with_suffix("")
BEGIN, END = "<!-- written by python docs/results.py -->", "<!-- end of what it writes -->"
# Figures of the report that the page shows, by how their titles begin.
SHOWN: Final = ("Scaling: exact", "Scaling: F1", "Retention: F1 of the first documents, %", "Validation", "Perplexity")
# The paper's base LMs next in size to ours, and its data set.
PAPERS: Final = {"distilgpt2": "DistilGPT2 (82M)", "gpt2-large": "GPT2-Large (774M)"}, "squad"


def section(cell: CellReport) -> Iterator[str]:
    """A base LM's part of the page: scores by documents, the other tables, and figures."""
    yield from (f"## {cell.title}", "")
    for measure, name in (("exact_match", "Exact match"), ("f1", "F1")):
        yield from table(by_documents(cell, measure, f"{name} by documents in the bank, %, with 95% intervals"))
    for own in tables_of(cell):
        if not own.title.startswith("Scaling"):
            yield from table(own)
    for title, name, image in all_figures(cell):
        if title.startswith(SHOWN):
            (FIGURES / name).write_bytes(image)
            yield from (f"![{title}](results/{name})", "")


def by_documents(cell: CellReport, measure: str, title: str) -> Table:
    """A score of each method in memories of more and more documents."""
    rows = [row for row in cell.rows if row.scaling]
    counts = sorted({step.cost.documents for row in rows for step in row.scaling})
    lines = []
    for row in rows:
        found = {step.cost.documents: getattr(step.scores, measure) for step in row.scaling}
        scores = [
            Entry(percent(own.value), interval(own), own.value) if (own := found.get(count)) else Entry("")
            for count in counts
        ]
        lines.append((Entry(row.title), *scores))
    return Table(title, ("documents", *map(str, counts)), lines)


def papers() -> Table:
    """The paper's figures (table 1) for base LMs of about our size."""
    bases, dataset = PAPERS
    answers = published()["answers"]
    methods = list(answers[next(iter(bases))][dataset])
    lines = []
    for method in methods:
        pairs = [answers[base][dataset].get(method) for base in bases]
        lines.append((Entry(title_of(method)), *(Entry(f"{em:.2f} / {f1:.2f}", order=em) for em, f1 in pairs)))
    return Table("The paper on SQuAD: EM / F1, %", ("method", *bases.values()), lines)


def table(own: Table) -> Iterator[str]:
    """A table in Markdown, below its title."""
    if not own.lines:
        return
    yield from (f"**{in_markdown(own.title)}**", "")
    yield f"| {' | '.join(map(in_markdown, own.columns))} |"
    yield f"| --- |{' ---: |' * (len(own.columns) - 1)}"
    for line in own.lines:
        entries = [in_markdown(entry.text) + (f" ({in_markdown(entry.note)})" if entry.note else "") for entry in line]
        yield f"| {' | '.join(entries)} |"
    yield ""
    if own.note:
        yield from (in_markdown(own.note), "")


def written(reports: Sequence[Report]) -> Iterator[str]:
    """The generated part of the page, as lines of Markdown."""
    for report in reports:
        for verdict in report.verdicts:
            figures = f": {in_markdown(verdict.figures)}" if verdict.figures else ""
            yield f"- {OUTCOMES[verdict.outcome]} **{in_markdown(verdict.claim)}**{figures}."
    yield ""
    yield from table(papers())
    for report in reports:
        for cell in report.cells:
            yield from section(cell)
    yield from ("## Where it was measured", "")
    for report in reports:
        for own in report.origin["environments"]:
            versions = ", ".join(f"{name} {version}" for name, version in own["packages"].items())
            yield f"- {moment(own['date'])}, seed {own['seed']}, {own['cores']} cores of {own['cpu']}, {versions}"


def main(runs: Sequence[str]) -> None:
    """Renew the page from run folders."""
    FIGURES.mkdir(exist_ok=True)
    reports = [read_report(ExperimentFolder(Path(run)))[0] for run in runs]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{chr(10).join(written(reports))}\n{END}{after}")


if __name__ == "__main__":
    main(sys.argv[1:])
