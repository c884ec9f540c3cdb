"""What a reader finds for questions of several domains: the data that `confidence.py` is fitted to.

    python recipes/mini/readings.py --data ../shared/data --out build/mini/readings --reader large --questions 100

For each domain, a memory of some paragraphs that answer questions and of others beside them, each a file named after
its title. A question is asked as it is, with its paragraph removed, and changed so that its answer no longer answers it
(`near_misses.py`), and all passages that were read are written to `READER-DOMAIN.jsonl` with what was found in them.
The last domain is the part of `everyday.py` for calibration, with its own questions that nothing answers. A rerun
continues; more `--questions` add to what is there. Paragraphs with questions are held out of the readers' training.
Nothing of `squad_val`, Wikinews or the everyday tests is read.
"""

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from everyday import ask_about_part, make_memory
from near_misses import names_in, near_miss, of_another_sentence
from options import begin, stage_parser
from reader_data import Row, is_held_out, read_rows

from mbc_engine import RetrieverReader, load_model
from mbc_engine.bank import MemoryBank
from mbc_engine.metrics import compare
from mbc_engine.mini.retrieval import Scope
from mbc_engine.ranking import Hit
from mbc_engine.sources import Passages

# The sets of each domain. Those of the second kind were not used in training.
DOMAINS: Final = {
    "squad": ("squad_realigned",),
    "tydiqa": ("tydiqa_goldp_en",),
    "archivalqa": ("archivalqa_like",),
    "reviews": ("squadshifts_amazon", "squadshifts_reddit"),
    "tweetqa": ("tweetqa",),
    "timeqa": ("timeqa_human",),
    "covidqa": ("covidqa",),
    "fairytales": ("fairytaleqa_val",),
}
# What people ask, so there are more of these.
EVERYDAY: Final = "everyday"
EVERYDAY_TIMES: Final = 3
NOT_TRAINED_ON: Final = {"covidqa", "fairytaleqa_val"}
PARAGRAPHS: Final = 120
BATCH: Final = 4
ANOTHER_NAME: Final = "another name"  # a change after which another answer than the gold may be right
NOT_THERE: Final = "not there"  # not changed, but without an answer
# Targets for answers that are not the only gold, by F1; see `confidence.py`.
SOME_WORDS, HALF = 0.39, 0.55


@dataclass(frozen=True)
class Asked:
    """A question, how it was altered ("" if not), its golds, and the file that answers it."""

    question: str
    change: str
    golds: tuple[str, ...]
    file: str

    def worth(self, answer: str, file: str) -> float:
        """How likely an answer read in `file` is right."""
        if self.change:
            return 0.0
        match = compare(answer, self.golds, "any")
        if match.exact_match or file != self.file or not match.f1:
            return float(match.exact_match)
        return SOME_WORDS if match.f1 < 0.5 else HALF


