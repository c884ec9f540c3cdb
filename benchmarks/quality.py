"""Measures how well `mini` finds, reads and abstains, for docs/mini.md and README.md.

    python benchmarks/quality.py --data ../shared/data                       # measure what is missing, then write
    python benchmarks/quality.py --data ../shared/data --only squad many    # measure these again, then write
    python benchmarks/quality.py --data ../shared/data --written             # write from saved figures

Needs the extra `dev`. Each part is a file in `--out`, measured again if `--only` names it or if the model's files,
`--questions` or `--seed` changed; after an interruption only the part in progress starts over. `--questions 40` asks at
most 40 of each kind and prints the tables; `--written` still writes them. How surely `mini` answers needs only the
part wikinews, and is written without everyday and removed if these are missing.

- squad: all questions of `squad_val`, with its 402 paragraphs in a bank, compared with codes alone and BM25.
- given: the same questions, with only the right paragraph selected.
- many: 6,400 questions of `squad_val` and `squad_train_part` over 7,846 paragraphs of both and of Wikipedia. Finding is
  measured on all of them, reading on the first 500.
- wikinews: 130 questions as a person would type them, over 43 articles; 30 have no answer there. Wrong answers are
  listed in `wikinews-wrong.json` for inspection.
- everyday: 450 questions about files as people have them, on which nothing was trained or fitted; a third have no
  answer there.
- removed: 300 questions as they are, and without the paragraph that answers them.
- writing: answers written by a chat LM (`--llm`), compared with the extracted ones; only if named. The first 30 are in
  `writing.txt` for inspection.
"""

import argparse
import hashlib
import json
import lzma
import os
import random
import runpy
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import bm25s
import numpy as np
import quality_written
import Stemmer
from keeping import conditions
from measuring import seconds_of
from quality_written import ALL
from rich.progress import track
from wording import load_or_measure

from mbc_engine import (
    AskOptions,
    Memory,
    MemoryBank,
    QAExample,
    RetrieverReader,
    Selection,
    load_examples,
    load_model,
)
from mbc_engine.metrics import compare, normalize
from mbc_engine.text import split_sentences

Row = dict[str, Any]

BATCH: Final = 32
SOURCES: Final = 5
TOP: Final = 32  # enough chunks to cover five documents
ASKED_OF_MANY, READ_OF_MANY, PARAGRAPHS_OF_MANY = 6400, 500, 7846
ALTERED, WRITTEN, EVERYDAY = 300, 150, 450  # questions
EVERYDAY_DATA: Final = runpy.run_path(str(Path(__file__).resolve().parents[1] / "recipes" / "mini" / "everyday.py"))


class Question(NamedTuple):
    """A question, its gold answers, and the name of the file that contains them, or None if none does."""

    question: str
    golds: tuple[str, ...]
    source: str | None


class QASet(NamedTuple):
    """Documents by file name, questions about them, and a memory of the documents."""

    texts: dict[str, str]
    questions: list[Question]
    memory: Memory


@dataclass
class Setup:
    """What the parts share: the model, the data, and two sets of questions with their banks, created on first use."""

    model: RetrieverReader
    data: Path
    folder: Path
    limit: int = ALL
    seed: int = 0
    llm: str | None = None
    out: Path = Path()

    def sample(self, questions: Sequence[Question], limit: int = ALL) -> list[Question]:
        limit = min(limit, self.limit)
        return list(questions) if len(questions) <= limit else random.Random(self.seed).sample(questions, limit)

    def remember(self, name: str, texts: Mapping[str, str], *, keeps_text: bool = True) -> Memory:
        """A memory of texts, written to files with these names."""
        folder, memory = self.folder / name, Memory(self.folder / f"{name}.mbc", self.model)
        folder.mkdir()
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
        for _ in memory.add([folder], keeps_text=keeps_text):
            pass
        return memory

    def examples(self, *names: str) -> list[QAExample]:
        return [one for name in names for one in load_examples(str(self.data / "qa" / f"{name}.jsonl.xz"))]

    @cached_property
    def squad(self) -> QASet:
        texts, questions = by_file(self.examples("squad_val"))
        return QASet(texts, questions, self.remember("squad", texts))

    @cached_property
    def wikinews(self) -> QASet:
        lines = (self.data / "qa" / "wikinews_questions.jsonl").read_text(encoding="utf-8").splitlines()
        rows = map(json.loads, lines)
        questions = [Question(row["question"], tuple(row["answers"]), row["file"]) for row in rows]
        files = sorted((self.data / "news" / "wikinews").iterdir())
        texts = {file.name: file.read_text(encoding="utf-8") for file in files}
        return QASet(texts, questions, self.remember("wikinews", texts))


