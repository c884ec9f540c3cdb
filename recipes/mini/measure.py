"""What `mini` finds and reads, and how long it takes, beside what `mbc eval` measures.

    python recipes/mini/measure.py --data ../shared/data            # every part; or --only routing reading codes time

- routing: how often the right paragraph of `squad_val` is the first source, or among five, with its 402 paragraphs in
  memory, and with 6,000 other ones of Wikipedia beside them.
- reading: EM and F1 of the reader given the right paragraph, and from those that routing finds among all 402.
- codes: how many codes are in use in a bank of these 402 paragraphs, by place (exp of the entropy).
- time: what a question takes, one at a time, both answers, from a bank of the folder of Wikinews articles, and from one
  of 64 made-up news stories.
"""

import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from address import OTHERS, articles, paragraphs
from mbc_engine.serving.read_answer import log_priors
from options import stage_parser

from mbc_engine import MBC, Recall, ingest, load_model, open_bank
from mbc_engine.bank import count, perplexity
from mbc_engine.datasets.by_name import load_examples
from mbc_engine.datasets.example import QAExample
from mbc_engine.datasets.newswire import stories
from mbc_engine.metrics import Golds, compare
from mbc_engine.mini.span_reader import Span, SpanReader
from mbc_engine.mini.span_reader_folder import load_span_reader
from mbc_engine.model.code_memory import shape_of
from mbc_engine.model.scoring import memorise_documents
from mbc_engine.model_folder import READER, find_model
from mbc_engine.serving.ask import CHUNKS_READ

BATCH = 32


def others(data: Path) -> list[str]:
    """Paragraphs of Wikipedia articles that the addresses' books were not made from."""
    chance = random.Random(7)
    return [line for article in articles(data, 3) for line in paragraphs(article, chance, 4, 1500)][:OTHERS]


def sources(model: MBC, texts: Sequence[str], questions: Sequence[str]) -> list[dict[int, float]]:
    """The five best of so many texts for each question, best first, with their shares."""
    memorised, reader = memorise_documents(model, texts), model.reader()
    found: list[dict[int, float]] = []
    for start in range(0, len(questions), BATCH):
        reading = model.read(questions[start : start + BATCH], memorised.memory, top=5, reader=reader)
        found += [{int(memorised.document_of[own.chunk]): own.share for own in ranked} for ranked in reading.sources]
    return found


def share(found: Sequence[dict[int, float]], right: Sequence[int], first: int) -> float:
    """How often the right one is among the first, in percent."""
    return 100 * statistics.mean(place in list(own)[:first] for own, place in zip(found, right, strict=True))


def tell(what: str, examples: Sequence[QAExample], spans: Sequence[Span | None]) -> None:
    """EM and F1 in percent, against the shortest gold answer and against whichever fits best."""
    golds: tuple[Golds, ...] = ("shortest", "any")
    figures = []
    for gold in golds:
        matches = [
            compare(span.text if span else "", one.answers, gold) for one, span in zip(examples, spans, strict=True)
        ]
        exact, overlap = (
            100 * statistics.mean(values)
            for values in zip(*((own.exact_match, own.f1) for own in matches), strict=True)
        )
        figures.append(f"{exact:.1f} / {overlap:.1f} ({gold} gold)")
    print(f"reading, {what}: EM / F1 {', '.join(figures)}", flush=True)


def measure_reading(
    reader: SpanReader, examples: Sequence[QAExample], texts: Sequence[str], found: Sequence[dict[int, float]]
) -> None:
    """What is read given the right paragraph, and from those found."""
    questions, threshold = [one.question for one in examples], reader.threshold
    reader.threshold = -np.inf
    tell("the right paragraph", examples, reader.find(questions, [[one.text] for one in examples]))
    passages = [[texts[place] for place in own][:CHUNKS_READ] for own in found]
    priors = [log_priors(list(own.values())[:CHUNKS_READ]) for own in found]
    tell(f"the bank of {len(texts)}", examples, reader.find(questions, passages, priors=priors))
    reader.threshold = threshold
    tell(f"the bank of {len(texts)}, or no answer", examples, reader.find(questions, passages, priors=priors))


def measure_codes(model: MBC, texts: Sequence[str]) -> None:
    """Effective numbers of codes."""
    codebook = model.require_codebook()
    used = perplexity(count(model.memorise(texts), shape_of(codebook)))
    print(f"codes of {len(texts)} paragraphs: {used.mean():.0f} of {codebook.num_codes} in use at a place on average")
    print("  by place: " + " ".join(f"{value:.0f}" for value in used.ravel()))


def measure_time(model: MBC, folder: Path, questions: Sequence[str]) -> None:
    """Milliseconds a question, one after another in one process."""
    with tempfile.TemporaryDirectory() as place, open_bank(model, Path(place, "bank.mbc")) as bank:
        for _ in ingest(model, bank, [folder]):
            pass
        recall = Recall(model, bank)
        recall.ask(questions[:1])
        took = []
        for question in questions:
            began = time.perf_counter()
            recall.ask([question])
            took.append(1000 * (time.perf_counter() - began))
        print(f"a question, {bank.totals().chunks} chunks in the bank: median {statistics.median(took):.0f} ms")
        print(f"  from {min(took):.0f} to {max(took):.0f} ms, {len(took)} questions, {torch.get_num_threads()} threads")


def main() -> None:
    parser = stage_parser(__doc__, "data", "threads")
    parser.add_argument("--model", default="mini")
    parser.add_argument("--only", nargs="+", default=["routing", "reading", "codes", "time"])
    parser.set_defaults(threads=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = load_model(args.model)
    examples = load_examples(str(args.data / "qa" / "squad_val.jsonl.xz"))
    texts = list(dict.fromkeys(one.text for one in examples))
    places = {text: place for place, text in enumerate(texts)}
    right, questions = [places[one.text] for one in examples], [one.question for one in examples]
    found = sources(model, texts, questions) if {"routing", "reading"} & {*args.only} else []
    if "routing" in args.only:
        every = [*texts, *others(args.data)]
        for among, ranked in ((texts, found), (every, sources(model, every, questions))):
            first, five = share(ranked, right, 1), share(ranked, right, 5)
            print(f"routing, {len(among):,} paragraphs: first {first:.1f} %, in five {five:.1f} %", flush=True)
    if "reading" in args.only:
        measure_reading(load_span_reader(find_model(args.model) / READER), examples, texts, found)
    if "codes" in args.only:
        measure_codes(model, texts)
    if "time" in args.only:
        measure_time(model, args.data / "news" / "wikinews", questions[:: len(questions) // 50])
        with tempfile.TemporaryDirectory() as folder:
            told = list(stories("test", 64))
            for story in told:
                Path(folder, f"{story.id}.txt").write_text(f"{story.title}. {story.text}", encoding="utf-8")
            measure_time(model, Path(folder), [story.questions[0][0] for story in told])


if __name__ == "__main__":
    main()