def remembered(model: RetrieverReader, data: Path, domain: str, folder: Path) -> list[Asked]:
    """Make a domain's memory in a folder, unless it is there; returns its questions."""
    chooser = random.Random(domain)
    rows = [row for name in DOMAINS[domain] for row in read_rows(data, name) if row.answers]
    free = [row for row in rows if row.source in NOT_TRAINED_ON or is_held_out(row)]
    by_text: dict[str, list[Row]] = {}
    for row in free:
        by_text.setdefault(row.text, []).append(row)
    about = chooser.sample(sorted(by_text), min(len(by_text), PARAGRAPHS // 2))
    # Some of the same article, and some of any.
    titles = {by_text[text][0].title for text in about}
    beside = [sorted({row.text for row in rows if row.title in titles} - {*about})]
    beside.append(sorted({row.text for row in rows} - {*about, *beside[0]}))
    others = [
        *chooser.sample(beside[0], min(len(beside[0]), PARAGRAPHS // 4)),
        *chooser.sample(beside[1], len(beside[1])),
    ]
    texts = [*about, *others][:PARAGRAPHS]
    named = {row.text: re.sub(r"\W+", " ", row.title).strip() for row in rows}
    files = {text: f"{named[text]} {number:03d}.txt".strip() for number, text in enumerate(texts)}
    make_memory(model, {file: text for text, file in files.items()}, folder)
    several = [chooser.sample(by_text[text], min(len(by_text[text]), 4)) for text in about]
    chosen = [rows[turn] for turn in range(4) for rows in several if turn < len(rows)]
    names = names_in(row.question for row in rows)
    asked = []
    for number, row in enumerate(chosen):
        unchanged = Asked(row.question, "", row.answers, files[row.text])
        asked.append(unchanged)
        if (changed := near_miss(row.question, row.text, names, texts, number)) is not None:
            asked.append(replace(unchanged, question=changed, change="near miss"))
        if (changed := of_another_sentence(row.question, row.text, row.answers, number)) is not None:
            asked.append(replace(unchanged, question=changed, change=ANOTHER_NAME))
        if number % 2:
            asked.append(replace(unchanged, change="removed"))
    return asked


def everyday(model: RetrieverReader, folder: Path) -> list[Asked]:
    """Make the memory of the everyday files for calibration, unless it is there; returns their questions."""
    questions = ask_about_part(model, "calibration", folder)
    random.Random(EVERYDAY).shuffle(questions)
    return [
        Asked(each.text, "" if each.answer else NOT_THERE, (each.answer,) if each.answer else (), Path(each.file).name)
        for each in questions
    ]


def readings(
    model: RetrieverReader, bank: MemoryBank, scope: Scope, asked: Sequence[Asked]
) -> Iterator[dict[str, Any]]:
    """What is read for each question, and how right the likeliest answer is."""
    passages = Passages(bank, model.chunker)

    def texts_of(wanted: Iterable[Hit]) -> dict[int, str | None]:
        return {chunk: source.passage for chunk, source in passages.of(hit.chunk for hit in wanted).items()}

    def file_of(chunk: int) -> str:
        return Path(bank.chunks_at([chunk])[0].document.origin.source).name

    questions = [one.question for one in asked]
    found = model.search(questions, scope).chunks
    hits = [
        _without(few, {hit.chunk for hit in few if file_of(hit.chunk) == one.file}) if one.change == "removed" else few
        for few, one in zip(found, asked, strict=True)
    ]
    for one, answer in zip(asked, model.read(questions, hits, texts_of, passages.known), strict=True):
        if answer.best is None:
            continue
        place = answer.best.passage
        yield {
            **asdict(one),
            "worth": one.worth(answer.best.text, file_of(answer.read_chunks[place].hit.chunk)),
            "best": place,
            "read": [
                {
                    "text": read.text,
                    "known": read.known,
                    "share": read.share,
                    "span": read.span and asdict(read.span),
                    "hit": read.hit.share,
                }
                for read in answer.read_chunks
            ],
        }


def _without(hits: Sequence[Hit], chunks: set[int]) -> list[Hit]:
    """The hits that there would be without these chunks in the bank."""
    left = [hit for hit in hits if hit.chunk not in chunks]
    total = 1 - sum(hit.share for hit in hits if hit.chunk in chunks)
    return [replace(hit, share=min(1.0, hit.share / max(total, 1e-9))) for hit in left]


def main() -> None:
    parser = stage_parser(__doc__, "data", "out", "threads", "device", "seed")
    parser.add_argument("--reader", required=True, help="the reader's name in mini's config.toml")
    parser.add_argument(
        "--questions", type=int, default=400, help="most rows of a domain; everyday has three times as many"
    )
    args = begin(parser)
    model = load_model("mini", device=args.device, reader=args.reader)
    assert isinstance(model, RetrieverReader)
    asked = {domain: remembered(model, args.data, domain, args.out / domain) for domain in DOMAINS}
    asked[EVERYDAY] = everyday(model, args.out / EVERYDAY)
    files = {domain: args.out / f"{args.reader}-{domain}.jsonl" for domain in asked}
    # All domains advance together, so that what there is can be used at any time.
    for start in range(0, args.questions, BATCH):
        for domain, file in files.items():
            times = EVERYDAY_TIMES if domain == EVERYDAY else 1
            batch = asked[domain][times * start : times * (start + BATCH)]
            done = len(file.read_text(encoding="utf-8").splitlines()) if file.exists() else 0
            if not batch or done > times * start:
                continue
            path = args.out / domain / "bank.mbc"
            with MemoryBank.open(path, read_only=True) as bank, bank.snapshot():
                rows = list(readings(model, bank, model.scope(bank), batch))
            with file.open("a", encoding="utf-8") as out:
                out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        print(f"{start + BATCH} of {args.questions}", flush=True)


if __name__ == "__main__":
    main()
