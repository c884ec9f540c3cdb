"""Whether every word is found in a large bank: words and two-word phrases that stand in one chunk only.

    python benchmarks/words.py --data ../shared/data [--chunks 100000] [--queries 200]

Chunks are parts of Wikipedia's paragraphs, each a document, with random codes: words alone can find them. Prints how
often the chunk is first and among the first five, bytes of words a chunk, and the time a search and its look-up of
words take.
"""

import argparse
import hashlib
import lzma
import random
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

import numpy as np
from measuring import seconds_of

from mbc_engine import load_model
from mbc_engine.bank import MemoryBank, Origin, StoredDocument
from mbc_engine.mini.model import RetrieverReader
from mbc_engine.model import signature
from mbc_engine.text import Chunk

_CHARACTERS: Final = 900
_SHORTEST: Final = 200
_AT_ONCE: Final = 4096
_LETTERS: Final = re.compile(r"[^\W\d_]+|[^\s\w]+|\d+")


def paragraphs(data: Path) -> Iterator[str]:
    for file in sorted((data / "text").glob("wikipedia-*.txt.xz")):
        with lzma.open(file, "rt", encoding="utf-8") as lines:
            for line in lines:
                parts = (line[start : start + _CHARACTERS].strip() for start in range(0, len(line), _CHARACTERS))
                yield from (part for part in parts if len(part) > _SHORTEST)


def fill(bank: MemoryBank, texts: list[str]) -> None:
    shape, chance = bank.header.shape, np.random.default_rng(0)
    for start in range(0, len(texts), _AT_ONCE):
        documents = []
        for number, text in enumerate(texts[start : start + _AT_ONCE], start):
            codes = chance.integers(0, shape.num_codes, (1, shape.tokens, shape.levels)).astype(np.uint16)
            digest = hashlib.sha256(str(number).encode()).hexdigest()
            documents.append(
                StoredDocument(digest, 1, len(text), (Origin(f"/{number}.txt", "", None),), codes, [Chunk(text, 0)])
            )
        bank.put(documents)


def standing_once(texts: list[str], count: int) -> dict[str, list[tuple[str, int]]]:
    """Words and phrases that one text alone has, with its number."""
    found: dict[str, dict[str, int]] = {"words": {}, "phrases": {}}
    times: Counter[str] = Counter()
    for number, text in enumerate(texts):
        tokens = _LETTERS.findall(text.lower())
        words = {word for word in tokens if word.isalpha() and len(word) > 4}
        phrases = {
            " ".join(pair) for pair in pairwise(tokens) if all(word.isalpha() and len(word) > 3 for word in pair)
        }
        for kind, new in (("words", words), ("phrases", phrases)):
            times.update(new)
            found[kind] |= dict.fromkeys(new, number)
    chance = random.Random(7)
    return {
        kind: chance.sample(sorted(item for item in numbers.items() if times[item[0]] == 1), count)
        for kind, numbers in found.items()
    }


def main() -> None:
    """Make the bank in memory, and search it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    args = parser.parse_args()
    model = load_model("mini")
    assert isinstance(model, RetrieverReader)
    texts = list(islice(paragraphs(args.data), args.chunks))
    width = model.codebooks.shape[-1]
    with MemoryBank.create(None, signature(model), model.code_shape, width, keeps_text=True) as bank:
        fill(bank, texts)
        print(f"{len(texts):,} chunks, {bank.sizes().words / len(texts):.1f} bytes of words each", flush=True)
        with bank.snapshot():
            scope = model.scope(bank)
            for kind, queries in standing_once(texts, args.queries).items():
                ranks, searching, looking = [], [], []
                for query, number in queries:
                    began = time.perf_counter()
                    hits = model.search([query], scope).chunks[0][:5]
                    searching.append(time.perf_counter() - began)
                    looking.append(seconds_of(lambda: scope.words([query], 1.0))[1])  # noqa: B023 - called here
                    chunks = [hit.chunk for hit in hits]
                    ranks.append(chunks.index(number) if number in chunks else len(chunks))
                first, five = (100 * sum(rank < most for rank in ranks) / len(ranks) for most in (1, 5))
                times = " and ".join(f"{1e3 * statistics.median(each):.0f} ms" for each in (searching, looking))
                missed = ", ".join(query for (query, _), rank in zip(queries, ranks, strict=True) if rank >= 5)
                print(f"{kind}: first {first:.1f}%, in five {five:.1f}%; search and look-up {times}; missed: {missed}")


if __name__ == "__main__":
    main()
