"""The words that chunks are found by: which of them are too common to count in a question.

    python recipes/mini/words.py --data ../shared/data --out build/mini/words            # the figures
    python recipes/mini/words.py --data ../shared/data --out build/mini/words --write    # and the list of common words

Common words are the most frequent ones in Wikipedia paragraphs, and those that questions use whatever they are about
("kind", "date"). A word that is as informative as it is rare is more likely in questions about paragraphs that have it
than in other questions, by a log ratio of at least its inverse document frequency; for these words it is lower.

Numbers, names and the like are never common: "room 3" and "the north gate" tell things of one's own files apart.

The figures are how often the right paragraph is first and in the first five of three banks of 400 paragraphs, one of
neighbouring paragraphs and two of paragraphs from everywhere. Nothing of `squad_val` is read.
"""

import math
import random
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from address import articles
from options import begin, qa_rows, stage_parser

from mbc_engine import Memory, load_model
from mbc_engine.bank import words as word_index
from mbc_engine.model import Model
from mbc_engine.text.language import word_set

COMMON: Final = Path(__file__).parents[2] / "mbc_engine" / "bank" / "common_words.txt"
PARAGRAPHS: Final = 20_000
IN_A_BANK: Final = 400
LONGER_THAN: Final = 200  # characters; shorter lines are often headings or list items
# What tells things of a kind apart.
DISTINGUISHING: Final = word_set("one two three four five six seven eight nine ten first second north south east west")
MOST_FREQUENT: Final = 200
# Minimum questions with a word to judge it by them.
QUESTIONS: Final = 30
SHARE: Final = 0.9
# Share of a name's occurrences, after the first word of a sentence, that are capitalised.
CAPITALISED: Final = 0.7
_POSSESSIVE: Final = re.compile(r"['\u2019]s\b")
_INNER_WORD: Final = re.compile(r"(?<=[\w,;] )[^\W\d_]+")


class Asked(NamedTuple):
    """The paragraphs of a bank, and questions with the number of the paragraph that answers each."""

    name: str
    paragraphs: list[str]
    questions: list[tuple[str, int]]


def common_words(data: Path, seed: int) -> list[str]:
    lines = [line for article in articles(data, 0) for line in article.split("\n") if len(line) > LONGER_THAN]
    chosen = random.Random(seed).sample(lines, min(PARAGRAPHS, len(lines)))
    frequent = Counter(word for line in chosen for word in word_index.words_in(line)).most_common(MOST_FREQUENT)
    common = {word for word, _ in frequent} | vague_words(data)
    return sorted(word for word in common - names(chosen) - DISTINGUISHING if word.isalpha())


def names(lines: Sequence[str]) -> set[str]:
    """Words that are mostly capitalised, even within a sentence."""
    inner = Counter(word for line in lines for word in _INNER_WORD.findall(line))
    counts: Counter[str] = Counter()
    for word, count in inner.items():
        counts[word.lower()] += count
    return {
        word for word, count in counts.items() if len(word) > 1 and (inner[word.capitalize()] >= CAPITALISED * count)
    }


def vague_words(data: Path) -> set[str]:
    """Words that say little about which paragraph a question is about."""
    every = qa_rows(data, "squad_realigned")
    words = {text: word_index.words_in(text) for text in {row["text"] for row in every}}
    holding = Counter(word for in_text in words.values() for word in in_text)
    shared: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    possible: Counter[str] = Counter()
    for row in every:
        asked, there = word_index.words_in(_POSSESSIVE.sub("", row["question"])), words[row["text"]]
        shared.update(asked & there)
        alone.update(asked - there)
        possible.update(there)
    vague = set()
    for word in {*shared, *alone}:
        if shared[word] + alone[word] >= QUESTIONS:
            about = (shared[word] + 1) / (possible[word] + 2)
            other = (alone[word] + 0.05) / (len(every) - possible[word] + 0.1)
            if math.log(about / other) < SHARE * math.log((len(words) + 1) / (holding[word] + 0.5)):
                vague.add(word)
    return vague


def banks(data: Path) -> Iterator[Asked]:
    """The banks; paragraphs with a question of `squad_train_part` or `squad_val` are left out."""
    others = {_plain(row["question"]) for name in ("squad_train_part", "squad_val") for row in qa_rows(data, name)}
    for name, counts in (("squad_realigned", 1), ("squad_cs224n_val", 2)):
        every = qa_rows(data, name)
        seen = {row["text"] for row in every if _plain(row["question"]) in others}
        titles: dict[str, list[str]] = {}
        for row in every:
            if row["text"] not in seen:
                titles.setdefault(row["title"], []).append(row["text"])
        shuffled = sorted(titles)
        random.Random(0).shuffle(shuffled)
        texts = [text for title in shuffled for text in dict.fromkeys(titles[title])]
        if len(titles) == 1:
            random.Random(1).shuffle(texts)
        for number in range(counts):
            paragraphs = texts[number * IN_A_BANK : (number + 1) * IN_A_BANK]
            places = {text: place for place, text in enumerate(paragraphs)}
            asked = [(row["question"], places[row["text"]]) for row in every if row["text"] in places]
            yield Asked(f"{name}-{number}", paragraphs, asked)


def _plain(text: str) -> str:
    return re.sub(r"\W+", "", text.lower())


def found(model: Model, asked: Asked, folder: Path) -> list[float]:
    """How often the right paragraph is first, and in the first five, in percent; the bank is made in a folder."""
    documents = folder / "documents"
    documents.mkdir(parents=True, exist_ok=True)
    files = [documents / f"{place}.txt" for place in range(len(asked.paragraphs))]
    for file, paragraph in zip(files, asked.paragraphs, strict=True):
        file.write_text(paragraph, encoding="utf-8")
    with Memory(folder / "bank.mbc", model) as memory:
        for _ in memory.add(files):
            pass
        several = memory.search([question for question, _ in asked.questions])
    right = [
        [int(Path(source.path).stem) == about for source in sources]
        for sources, (_, about) in zip(several, asked.questions, strict=True)
    ]
    return [100 * statistics.mean(any(own[:most]) for own in right) for most in (1, 5)]


def main() -> None:
    parser = stage_parser(__doc__, "data", "out", "threads", "device", "seed")
    parser.add_argument("--write", action="store_true", help=f"write {COMMON.name}")
    args = begin(parser)
    if args.write:
        COMMON.write_text("".join(f"{word}\n" for word in common_words(args.data, args.seed)), encoding="utf-8")
    model = load_model("mini", device=args.device)
    for asked in banks(args.data):
        print("{}: {:.1f} / {:.1f}".format(asked.name, *found(model, asked, args.out / asked.name)), flush=True)


if __name__ == "__main__":
    main()
