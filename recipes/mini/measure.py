"""How good `mini` is, what its banks weigh and how long it takes, beside what `mbc eval` measures.

    python recipes/mini/measure.py --data ../shared/data            # every part; or --only finding quality writing size time

- finding: how often the right paragraph is found first, or among five, beside codes alone and BM25.
- quality: all questions of `squad_val` with its 402 paragraphs in a bank, once with their files there and once from the
  bank alone. EM and F1 of the likeliest answers, whatever their confidence; how often the right source comes first, or
  among five; what the confidence is worth; how many questions still get an answer without the paragraph that has it.
- writing: a sample of the questions of `quality`, each answer extracted and written by a chat LM (`--base`) from the same
  passage; how often a gold answer is in it, or what was extracted, and what that is where the extracted answer would be
  withheld. `writing.txt` has the first 30 to be read by a person.
- size: bytes of a chunk in banks of these paragraphs and of 100,000 chunks of Reuters news and Wikipedia, made with
  codes drawn at random; from how many paragraphs on a bank is smaller than their files.
- time: what a question takes, one at a time, from a bank of the folder of Wikinews articles, and from one of 64 made-up
  news stories.

Each part writes a JSON file of its name to `--out`. `--paragraphs 40 --chunks 2000` tries everything out.
"""

import hashlib
import json
import lzma
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from address import articles
from numpy.typing import NDArray
from options import stage_parser

from mbc_engine import Answer, AskOptions, Memory, MemoryBank, RetrieverReader, Selection, ingest, load_model, open_bank
from mbc_engine.bank import Origin, StoredDocument
from mbc_engine.datasets.by_name import load_examples
from mbc_engine.datasets.layout import QAExample
from mbc_engine.datasets.newswire import stories
from mbc_engine.lm.coding import signature
from mbc_engine.methods.reading import WordIndex
from mbc_engine.metrics import compare, normalize
from mbc_engine.text import Chunk

BATCH: Final = 32
BINS: Final = 10
PARTS: Final = ("finding", "quality", "writing", "size", "time")
WITHOUT_ANSWER: Final = 300  # questions asked without the paragraph that answers them

Figures = dict[str, Any]


def ask(recall: Memory, questions: Sequence[str], **options: Any) -> list[Answer]:
    """Answers in batches of questions of about one length, with five sources."""
    order = sorted(range(len(questions)), key=lambda place: len(questions[place]))
    found: dict[int, Answer] = {}
    for start in range(0, len(order), BATCH):
        places = order[start : start + BATCH]
        replies = recall.ask([questions[place] for place in places], sources=5, **options)
        found |= dict(zip(places, replies, strict=True))
    return [found[place] for place in range(len(questions))]


def quality(model: RetrieverReader, data: Path, paragraphs: int) -> Figures:
    """What is answered, from where, and how sure of it one can be."""
    examples, texts = squad(data, paragraphs)
    questions = [one.question for one in examples]
    with tempfile.TemporaryDirectory() as place:
        files = [Path(place, "texts", f"{number:04d}.txt") for number in range(len(texts))]
        files[0].parent.mkdir()
        for file, text in zip(files, texts, strict=True):
            file.write_text(text, encoding="utf-8")
        own = {text: str(file) for text, file in zip(texts, files, strict=True)}
        with open_bank(model, Path(place, "bank.mbc")) as bank:
            for _ in ingest(model, bank, [files[0].parent]):
                pass
            recall = Memory(bank, model)
            from_files = ask(recall, questions, min_confidence=0)
            for file in files:
                file.unlink()
            from_bank = ask(recall, questions, min_confidence=0)
            chosen = random.Random(0).sample(examples, min(WITHOUT_ANSWER, len(examples)))
            without = [
                recall.ask([one.question], selection=Selection(exclude=(Path(own[one.text]).name,)))[0]
                for one in chosen
            ]
            held = {"documents": bank.totals().documents, "chunks": bank.totals().chunks}
    ranks = [
        next((rank for rank, source in enumerate(reply.sources) if source.path == own[one.text]), None)
        for reply, one in zip(from_files, examples, strict=True)
    ]
    sure = np.array([reply.confidence.probability if reply.confidence else 0.0 for reply in from_files])
    right = np.array(
        [
            compare(reply.text or "", one.answers, "any").exact_match
            for reply, one in zip(from_files, examples, strict=True)
        ]
    )
    return {
        "questions": len(questions),
        **held,
        "from files": matches(from_files, examples),
        "from the bank alone": matches(from_bank, examples),
        "same answers": all(one.answer == other.answer for one, other in zip(from_files, from_bank, strict=True)),
        "right source first": percent(rank == 0 for rank in ranks),
        "right source in five": percent(rank is not None for rank in ranks),
        **confidence(sure, right, model.settings.confidence.threshold),
        "answered without the paragraph": percent(reply.text is not None for reply in without),
        "asked without the paragraph": len(without),
    }


