"""Bytes per chunk against right answers: the table in docs/mini.md and its plot, docs/plots/pareto.

    python benchmarks/pareto.py --data ../shared/data              # measure, then write; needs the extra `report`
    python benchmarks/pareto.py --data ../shared/data --written    # write from saved figures

Measures answers to the questions of `squad_val` about its 402 paragraphs: from the text in a bank, which every codec
restores byte for byte, and from chunks found by MiniLM's vectors instead of codes. `--quality` takes the former from
the results of `quality.py` (`build/quality/squad.json`); `--questions 600` asks fewer. The language model codes a
sample of the chunks. The paper's rows are its published figures, on another part of SQuAD and with other readers.
"""

import argparse
import json
import os
import random
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import plots
from wording import load_or_measure, table, write_section

from mbc_engine import (
    Memory,
    MemoryBank,
    QAExample,
    RetrieverReader,
    load_examples,
    load_model,
    load_preset,
    open_bank,
)
from mbc_engine.bank import CodeShape, Origin, StoredDocument
from mbc_engine.errors import ModelError
from mbc_engine.evaluation.methods import published
from mbc_engine.metrics import compare
from mbc_engine.paper.builder import config_of
from mbc_engine.ranking import Hit
from mbc_engine.sources import text_model
from mbc_engine.text import Chunk

Figures = dict[str, Any]

PAGE: Final = Path(__file__).resolve().parents[1] / "docs/mini.md"
BEGIN, END = "<!-- written by python benchmarks/pareto.py -->", "<!-- end of what it writes -->"
BATCH: Final = 32
FLOAT: Final = 4
PUBLISHED: Final = {"distilgpt2": "DistilGPT2", "llama2-7b": "LLaMA-2-7B"}


@dataclass(frozen=True)
class Row:
    """A chunk's size in one representation, and the scores of answers in percent; None if only used for finding."""

    title: str
    size: float
    files: str
    exact_match: float | None
    f1: float | None
    source: str


def measure(data: Path, max_questions: int, sample: int, quality: Path | None) -> Figures:
    """Sizes and scores, for `rows`."""
    model = load_model("mini")
    assert isinstance(model, RetrieverReader)
    every = load_examples(str(data / "qa" / "squad_val.jsonl.xz"))
    texts = list(dict.fromkeys(one.text for one in every))
    examples = random.Random(0).sample(every, min(max_questions, len(every)))
    chunks = [model.chunker.chunks(text) for text in texts]
    flat = [chunk for some in chunks for chunk in some]
    found: Figures = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "chunks": len(flat), "paragraphs": len(texts)}
    found["options"] = (f" --questions {max_questions}" if max_questions < len(every) else "") + (
        f" --quality {quality}" if quality else ""
    )
    with temporary_bank(model, chunks) as bank:
        found["bytes"] = {"plain": plain_bytes(flat) / len(flat), **bytes_a_chunk(bank)}
        if quality is None:
            memory = Memory(bank, model)
            found["text"] = scores(examples, lambda asked: [one.text for one in memory.ask(asked, min_confidence=0)])
        else:
            answers = json.loads(quality.read_text(encoding="utf-8"))["rows"]
            means = {name: 100 * statistics.mean(row[f"{name}, shortest"] for row in answers) for name in ("EM", "F1")}
            found["text"] = means | {"questions": len(answers)}
    found["vectors"] = scores(examples, by_vectors(model, [chunk.text for chunk in flat]))
    if share := lm_ratio(model, random.Random(0).sample(flat, min(sample, len(flat)))):
        found["bytes"] |= {"lm": share * found["bytes"]["plain"], "sample": sample}
    return found


