"""The words that chunks are found by: which are too common to count, how many bytes they take, and what each adds.

    python recipes/mini/words.py --data ../shared/data --out build/mini/words            # the figures
    python recipes/mini/words.py --data ../shared/data --out build/mini/words --write    # and the list of common words

Common words are the most frequent ones in Wikipedia paragraphs, and those that questions use whatever they are about
("kind", "date"). A word that is as informative as it is rare is more likely in questions about paragraphs that have it
than in other questions, by a log ratio of at least its inverse document frequency; for these words it is lower.

The figures are of three banks of 400 paragraphs, one of neighbouring paragraphs and two of paragraphs from everywhere:
with several weights, how often the right paragraph is first or in the first five, and the bytes of a paragraph's words. Sentence vectors are computed once and saved in `--out`. Nothing of `squad_val` is
read.
"""

import math
import random
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from address import articles
from confidence import Asked
from numpy.typing import NDArray
from options import begin, qa_rows, stage_parser

from mbc_engine import MemoryBank, RetrieverReader, load_model
from mbc_engine.bank import Origin, StoredDocument
from mbc_engine.bank import words as word_index
from mbc_engine.model import signature

COMMON: Final = Path(__file__).parents[2] / "mbc_engine" / "bank" / "common_words.txt"
PARAGRAPHS: Final = 20_000
IN_A_BANK: Final = 400
LONGER_THAN: Final = 200  # characters; shorter lines are often headings or list items
MOST_FREQUENT: Final = 200
# Minimum questions with a word to judge it by them.
QUESTIONS: Final = 30
SHARE: Final = 0.9
WEIGHTS: Final = (0.8, 1.0, 1.2, 1.4, 1.6)


def common_words(data: Path, seed: int) -> list[str]:
    lines = [line for article in articles(data, 0) for line in article.split("\n") if len(line) > LONGER_THAN]
    chosen = random.Random(seed).sample(lines, min(PARAGRAPHS, len(lines)))
    frequent = Counter(word for line in chosen for word in word_index.words_in(line)).most_common(MOST_FREQUENT)
    return sorted({word for word, _ in frequent} | vague_words(data))


def vague_words(data: Path) -> set[str]:
    """Words that say little about which paragraph a question is about."""
    every = qa_rows(data, "squad_realigned")
    words = {text: word_index.words_in(text) for text in {row["text"] for row in every}}
    holding = Counter(word for in_text in words.values() for word in in_text)
    shared: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    possible: Counter[str] = Counter()
    for row in every:
        asked, there = word_index.words_in(row["question"]), words[row["text"]]
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
            asked = [
                (row["question"], row["answers"][0], places[row["text"]]) for row in every if row["text"] in places
            ]
            yield Asked(f"{name}-{number}", paragraphs, asked)


def _plain(text: str) -> str:
    return re.sub(r"\W+", "", text.lower())


def code_scores(model: RetrieverReader, asked: Asked, path: Path) -> NDArray[np.float32]:
    """The score of each paragraph's address for each question, [questions, paragraphs]."""
    if not path.exists():
        codes = model.memorise(asked.paragraphs)
        with MemoryBank.create(None, signature(model), model.code_shape, model.codebooks.shape[-1]) as bank:
            bank.put(
                [
                    StoredDocument(f"{place:032x}", 1, 1, (Origin(f"/{place}", "", None),), of_text[None])
                    for place, of_text in enumerate(codes)
                ]
            )
            scope = model.scope(bank)
            questions = [question for question, _, _ in asked.questions]
            tables = scope.tables(model.sentence_vectors(questions))[:, :, None]
            np.save(path, np.concatenate([sums for sums, _ in bank.scan(tables)], axis=1))
    scores: NDArray[np.float32] = np.load(path)
    return scores


def word_scores(asked: Asked) -> tuple[NDArray[np.float64], int]:
    """What each question's words add to each paragraph's score at a weight of 1, and the bytes of all words."""
    chunks = len(asked.paragraphs)
    data = word_index.write_words(word_index.words_of(asked.paragraphs), chunks)
    index = word_index.WordIndex(data, chunks)
    added = np.zeros((len(asked.questions), chunks))
    for scores, (question, _, _) in zip(added, asked.questions, strict=True):
        for holding in index.find(word_index.word_numbers(question)):
            scores[holding] += math.log((chunks + 1) / (len(holding) + 0.5))
    return added, len(data)


def found(scores: NDArray[Any], asked: Asked) -> list[float]:
    """How often the right paragraph is first, and in the first five, in percent."""
    right = np.array([about for _, _, about in asked.questions])
    ahead = (scores > scores[np.arange(len(right)), right][:, None]).sum(1)
    return [100 * float((ahead < most).mean()) for most in (1, 5)]


def main() -> None:
    parser = stage_parser(__doc__, "data", "out", "threads", "device", "seed")
    parser.add_argument("--write", action="store_true", help=f"write {COMMON.name}")
    args = begin(parser)
    if args.write:
        COMMON.write_text("".join(f"{word}\n" for word in common_words(args.data, args.seed)), encoding="utf-8")
    model = load_model("mini", device=args.device)
    assert isinstance(model, RetrieverReader)
    every = list(banks(args.data))
    codes = [code_scores(model, asked, args.out / f"{asked.name}.npy") for asked in every]
    added = [word_scores(asked) for asked in every]
    size = sum(size_of_one for _, size_of_one in added) / sum(len(asked.paragraphs) for asked in every)
    print(f"{size:.1f} bytes a paragraph; right one first / in five:")
    for weight in WEIGHTS:
        each = [
            found(scores + weight * words, asked) for scores, (words, _), asked in zip(codes, added, every, strict=True)
        ]
        print("weight {:3}: {:4.1f} / {:4.1f}".format(weight, *map(statistics.mean, zip(*each, strict=True))))


if __name__ == "__main__":
    main()