def writing(model: RetrieverReader, data: Path, paragraphs: int, asked: int, base: str | None, out: Path) -> Figures:
    """What a chat LM makes of answers, one question at a time, whatever their confidence; the first 30 to a file."""
    examples, texts = squad(data, paragraphs)
    examples = random.Random(0).sample(examples, min(asked, len(examples)))
    with tempfile.TemporaryDirectory() as place, open_bank(model, Path(place, "bank.mbc")) as bank:
        add(model, bank, [(f"{number:04d}.txt", text) for number, text in enumerate(texts)])
        memory, seconds = Memory(bank, model, base=base).open(AskOptions(write=True)), []
        extracted = [memory.ask([one.question], min_confidence=0)[0] for one in examples]
        written = []
        for one in examples:
            began = time.perf_counter()
            written += memory.ask([one.question], min_confidence=0, write=True)
            seconds.append(time.perf_counter() - began)
    sure = [
        bool(own.confidence and own.confidence.probability >= model.settings.confidence.threshold) for own in extracted
    ]
    read = list(zip(examples, extracted, written, strict=True))
    report = [
        f"{number}. {one.question}\n{own.sources[0].passage}\ngold: {' | '.join(dict.fromkeys(one.answers))}\n"
        f"extracted: {found.text} ({found.confidence.probability if found.confidence else 0:.0%})\nwritten: {own.text}\n"
        for number, (one, found, own) in enumerate(read[:30], 1)
    ]
    (out / "writing.txt").write_text("\n".join(report), encoding="utf-8")
    held = [any(is_in(gold, own.text) for gold in one.answers) for one, _, own in read]
    figures: Figures = {
        "questions": len(read),
        "threads": torch.get_num_threads(),
        "extracted": matches(extracted, examples),
        "written": matches(written, examples),
        "a gold answer is in what was extracted": percent(
            any(is_in(gold, own.text) for gold in one.answers) for one, own, _ in read
        ),
        "a gold answer is in what was written": percent(iter(held)),
        "what was extracted is in it": percent(is_in(own.text, other.text) for _, own, other in read),
        "words": statistics.mean(len((own.text or "").split()) for own in written),
        "seconds a question, median": statistics.median(seconds),
    }
    for name, wanted in (("over", True), ("under", False)):
        several = [own for own, is_sure in zip(held, sure, strict=True) if is_sure == wanted]
        figures[f"{name} the threshold"] = len(several)
        figures[f"a gold answer is in what was written {name} it"] = percent(iter(several)) if several else None
    return figures


def is_in(answer: str | None, text: str | None) -> bool:
    """Whether an answer stands in a text, word for word after SQuAD's normalisation."""
    return f" {normalize(answer or '')} " in f" {normalize(text or '')} "


def finding(model: RetrieverReader, data: Path, paragraphs: int) -> Figures:
    """How often the right paragraph is found first, or among five, before anything is read."""
    examples, texts = squad(data, paragraphs)
    own = {text: place for place, text in enumerate(texts)}
    bank = MemoryBank.create(None, signature(model), model.code_shape, model.codebooks.shape[-1], keeps_text=True)
    with bank:
        codes = model.memorise(texts)
        bank.put(
            [
                StoredDocument(f"{place:032x}", 1, 1, (Origin(f"/{place}", "", None),), code[None], [Chunk(text, 0)])
                for place, (code, text) in enumerate(zip(codes, texts, strict=True))
            ]
        )
        scope = model.scope(bank)
        usual, found = model.settings, {}
        for name, weight in (("codes and words", usual.word_weight), ("codes alone", 0.0)):
            model.settings = usual.model_copy(update={"word_weight": weight})
            hits = [model.find([one.question], scope, top=5)[0] for one in examples]
            found[name] = [[hit.chunk for hit in several] for several in hits]
        model.settings = usual
    index = WordIndex(texts)
    found["BM25"] = [index.ranking(one.question)[:5] for one in examples]
    right = [own[one.text] for one in examples]
    return {
        f"{name}, {what}": percent(place in places[:most] for place, places in zip(right, ranked, strict=True))
        for name, ranked in found.items()
        for what, most in (("first", 1), ("in five", 5))
    }