@contextmanager
def temporary_bank(model: RetrieverReader, documents: Sequence[Sequence[Chunk]]) -> Iterator[MemoryBank]:
    """A temporary bank of documents without files."""
    with tempfile.TemporaryDirectory() as folder, open_bank(model, Path(folder, "bank.mbc")) as bank:
        codes, first, stored = model.memorise([chunk.text for some in documents for chunk in some]), 0, []
        for number, some in enumerate(documents):
            origins = (Origin(f"/{number}", "", None),)
            stored.append(
                StoredDocument(f"{number:032x}", len(some), 1, origins, codes[first : first + len(some)], list(some))
            )
            first += len(some)
        bank.put(stored)
        yield bank


def bytes_a_chunk(bank: MemoryBank) -> Figures:
    """Bytes per chunk in a bank: addresses, codes of all kinds, and text."""
    sizes, chunks = asdict(bank.sizes()), bank.totals().chunks
    texts = sizes["texts"]
    return {
        "addresses": sizes["codes"] / chunks,
        "codes": sum(value for name, value in sizes.items() if name not in ("texts", "codebook", "file")) / chunks,
        "zstd": texts / chunks,
    }


def plain_bytes(chunks: Sequence[Chunk]) -> int:
    return sum(len(chunk.text.encode()) for chunk in chunks)


def lm_ratio(model: RetrieverReader, chunks: Sequence[Chunk]) -> float | None:
    """Bytes per byte of text under the language model, checked by decoding; None if it is not installed."""
    with temporary_bank(model, [[chunk] for chunk in chunks]) as bank:
        try:
            for _ in bank.recode_texts(text_model, to_lm=True):
                pass
        except ModelError as error:
            print(f"The row for the language model is left out: {error}")
            return None
        assert list(bank.texts_at(range(len(chunks)), text_model)) == list(chunks)
        return bank.sizes().texts / plain_bytes(chunks)


def by_vectors(model: RetrieverReader, texts: Sequence[str]) -> Any:
    """A function that answers questions from the chunks that MiniLM's float32 vectors find."""
    vectors = model.sentence_vectors(texts)
    scale = np.exp(model.address.log_scale)

    def answer(questions: Sequence[str]) -> list[str | None]:
        scores = scale * model.sentence_vectors(questions) @ vectors.T
        shares = np.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        hits = [
            [Hit(int(chunk), float(share[chunk])) for chunk in np.argsort(-share)[: model.reader_settings.passages]]
            for share in shares
        ]
        read = model.read(questions, hits, lambda found: {hit.chunk: texts[hit.chunk] for hit in found})
        return [one.best and " ".join(one.best.text.split()) for one in read]

    return answer


def scores(examples: Sequence[QAExample], answer: Any) -> Figures:
    """EM and F1 in percent against the shortest gold answer, as in the paper."""
    order = sorted(examples, key=lambda one: len(one.question))
    matches = []
    for start in range(0, len(order), BATCH):
        asked = order[start : start + BATCH]
        answers = answer([one.question for one in asked])
        matches += [compare(text or "", one.answers, "shortest") for text, one in zip(answers, asked, strict=True)]
    mean = {name: 100 * statistics.mean(getattr(match, name) for match in matches) for name in ("exact_match", "f1")}
    return {"EM": mean["exact_match"], "F1": mean["f1"], "questions": len(matches)}


def rows(found: Figures) -> list[Row]:
    """The table, by size."""
    sizes, every = found["bytes"], []
    titles = {"lm": "`mini`, `lm` text", "zstd": "`mini`, `zstd` text", "plain": "`mini`, uncompressed text"}
    for codec in titles.keys() & sizes.keys():
        score, size = found["text"], sizes["codes"] + sizes[codec]
        every.append(Row(titles[codec], size, "no", score["EM"], score["F1"], "measured here"))
    every.append(Row("`mini`'s address codes alone", sizes["addresses"], "yes", None, None, ""))
    score, width = found["vectors"], config_of("sentence-transformers/all-MiniLM-L6-v2").hidden_size
    every.append(Row("MiniLM's vectors, float32", FLOAT * width, "yes", score["EM"], score["F1"], "measured here"))
    for preset, base in PUBLISHED.items():
        settings, answers = load_preset(preset).model, published()["answers"][preset]["squad"]
        source = f"the paper, table 1, {base}"
        size = CodeShape(*settings.code_numbers).bits_per_chunk / 8
        every.append(Row(f"the paper's codes, T = {settings.tokens}", size, "no", *answers["mbc"], source))
        size = FLOAT * settings.tokens * config_of(settings.base).hidden_size
        every.append(Row(f"MAC's vectors, T = {settings.tokens}", size, "no", *answers["mac"], source))
    return sorted(every, key=lambda row: row.size)


