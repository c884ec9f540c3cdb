"""The tokenizer of the preset `mini`'s base LM, and its training text as one file of token ids.

    python recipes/mini/corpus.py --data ../shared/data --out build/mini

Reads Wikipedia articles, the training paragraphs and questions of the QA sets, and newswire stories of the training
world. Writes `tokenizer.json` (byte-level BPE, digits one by one) and `tokens.bin` (uint16, documents end with
<|endoftext|>, in a seeded random order). Nothing of a validation or test set is read. Done stages are skipped.
"""

import itertools
import json
import lzma
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from options import stage_parser
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from mbc_engine.datasets import newswire

END = "<|endoftext|>"
QA_SETS = ("squad_train_part", "fairytaleqa_train", "qamr_dev", "squadshifts_reddit", "squadshifts_amazon")


def wikipedia(data: Path, limit: int) -> Iterator[str]:
    """The first `limit` bytes of the Wikipedia files, an article at a time."""
    seen = 0
    for path in sorted((data / "text").glob("wikipedia-*.txt.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as file:
            for article in file.read().split("\n\n\n"):
                yield article.strip()
                seen += len(article.encode())
                if seen >= limit:
                    return


def questions(data: Path) -> Iterator[str]:
    """Each paragraph of the QA sets once, and each question with its answer as the base LM will see them."""
    for name in QA_SETS:
        texts = set()
        with lzma.open(data / "qa" / f"{name}.jsonl.xz", "rt", encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                if row["text"] not in texts:
                    texts.add(row["text"])
                    yield row["text"]
                yield asked(row["question"], min(row["answers"], key=len))


def news(count: int) -> Iterator[str]:
    """Stories of the training world and their questions."""
    for example in itertools.islice(newswire.examples(newswire.stories("train", count, seed=1)), count * 4):
        yield asked(example.question, example.answers[0])
    for story in newswire.stories("train", count, seed=2):
        yield next(newswire.examples([story])).text


def asked(question: str, answer: str) -> str:
    """A question followed by its answer in the form that training uses as the target."""
    return f"{question} {answer[:1].upper()}{answer[1:]}"


def train_tokenizer(texts: list[str], size: int) -> Tokenizer:
    """Byte-level BPE of `size` tokens; every digit stands alone, so that numbers are spelt."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\d"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[END], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def main() -> None:
    parser = stage_parser(__doc__, "data", "out", "seed")
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--wikipedia-bytes", type=int, default=60_000_000)
    parser.add_argument("--stories", type=int, default=30_000)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    texts = [
        *wikipedia(args.data, args.wikipedia_bytes),
        *questions(args.data),
        *news(args.stories),
    ]
    random.Random(args.seed).shuffle(texts)

    tokenizer_path = args.out / "tokenizer.json"
    if not tokenizer_path.exists():
        train_tokenizer(texts[::3], args.vocabulary).save(str(tokenizer_path))
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    end = tokenizer.token_to_id(END)

    tokens_path = args.out / "tokens.bin"
    if not tokens_path.exists():
        partial = tokens_path.with_suffix(".partial")
        with partial.open("wb") as file:
            for batch in (texts[start : start + 2000] for start in range(0, len(texts), 2000)):
                for encoding in tokenizer.encode_batch_fast(batch):
                    np.array([*encoding.ids, end], dtype=np.uint16).tofile(file)
        partial.rename(tokens_path)
    print(f"{tokens_path.stat().st_size // 2:,} tokens, vocabulary {tokenizer.get_vocab_size()}")


if __name__ == "__main__":
    main()