def squad(data: Path, paragraphs: int) -> tuple[list[QAExample], list[str]]:
    """The questions of `squad_val` about its first paragraphs, and these."""
    every = load_examples(str(data / "qa" / "squad_val.jsonl.xz"))
    texts = list(dict.fromkeys(one.text for one in every))[:paragraphs]
    return [one for one in every if one.text in set(texts)], texts


def percent(are_so: Iterator[bool]) -> float:
    """How many are so."""
    return 100 * statistics.mean(map(bool, are_so))


def matches(replies: Sequence[Answer], examples: Sequence[QAExample]) -> Figures:
    """EM and F1 in percent, against the shortest gold answer and against whichever fits best."""
    found = {}
    for golds in ("shortest", "any"):
        own = [compare(reply.text or "", one.answers, golds) for reply, one in zip(replies, examples, strict=True)]
        found[f"EM, {golds} gold"] = percent(match.exact_match for match in own)
        found[f"F1, {golds} gold"] = 100 * statistics.mean(match.f1 for match in own)
    return found


def confidence(sure: NDArray[np.float64], right: NDArray[np.bool_], threshold: float) -> Figures:
    """What the probabilities are worth that answers are right.

    Args:
        sure: the probability of each answer.
        right: whether it is right.
        threshold: the least probability of an answer that is given.
    """
    given = sure >= threshold
    order = np.argsort(sure, kind="stable")
    widths = np.minimum((sure * BINS).astype(int), BINS - 1)
    return {
        "threshold": threshold,
        "answered": 100 * float(given.mean()),
        "right of those": 100 * float(right[given].mean()) if given.any() else None,
        "calibration error, equal widths": calibration_error(
            [np.flatnonzero(widths == number) for number in range(BINS)], sure, right
        ),
        "calibration error, equal masses": calibration_error(np.array_split(order, BINS), sure, right),
        "AUC": area_under_curve(sure, right),
    }