def render_section(found: Figures) -> Iterator[str]:
    """The section of the page."""
    yield (
        "The size of a chunk (codes, words and text, without the document index) and the quality of answers from it (EM "
        "and F1 against the shortest gold answer). *Measured here*: `mini`'s reader on `squad_val`; every codec restores "
        "the same text, so the answers are the same. *The paper*: published figures for its SQuAD test questions and the "
        "given base LM. Its task is harder, as the bank holds only codes; the two are not comparable."
    )
    cells = [
        [
            row.title,
            f"{row.size:,.1f}".removesuffix(".0"),
            row.files,
            percent(row.exact_match),
            percent(row.f1),
            row.source or "search only",
        ]
        for row in rows(found)
    ]
    yield from table(["", "bytes per chunk", "needs the files", "EM", "F1", "source"], cells)
    yield "![Exact match by bytes per chunk](plots/pareto.png)"
    yield ""
    sample = f", `lm` from {found['bytes']['sample']} of them" if "sample" in found["bytes"] else ""
    yield (
        f"`python benchmarks/pareto.py --data ../shared/data{found['options']}`, {found['date']}: {found['chunks']} chunks of "
        f"{found['paragraphs']} paragraphs{sample}; {found['text']['questions']:,} questions for text, "
        f"{found['vectors']['questions']:,} for vectors; seed 0."
    )


def percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def draw(found: Figures) -> None:
    """Draw the plot, with one point per row that has answers."""
    plt = plots.plt
    with plt.rc_context(plots.STYLE):
        figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
        for is_ours, label in ((True, "measured here, squad_val"), (False, "the paper, its part of SQuAD")):
            points = [row for row in rows(found) if row.source and (row.source == "measured here") == is_ours]
            colour = plots.COLOURS["flat" if is_ours else "dense"]
            for row in points:
                place = row.size, row.exact_match or 0.0
                face = colour if row.files == "no" else "none"
                axes.scatter(*place, color=colour, facecolor=face, label=label if row == points[0] else None)
                title = row.title.replace("`", "")
                axes.annotate(title, place, (4, 4), textcoords="offset points", fontsize=7, rotation=35)
        axes.set(
            xscale="log",
            xlabel="bytes per chunk (hollow: needs the files as well)",
            ylabel="exact match, %",
            xlim=(5, 5e6),
        )
        axes.set_ylim(0, axes.get_ylim()[1] * 1.4)
        axes.grid(True, alpha=0.3)
        axes.legend(frameon=False)
        plots.save(figure, PAGE.parent / "plots", "pareto")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the development data")
    parser.add_argument("--out", type=Path, default=Path("build/pareto.json"), help="measured figures (%(default)s)")
    parser.add_argument("--written", action="store_true", help="measure nothing; write from the figures in --out")
    parser.add_argument("--quality", type=Path, help="the squad.json that quality.py saved")
    parser.add_argument("--questions", type=int, default=10_000, help="maximum number of questions")
    parser.add_argument("--sample", type=int, default=40, help="chunks to encode with the language model")
    parser.add_argument("--threads", type=int, default=2, help="texts that are computed at once")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    found = load_or_measure(
        args.out, None if args.written else lambda: measure(args.data, args.questions, args.sample, args.quality)
    )
    write_section(PAGE, BEGIN, END, render_section(found))
    draw(found)
    print(*render_section(found), sep="\n")


if __name__ == "__main__":
    main()