def by_file(examples: Sequence[QAExample]) -> tuple[dict[str, str], list[Question]]:
    """The paragraphs of a QA set by file name, and its questions."""
    files = {text: f"{number:05d}.txt" for number, text in enumerate(dict.fromkeys(one.text for one in examples))}
    questions = [Question(one.question, one.answers, files[one.text]) for one in examples]
    return {file: text for text, file in files.items()}, questions


def batches(questions: Sequence[Question], what: str) -> Iterator[list[int]]:
    """Indices of questions of similar length, with a progress bar."""
    order = sorted(range(len(questions)), key=lambda place: len(questions[place].question))
    yield from track([order[start : start + BATCH] for start in range(0, len(order), BATCH)], what)


def ask(memory: Memory, questions: Sequence[Question], what: str, **options: Any) -> list[Row]:
    """One row per question, in order, asked in batches."""
    rows: list[Row] = [{} for _ in questions]
    for places in batches(questions, what):
        for place, row in zip(places, replies(memory, [questions[place] for place in places], **options), strict=True):
            rows[place] = row
    return rows


def replies(memory: Memory, questions: Sequence[Question], *, with_withheld: bool = True, **options: Any) -> list[Row]:
    """Answers, including those withheld by default, with their scores and the ranks of the right sources."""
    usual = memory.ask([one.question for one in questions], sources=SOURCES, **options)
    withheld = [
        one.question for one, reply in zip(questions, usual, strict=True) if reply.text is None and with_withheld
    ]
    likeliest = iter(memory.ask(withheld, **options | {"min_confidence": 0}) if withheld else [])
    return [
        {
            **one._asdict(),
            "answer": (answer := (next(likeliest) if reply.text is None and with_withheld else reply).text or ""),
            "is_given": reply.text is not None and not reply.tentative,
            "is_tentative": reply.tentative,
            "probability": reply.confidence and reply.confidence.probability,
            "rank": rank_of(one.source, [Path(source.path).name for source in reply.sources]),
            **scores(answer, one.golds),
        }
        for one, reply in zip(questions, usual, strict=True)
    ]


def rank_of(name: str | None, names: Sequence[str]) -> int | None:
    return names.index(name) if name in names else None


def scores(text: str, golds: Sequence[str]) -> Row:
    """EM and F1 against the best gold answer, and against the shortest; 0 for a question without an answer."""
    by_kind = {kind: compare(text, golds, kind) if golds else None for kind in ("any", "shortest")}
    return {
        f"{measure}, {kind}": float(getattr(match, field)) if match else 0.0
        for kind, match in by_kind.items()
        for measure, field in (("EM", "exact_match"), ("F1", "f1"))
    }


def find(memory: Memory, model: RetrieverReader, questions: Sequence[Question], what: str) -> list[int | None]:
    """The rank of each question's source among the first five, before reading."""
    ranks: list[int | None] = [None] * len(questions)
    with MemoryBank.open(memory.paths[0], read_only=True) as bank, bank.snapshot():
        scope = model.scope(bank)
        for places in batches(questions, what):
            found = model.search([questions[place].question for place in places], scope, top=TOP).chunks
            for place, hits in zip(places, found, strict=True):
                chunks = bank.chunks_at([hit.chunk for hit in hits[:TOP]])
                names = list(dict.fromkeys(Path(chunk.document.origin.source).name for chunk in chunks))
                ranks[place] = rank_of(questions[place].source, names[:SOURCES])
    return ranks


def bm25(texts: Mapping[str, str], questions: Sequence[Question]) -> list[int | None]:
    """The same by BM25 over the full texts, with stemming and without stop words (Robertson and Zaragoza, 2009)."""
    options = {"stopwords": "en", "stemmer": Stemmer.Stemmer("english"), "return_ids": False, "show_progress": False}
    index, names = bm25s.BM25(), list(texts)
    index.index(bm25s.tokenize(list(texts.values()), **options), show_progress=False)
    ranks = []
    for words, question in zip(bm25s.tokenize([one.question for one in questions], **options), questions, strict=True):
        values = index.get_scores(words) if words else np.zeros(len(names))
        best = [names[place] for place in np.argsort(-values, kind="stable")[:SOURCES] if values[place] > 0]
        ranks.append(rank_of(question.source, best))
    return ranks


