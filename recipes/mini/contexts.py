"""Measures what contexts do: finding and reading, with what chunks know of their documents and without.

    python recipes/mini/contexts.py --data DATA --out FOLDER [--reader small] [--read 300] [--only squad ...]

Three sets: `squad_val`, whose paragraphs are numbered files in a folder named after their article; Wikinews, whose
files are named after what they are about; and the stories of `recipes/newswire`, numbered files with a headline. The
folders are made anew, and ingested into one bank with contexts and one without. The file of every question is looked
for, and a sample of the questions is answered. The table is written to `contexts.md` in the output folder.
"""

import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np
from options import begin, qa_rows, stage_parser

from mbc_engine import Memory
from mbc_engine.metrics import compare
from mbc_engine.mini.model import RetrieverReader
from mbc_engine.mini.span_reader import Span, SpanReader
from mbc_engine.model import load_model
from mbc_engine.paper.calibration import roc_auc

_BATCH: Final = 16
_BINS: Final = 10
_NEWSWIRE: Final = Path(__file__).parents[1] / "newswire" / "generate.py"


class Asked(NamedTuple):
    """A question, its gold answers, and the path of the file that answers it."""

    question: str
    answers: list[str]
    file: str


QASet = tuple[dict[str, str], list[Asked]]  # texts by path, and questions about them


def squad(data: Path) -> QASet:
    """The paragraphs of `squad_val`."""
    rows = qa_rows(data, "squad_val")
    numbers = {text: number for number, text in enumerate(dict.fromkeys(row["text"] for row in rows))}
    files = {row["text"]: f"{row['title'].replace('/', ' ')}/{numbers[row['text']]:03d}.txt" for row in rows}
    return {file: text for text, file in files.items()}, [
        Asked(row["question"], row["answers"], files[row["text"]]) for row in rows
    ]


def wikinews(data: Path) -> QASet:
    """Articles with questions as people type them; those without an answer are left out."""
    texts = {file.name: file.read_text(encoding="utf-8") for file in sorted((data / "news" / "wikinews").iterdir())}
    lines = (data / "qa" / "wikinews_questions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return texts, [Asked(row["question"], row["answers"], row["file"]) for row in rows if row["answers"]]


def newswire(_: Path) -> QASet:
    """Made-up stories of one day."""
    command = [sys.executable, str(_NEWSWIRE), "test", "200"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    files = {text: f"story {number:03d}.txt" for number, text in enumerate(dict.fromkeys(row["text"] for row in rows))}
    return {file: text for text, file in files.items()}, [
        Asked(row["question"], row.get("answers") or [row["answer"]], files[row["text"]]) for row in rows
    ]


class RememberingReader:
    """A reader that reads the same passage for the same question, with the same context, only once."""

    def __init__(self, reader: SpanReader) -> None:
        self._reader = reader
        self.known: dict[tuple[str, str, str], Span | None] = {}

    def spans(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]], contexts: Sequence[Sequence[str]]
    ) -> list[list[Span | None]]:
        jobs = [
            [(question, *pair) for pair in zip(*pairs, strict=True)]
            for question, *pairs in zip(questions, passages, contexts, strict=True)
        ]
        new = [job for job in dict.fromkeys(job for row in jobs for job in row) if job not in self.known]
        for start in range(0, len(new), _BATCH):
            batch = new[start : start + _BATCH]
            read = self._reader.spans(
                *([[part] for part in parts] if at else parts for at, parts in enumerate(zip(*batch, strict=True)))
            )
            self.known |= zip(batch, (span for (span,) in read), strict=True)
        return [
            [span and replace(span, passage=at) for at, span in enumerate(map(self.known.__getitem__, row))]
            for row in jobs
        ]


def measured(model: RetrieverReader, texts: dict[str, str], asked: Sequence[Asked], read: Sequence[Asked]) -> list[str]:
    """How good finding and reading are, and the bytes of contexts; see `main` for the columns."""
    with TemporaryDirectory() as place:
        folder = Path(place).resolve() / "documents"
        for file, text in texts.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        bank = Path(place, "bank.mbc")
        with Memory(bank, model) as memory:
            for _event in memory.add([folder]):
                pass
            ranks = []
            for batch in _batches(asked):
                for one, sources in zip(
                    batch, memory.search([one.question for one in batch], top=5, with_text=False), strict=True
                ):
                    paths = [str(Path(source.path).relative_to(folder)) for source in sources]
                    ranks.append(paths.index(one.file) if one.file in paths else len(paths))
            answers = []
            for batch in _batches(read):
                answers += memory.ask([one.question for one in batch], min_confidence=0.0, sources=1)
        with sqlite3.connect(bank) as connection:
            (outlines,) = connection.execute("SELECT SUM(LENGTH(outlines)) FROM blocks").fetchone()
            (words,) = connection.execute("SELECT SUM(LENGTH(data)) FROM words").fetchone()
            (chunks,) = connection.execute("SELECT chunks FROM bank").fetchone()
    scores = [compare(answer.text or "", one.answers) for one, answer in zip(read, answers, strict=True)]
    right = np.array([score.exact_match for score in scores], bool)
    sure = np.array([answer.confidence.probability if answer.confidence else 0.0 for answer in answers])
    bins = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    error = sum(abs(float(sure[bins == at].sum() - right[bins == at].sum())) for at in range(_BINS)) / len(read)
    shares = (
        np.mean([rank == 0 for rank in ranks]),
        np.mean([rank < 5 for rank in ranks]),
        right.mean(),
        np.mean([score.f1 for score in scores]),
        error,
    )
    return [
        *(f"{100 * share:.1f}" for share in shares),
        f"{roc_auc(sure[right], sure[~right]):.3f}",
        f"{outlines / chunks:.1f}",
        f"{words / chunks:.1f}",
    ]


def _batches(asked: Sequence[Asked]) -> Iterator[Sequence[Asked]]:
    return (asked[start : start + _BATCH] for start in range(0, len(asked), _BATCH))


def main() -> None:
    """Measure all sets with contexts and without, and write the table."""
    sets: dict[str, Callable[[Path], QASet]] = {"squad": squad, "wikinews": wikinews, "newswire": newswire}
    parser = stage_parser(__doc__, "data", "out", "threads", "device", "seed")
    parser.add_argument("--reader", help="the best one that is installed by default")
    parser.add_argument("--read", type=int, default=600, help="the most questions of each set that are answered")
    parser.add_argument("--only", nargs="+", choices=sets, default=[*sets])
    args = begin(parser)
    model = load_model("mini", device=args.device, reader=args.reader)
    assert isinstance(model, RetrieverReader)
    model.reader = RememberingReader(model.reader)  # type: ignore[assignment]
    settings = model.settings
    lines = [
        "| | context | first | in five | EM | F1 | ECE | AUC | titles and headings | words |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in args.only:
        texts, asked = sets[name](args.data)
        read = random.Random(args.seed).sample(asked, min(args.read, len(asked)))
        for tokens in (0, settings.context_window):
            model.settings = settings.model_copy(update={"context_window": tokens})
            values = " | ".join(measured(model, texts, asked, read))
            label = f"{name}: {len(texts)} files, {len(asked)} questions, {len(read)} of them read"
            lines.append(f"| {label} | {'with' if tokens else 'without'} | {values} |")
            print(lines[-1], flush=True)
    (args.out / "contexts.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
