"""How often the right document is found: by the embedded `mini` from its codes, and by BM25 from the full text.

    python benchmarks/sources.py [--squad FILE] [--json]

The documents of a data set are taken in order, so many to a bank, and each question is asked of the bank with its own
document, as in `mbc eval --bank-size`. `routed` is mini's own read. `flat` is attention over every chunk's vectors; as
mini's codes are residual, it is asked for as `hierarchical:N` with all N chunks in one group. BM25 sees the whole text
of the same documents (`methods/word_index.py`). Nothing is answered; each document is encoded once for each size of
banks, each question once.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from mbc_engine import load_examples, load_model
from mbc_engine.datasets.example import QAExample
from mbc_engine.methods.word_index import WordIndex
from mbc_engine.model.mbc import MBC
from mbc_engine.model.reads import read
from mbc_engine.model.scoring import Memorised, memorise_documents

MODEL: Final = "mini"
NEWSWIRE: Final = "newswire:test:256"
NEWSWIRE_SIZES: Final = (64, 256)
SQUAD: Final = Path(__file__).resolve().parents[2] / "shared/data/qa/squad_val.jsonl.xz"
NAMED: Final = 5
_BATCH: Final = 32

Result = dict[str, Any]
Found = list[list[int]]  # documents for each question, best first


@dataclass(frozen=True)
class Bank:
    """Some documents with the questions about them.

    Attributes:
        model: what encoded them.
        texts: the documents.
        examples: the questions.
        questions: their vectors, [questions, T, D].
    """

    model: MBC
    texts: list[str]
    examples: list[QAExample]
    questions: Tensor

    @cached_property
    def memorised(self) -> Memorised:
        """The documents, encoded."""
        return memorise_documents(self.model, self.texts)

    @cached_property
    def right(self) -> list[int]:
        """Each question's own document."""
        place = {text: index for index, text in enumerate(self.texts)}
        return [place[example.text] for example in self.examples]

    def parts(self, size: int) -> Iterator["Bank"]:
        """Banks of `size` documents in order; a last, smaller one is left out."""
        for start in range(0, len(self.texts) - size + 1, size):
            asked = [row for row, own in enumerate(self.right) if start <= own < start + size]
            yield Bank(
                self.model,
                self.texts[start : start + size],
                [self.examples[row] for row in asked],
                self.questions[asked],
            )


@torch.no_grad()
def encode(data: str) -> Bank:
    """A data set as one bank."""
    model, examples = load_model(MODEL), load_examples(data)
    texts = list(dict.fromkeys(example.text for example in examples))
    asked = [example.question for example in examples]
    vectors = [model.questions(asked[start : start + _BATCH]) for start in range(0, len(asked), _BATCH)]
    return Bank(model, texts, examples, torch.cat(vectors))


@torch.no_grad()
def by_read(bank: Bank, mode: str) -> Found:
    """The sources of a read of mini's."""
    memorised, reader = bank.memorised, bank.model.reader()
    return [
        [int(memorised.document_of[source.chunk]) for source in own]
        for start in range(0, len(bank.questions), _BATCH)
        for own in read(mode, reader, bank.questions[start : start + _BATCH], memorised.memory, top=NAMED).sources
    ]


def by_words(bank: Bank) -> Found:
    """What BM25 finds; a document without any word of the question is not found."""
    index = WordIndex(bank.texts)
    return [index.ranking(example.question)[:NAMED] for example in bank.examples]


METHODS: Final[dict[str, Callable[[Bank], Found]]] = {
    "routed": lambda bank: by_read(bank, "routed"),
    "flat": lambda bank: by_read(bank, f"hierarchical:{max(2, len(bank.memorised.memory))}"),
    "BM25": by_words,
}


def score(banks: Sequence[Bank], method: Callable[[Bank], Found]) -> Result:
    """How often the right document is first, and among the first five, in percent."""
    ranks = [
        own.index(right) if right in own else NAMED
        for bank in banks
        for own, right in zip(method(bank), bank.right, strict=True)
    ]
    first, named = (100 * sum(rank < most for rank in ranks) / len(ranks) for most in (1, NAMED))
    return {"first": first, "in_five": named}


def measure(data: str, sizes: Sequence[int] = ()) -> list[Result]:
    """Sources in banks of some sizes.

    Args:
        data: as `mbc eval --data` takes it.
        sizes: documents to a bank; none for all documents in one.

    Returns:
        For each size `data`, `documents`, `banks`, `questions`, `code_bytes` and `text_bytes` (kept of a document, the
        mean) and `methods`: by name `first` and `in_five`.
    """
    whole = encode(data)
    shape, results = whole.model.codebook, []
    bits = shape.tokens * shape.levels * (shape.num_codes - 1).bit_length()
    for size in sizes or (len(whole.texts),):
        banks = list(whole.parts(size))
        chunks = float(np.mean([len(bank.memorised.memory) / size for bank in banks]))
        methods = {name: score(banks, method) for name, method in METHODS.items()}
        methods["chance"] = {"first": 100 / size, "in_five": 100 * min(NAMED, size) / size}
        results.append(
            {
                "data": Path(data).name,
                "documents": size,
                "banks": len(banks),
                "questions": sum(len(bank.examples) for bank in banks),
                "code_bytes": chunks * bits / 8,
                "text_bytes": float(np.mean([len(text.encode()) for text in whole.texts])),
                "methods": methods,
            }
        )
    return results


def measure_squad(path: str) -> list[Result]:
    """As `measure`, all paragraphs in one bank; without the file, nothing."""
    return measure(path) if Path(path).exists() else []


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--squad", type=Path, default=SQUAD, help="squad_val.jsonl.xz (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print what `measure` returns")
    args = parser.parse_args()
    results = measure(NEWSWIRE, NEWSWIRE_SIZES) + measure_squad(str(args.squad))
    if args.json:
        print(json.dumps(results))
        return
    if not args.squad.exists():
        print(f"squad_val is skipped: there is no {args.squad}.")
    for found in results:
        print(
            f"{found['data']}, {found['documents']} documents to a bank, {found['banks']} banks, "
            f"{found['questions']:,} questions; of a document {found['code_bytes']:.0f} bytes of codes, "
            f"{found['text_bytes']:,.0f} of text:"
        )
        for name, own in found["methods"].items():
            print(f"  {name:7} {own['first']:5.1f} % first, {own['in_five']:5.1f} % in five")


if __name__ == "__main__":
    main()
