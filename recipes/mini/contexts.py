"""Measures what contexts do: finding and reading, with what chunks know of their documents and without.

    python recipes/mini/contexts.py --data DATA --out FOLDER [--reader small] [--questions 300]

Three sets: `squad_val`, whose paragraphs are numbered files in a folder named after their article; Wikinews, whose
files are named after what they are about; and the stories of `recipes/newswire`, numbered files with a headline. The
folders are made anew, ingested into one bank with contexts and one without, and every question is answered. The table
is written to `contexts.md` in the output folder.
"""

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from options import begin, qa_rows, stage_parser

from mbc_engine import Memory
from mbc_engine.metrics import compare
from mbc_engine.mini.model import RetrieverReader
from mbc_engine.model import load_model

_BATCH = 16
_NEWSWIRE = Path(__file__).parents[1] / "newswire" / "generate.py"


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


def measured(model: RetrieverReader, texts: dict[str, str], asked: Sequence[Asked]) -> tuple[float, float, float]:
    """Percent of questions whose file is first, and among the first five, and that are answered exactly."""
    first = five = exact = 0
    with TemporaryDirectory() as place:
        folder = Path(place).resolve() / "documents"
        for file, text in texts.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        with Memory(Path(place, "bank.mbc"), model) as memory:
            for _event in memory.add([folder]):
                pass
            for start in range(0, len(asked), _BATCH):
                batch = asked[start : start + _BATCH]
                questions = [one.question for one in batch]
                found = memory.search(questions, top=5, with_text=False)
                answers = memory.ask(questions, min_confidence=0.0, sources=1)
                for one, sources, answer in zip(batch, found, answers, strict=True):
                    paths = [str(Path(source.path).relative_to(folder)) for source in sources]
                    first += paths[:1] == [one.file]
                    five += one.file in paths
                    exact += bool(answer.text) and compare(answer.text or "", one.answers).exact_match
    return tuple(100 * number / len(asked) for number in (first, five, exact))  # type: ignore[return-value]


def main() -> None:
    """Measure all sets with contexts and without, and write the table."""
    parser = stage_parser(__doc__, "data", "out", "threads", "device", "seed")
    parser.add_argument("--reader", help="the best one that is installed by default")
    parser.add_argument("--questions", type=int, help="a sample of this size of each set")
    args = begin(parser)
    model = load_model("mini", device=args.device, reader=args.reader)
    assert isinstance(model, RetrieverReader)
    settings = model.settings
    lines = ["| % | context | first | in five | EM |", "|---|---|---:|---:|---:|"]
    for read in (squad, wikinews, newswire):
        texts, asked = read(args.data)
        if args.questions and args.questions < len(asked):
            asked = random.Random(args.seed).sample(asked, args.questions)
        for tokens in (0, settings.context_window):
            model.settings = settings.model_copy(update={"context_window": tokens})
            values = " | ".join(f"{value:.1f}" for value in measured(model, texts, asked))
            name = f"{read.__name__}, {len(asked)} questions, {len(texts)} files"
            lines.append(f"| {name} | {'with' if tokens else 'without'} | {values} |")
            print(lines[-1], flush=True)
    (args.out / "contexts.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