def with_columns(rows: Sequence[Row], **columns: Sequence[Any]) -> list[Row]:
    return [row | {name: column[place] for name, column in columns.items()} for place, row in enumerate(rows)]


def squad(setup: Setup) -> Row:
    texts, questions, memory = setup.squad
    questions = setup.sample(questions)
    found = find(memory, setup.model, questions, "squad: found")
    codes = find(setup.remember("codes", texts, keeps_text=False), setup.model, questions, "squad: found by codes")
    rows = ask(memory, questions, "squad: answered")
    return {
        "documents": len(texts),
        "rows": with_columns(rows, found=found, codes=codes, bm25=bm25(texts, questions)),
    }


def given(setup: Setup) -> Row:
    by_source: dict[str, list[Question]] = {}
    for question in setup.sample(setup.squad.questions):
        by_source.setdefault(str(question.source), []).append(question)
    rows = [
        row
        for source, questions in track(by_source.items(), "given: answered")
        for row in replies(setup.squad.memory, questions, selection=Selection(only=(source,)), min_confidence=0)
    ]
    return {"rows": rows}


def many(setup: Setup) -> Row:
    examples = setup.examples("squad_val", "squad_train_part")
    texts, questions = by_file(examples)
    own_titles = {one.title.replace("_", " ") for one in examples}
    with lzma.open(setup.data / "text" / "wikipedia-3.txt.xz", "rt", encoding="utf-8") as file:
        articles = [article.strip().split("\n") for article in file.read().split("\n\n\n")]
    lines = {line for title, *rest in articles if title not in own_titles for line in rest if 300 <= len(line) <= 2500}
    others = random.Random(setup.seed).sample(sorted(lines), min(len(lines), PARAGRAPHS_OF_MANY - len(texts)))
    texts |= {f"other-{number}.txt": text for number, text in enumerate(others)}
    questions = setup.sample(questions, ASKED_OF_MANY)
    memory = setup.remember("many", texts)
    found = find(memory, setup.model, questions, "many: found")
    ranks = zip(questions, found, bm25(texts, questions), strict=True)
    return {
        "documents": len(texts),
        "rows": [{"source": one.source, "found": by_mini, "bm25": other} for one, by_mini, other in ranks],
        "read": ask(memory, questions[:READ_OF_MANY], "many: answered"),
    }


def wikinews(setup: Setup) -> Row:
    texts, questions, memory = setup.wikinews
    questions = setup.sample(questions)
    rows = with_columns(ask(memory, questions, "wikinews: answered"), bm25=bm25(texts, questions))
    wrong = [row for row in rows if (row["is_given"] and not row["EM, any"]) or (row["golds"] and not row["is_given"])]
    (setup.out / "wikinews-wrong.json").write_text(json.dumps(wrong, indent=1) + "\n", encoding="utf-8")
    return {"documents": len(texts), "rows": rows}


def everyday(setup: Setup) -> Row:
    asked = EVERYDAY_DATA["ask_about_part"](setup.model, "test", setup.folder / "everyday")
    questions = [Question(one.text, (one.answer,) if one.answer else (), Path(one.file).name) for one in asked]
    memory = Memory(setup.folder / "everyday" / "bank.mbc", setup.model)
    rows = ask(memory, setup.sample(questions, EVERYDAY), "everyday: answered", with_withheld=False)
    return {"documents": len({one.file for one in asked}), "rows": rows}


def about_paragraphs(setup: Setup) -> list[Question]:
    """One question for each of some paragraphs, whose answer is not in all of their sentences."""
    texts, questions, _ = setup.squad
    shuffled = random.Random(setup.seed).sample(questions, len(questions))
    one_each = {question.source: question for question in shuffled}.values()
    asked = [question for question in one_each if without_answer(texts[str(question.source)], question.golds)]
    return setup.sample(asked, ALTERED)


def removed(setup: Setup) -> Row:
    asked, memory = about_paragraphs(setup), setup.squad.memory
    gone = [
        row
        for one in track(asked, "removed: without the paragraph")
        for row in replies(memory, [one], selection=Selection(exclude=(str(one.source),)), with_withheld=False)
    ]
    there = ask(memory, asked, "removed: as they are", with_withheld=False)
    return {"documents": len(setup.squad.texts), "there": there, "gone": gone}