def calibration_error(bins: Sequence[NDArray[np.int64]], sure: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """By how much a bin's mean probability is off what is right in it, in percent, the mean over all answers."""
    return 100 * sum(abs(float(sure[own].sum() - right[own].sum())) for own in bins) / len(sure)


def area_under_curve(sure: NDArray[np.float64], right: NDArray[np.bool_]) -> float | None:
    """How often a right answer has a larger probability than a wrong one; equal ones count half."""
    if right.all() or not right.any():
        return None
    yes, no = sure[right][:, None], sure[~right][None]
    return float((yes > no).mean() + 0.5 * (yes == no).mean())


def size(model: RetrieverReader, data: Path, paragraphs: int, chunks: int) -> Figures:
    """What banks weigh."""
    _, texts = squad(data, paragraphs)
    found: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        with open_bank(model, Path(folder, "few.mbc")) as bank:
            file_bytes, smaller_from = 0, None
            for number, text in enumerate(texts, 1):
                add(model, bank, [(f"{number:04d}.txt", text)])
                bank.compact()
                file_bytes += len(text.encode())
                is_smaller = bank.sizes().file < file_bytes
                smaller_from = (smaller_from or number) if is_smaller else None
            found["squad_val"] = bytes_a_chunk(bank, file_bytes)
        found["smaller than the files from, in paragraphs"] = smaller_from
        with open_bank(model, Path(folder, "many.mbc")) as bank:
            documents, file_bytes = documents_of(data), 0
            while bank.totals().chunks < chunks and (several := list(islice(documents, 500))):
                add(model, bank, several, draw=np.random.default_rng(bank.totals().chunks))
                file_bytes += sum(len(text.encode()) for _, text in several)
            bank.compact()
            found["Reuters and Wikipedia"] = bytes_a_chunk(bank, file_bytes)
    return found


def documents_of(data: Path) -> Iterator[tuple[str, str]]:
    """Names and texts: the Reuters news, then Wikipedia's articles."""
    with lzma.open(data / "news" / "reuters21578.jsonl.xz", "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            yield f"reuters/{row['id']}.txt", f"{row['title']}\n\n{row['text']}"
    for part in range(4):
        for number, article in enumerate(articles(data, part)):
            yield f"wikipedia/{part}/{number:05d}.txt", article


def add(
    model: RetrieverReader,
    bank: MemoryBank,
    documents: Sequence[tuple[str, str]],
    draw: np.random.Generator | None = None,
) -> None:
    """Add documents by name, with their codes or ones drawn at random, which weigh the same and take no time."""
    items = []
    for name, text in documents:
        chunks = model.chunker.chunks(text)
        if not chunks:
            continue
        data = text.encode()
        shape = model.code_shape
        codes = (
            model.memorise([chunk.text for chunk in chunks])
            if draw is None
            else draw.integers(0, shape.num_codes, (len(chunks), shape.tokens, shape.levels), dtype=np.uint16)
        )
        origin, digest = Origin(f"/texts/{name}", "", None), hashlib.sha256(data).hexdigest()
        items.append(StoredDocument(digest, len(chunks), len(data), (origin,), codes, chunks))
    bank.put(items)


def bytes_a_chunk(bank: MemoryBank, file_bytes: int) -> Figures:
    """A chunk's share of everything in a bank: codes, text, and the index, which is all the rest."""
    bank.checkpoint()
    sizes, totals = bank.sizes(), bank.totals()
    parts = {
        "codes": sizes.codes,
        "words": sizes.words,
        "text": sizes.texts,
        "index": sizes.file - sizes.codes - sizes.words - sizes.texts,
        "file": sizes.file,
        "original files": file_bytes,
    }
    return {
        "documents": totals.documents,
        "chunks": totals.chunks,
        **{f"{name}, bytes a chunk": value / totals.chunks for name, value in parts.items()},
        "bank beside the files": 100 * sizes.file / file_bytes,
    }


def timing(model: RetrieverReader, data: Path, paragraphs: int) -> Figures:
    """Milliseconds a question, one after another in one process."""
    examples, _ = squad(data, paragraphs)
    found = {"Wikinews": milliseconds(model, data / "news" / "wikinews", examples[:: max(1, len(examples) // 50)])}
    with tempfile.TemporaryDirectory() as folder:
        told = list(stories("test", 64))
        for story in told:
            Path(folder, f"{story.id}.txt").write_text(f"{story.title}. {story.text}", encoding="utf-8")
        asked = [QAExample(story.id, "", story.questions[0][0], ("",)) for story in told]
        found["64 made-up stories"] = milliseconds(model, Path(folder), asked)
    return found


def milliseconds(model: RetrieverReader, folder: Path, asked: Sequence[QAExample]) -> Figures:
    """What questions to the documents of a folder take."""
    questions = [one.question for one in asked]
    with tempfile.TemporaryDirectory() as place, open_bank(model, Path(place, "bank.mbc")) as bank:
        for _ in ingest(model, bank, [folder]):
            pass
        recall = Memory(bank, model)
        recall.ask(questions[:1])
        took = []
        for question in questions:
            began = time.perf_counter()
            recall.ask([question])
            took.append(1000 * (time.perf_counter() - began))
        return {
            "chunks": bank.totals().chunks,
            "questions": len(took),
            "threads": torch.get_num_threads(),
            "median, ms": statistics.median(took),
            "least, ms": min(took),
            "most, ms": max(took),
        }


def show(figures: Figures, indent: str = "  ") -> None:
    """A table, a figure a line."""
    for name, value in figures.items():
        if isinstance(value, dict):
            print(f"{indent}{name}")
            show(value, indent + "  ")
        else:
            print(f"{indent}{name:<{48 - len(indent)}}{f'{value:,.2f}' if isinstance(value, float) else value}")


def main() -> None:
    parser = stage_parser(__doc__, "data", "threads")
    parser.add_argument("--out", type=Path, default=Path("build/mini/measured"))
    parser.add_argument("--model", default="mini")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--paragraphs", type=int, default=402, help="of squad_val")
    parser.add_argument("--questions", type=int, default=200, help="that are written an answer to")
    parser.add_argument("--base", help="the chat LM that writes, by hub id or folder")
    parser.add_argument("--chunks", type=int, default=100_000, help="of the large bank")
    parser.set_defaults(threads=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = load_model(args.model)
    assert isinstance(model, RetrieverReader), "it measures retriever-readers"
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.only:
        match name:
            case "finding":
                figures = finding(model, args.data, args.paragraphs)
            case "quality":
                figures = quality(model, args.data, args.paragraphs)
            case "writing":
                figures = writing(model, args.data, args.paragraphs, args.questions, args.base, args.out)
            case "size":
                figures = size(model, args.data, args.paragraphs, args.chunks)
            case _:
                figures = timing(model, args.data, args.paragraphs)
        (args.out / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        print(name)
        show(figures)


if __name__ == "__main__":
    main()