def without_answer(text: str, golds: Sequence[str]) -> str:
    """A paragraph without the sentences that contain one of these answers."""
    sentences = [text[start:end] for start, end in split_sentences(text)]
    return " ".join(sentence for sentence in sentences if not any(gold in sentence for gold in golds))


def writing(setup: Setup) -> Row:
    questions = setup.sample(setup.squad.questions, WRITTEN)
    extracted = ask(setup.squad.memory, questions, "writing: extracted")
    memory = Memory(setup.squad.memory.paths[0], setup.model, llm=setup.llm).open(AskOptions(write=True))
    answers = [
        memory.ask([one.question], min_confidence=0, write=True)[0] for one in track(questions, "writing: written")
    ]
    written = [
        {**one._asdict(), "answer": answer.text or "", **scores(answer.text or "", one.golds)}
        for one, answer in zip(questions, answers, strict=True)
    ]
    for row, other in zip(written, extracted, strict=True):
        for either in (row, other):
            either["holds"] = any(is_in(gold, either["answer"]) for gold in either["golds"])
    report = [
        f"{row['question']}\n{answer.sources[0].passage}\ngold: {' | '.join(dict.fromkeys(row['golds']))}\n"
        f"extracted: {other['answer']} ({other['probability']:.0%})\nwritten: {row['answer']}\n"
        for row, other, answer in list(zip(written, extracted, answers, strict=True))[:30]
    ]
    (setup.out / "writing.txt").write_text("\n".join(report), encoding="utf-8")
    return {"extracted": extracted, "written": written}


def is_in(answer: str, text: str) -> bool:
    """Whether a text contains an answer, word for word after SQuAD's normalisation."""
    return f" {normalize(answer)} " in f" {normalize(text)} "


PARTS: Final[Mapping[str, Callable[[Setup], Row]]] = {
    part.__name__: part for part in (squad, given, many, wikinews, everyday, removed, writing)
}
ONLY_IF_NAMED: Final = {"writing"}


def fingerprint(folder: Path) -> str:
    """A hash of all files of a model."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def measure(args: argparse.Namespace, names: Sequence[str]) -> None:
    """Measure the named parts, or else those that are missing or out of date."""
    model = load_model(args.model)
    assert isinstance(model, RetrieverReader)
    assert model.folder is not None
    data = hashlib.sha256(EVERYDAY_DATA["DATA"].read_bytes()).hexdigest()[:16]
    key = {"model": fingerprint(model.folder), "data": data, "questions": args.questions, "seed": args.seed}
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        setup = Setup(model, args.data, Path(folder), args.questions, args.seed, args.llm, args.out)
        for name in names or [name for name in PARTS if name not in ONLY_IF_NAMED]:
            path = args.out / f"{name}.json"
            if names or not path.exists() or not key.items() <= json.loads(path.read_text())["key"].items():
                found, seconds = seconds_of(lambda part=PARTS[name]: part(setup))
                environment = {"key": key, "threads": args.threads, "took": seconds, **conditions()}
                load_or_measure(path, lambda: environment | found)  # noqa: B023  # called at once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the development data")
    parser.add_argument("--out", type=Path, default=Path("build/quality"), help="measured figures (%(default)s)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[])
    parser.add_argument("--written", action="store_true", help="measure nothing; write from the figures in --out")
    parser.add_argument("--model", default="mini")
    parser.add_argument("--llm", help="chat LM for written answers")
    parser.add_argument("--questions", type=int, default=ALL, help="maximum number of questions of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2, help="texts that are computed at once")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    if not args.written:
        measure(args, args.only)
    paths = {name: args.out / f"{name}.json" for name in PARTS}
    parts = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}
    if "writing" in parts:
        quality_written.write_writing(parts["writing"])
    if "wikinews" in parts:
        quality_written.write_answers(parts)
    if lacking := ", ".join(name for name in PARTS if name not in {*parts, *ONLY_IF_NAMED}):
        print(f"The other tables were not written; they also need: {lacking}.")
    elif args.written or args.questions == ALL:
        quality_written.write(parts)
    else:
        print(*quality_written.details(parts), sep="\n")


if __name__ == "__main__":
    main()
