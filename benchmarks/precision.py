"""What 8 bits change for `mini`: answers, time and memory, with each precision in a new process.

    python benchmarks/precision.py --data ../shared/data/qa/squad_val.jsonl.xz [--questions 300]

The paragraphs are memorised with each precision and all questions searched for. Then each process answers the same
questions one after the other, from the same bank; a first one, not counted, loads the reader. *Right* is EM if every
question is answered.
"""

import argparse
import os
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measuring import growth_of, in_a_new_process, seconds_of
from numpy.typing import NDArray

from mbc_engine import Memory, load_model
from mbc_engine.answer import AskOptions
from mbc_engine.bank import MemoryBank
from mbc_engine.datasets.by_name import load_examples
from mbc_engine.datasets.examples import evenly_spaced
from mbc_engine.metrics import compare

PRECISIONS = ("float32", "auto")


def memorise(data: str, folder: str, bank: str) -> dict[str, float]:
    """Chunks a second, the peak growth of the process, and how many questions find their paragraph."""
    examples = load_examples(data)
    names = {text: f"{number}.txt" for number, text in enumerate(dict.fromkeys(example.text for example in examples))}
    for text, name in names.items():
        Path(folder, name).write_text(text, encoding="utf-8")
    with Memory(Path(folder, bank)) as memory:
        events, growth, seconds = growth_of(lambda: list(memory.add([Path(folder)])))
        ranks = []
        for start in range(0, len(examples), 64):
            some = examples[start : start + 64]
            for example, sources in zip(
                some, memory.search([one.question for one in some], with_text=False), strict=True
            ):
                found = [Path(source.path).name for source in sources]
                ranks.append(found.index(names[example.text]) if names[example.text] in found else None)
    chunks = max(getattr(event, "bank_chunks", 0) for event in events)
    first, five = ranks.count(0) / len(ranks), 1 - ranks.count(None) / len(ranks)
    return {"chunks": chunks / seconds, "growth": growth, "first": first, "five": five}


def codes(folder: str, bank: str) -> NDArray[Any]:
    with MemoryBank.open(Path(folder, bank), read_only=True) as opened:
        return np.concatenate([of_block for of_block, _ in opened.blocks()])


def answers(data: str, folder: str, reader: str, count: int) -> dict[str, Any]:
    """The answers, whether each is right, the seconds each took, and by how much the process grew."""
    first, *examples = evenly_spaced(load_examples(data), count + 1)
    always = AskOptions(min_confidence=0.0)
    with Memory(Path(folder, "float32.mbc"), load_model("mini", reader=reader)) as memory:

        def ask() -> list[tuple[str, float]]:
            memory.ask([first.question], always)
            timed = [seconds_of(partial(memory.ask, [one.question], always)) for one in examples]
            return [(answer.text or "", seconds) for (answer,), seconds in timed]

        answered, growth, _ = growth_of(ask)
    return {
        "texts": [text for text, _ in answered],
        "right": [
            compare(text, one.answers, "any").exact_match for (text, _), one in zip(answered, examples, strict=True)
        ],
        "seconds": [seconds for _, seconds in answered],
        "growth": growth,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--questions", type=int, default=300)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MBC_CODEC"] = "zstd"
        for precision in PRECISIONS:
            os.environ["MBC_PRECISION"] = precision
            found = in_a_new_process("precision", "memorise", given.data, folder, f"{precision}.mbc", one_thread=False)
            print(
                f"{precision}: {found['chunks']:.0f} chunks a second, memory {found['growth'] / 1e6:.0f} MB; found first "
                f"{found['first']:.1%}, in five {found['five']:.1%}",
                flush=True,
            )
        same = (codes(folder, "float32.mbc") == codes(folder, "auto.mbc")).mean()
        print(f"{same:.1%} of the codes are the same", flush=True)
        for reader in ("large", "small"):
            texts = []
            for precision in PRECISIONS:
                os.environ["MBC_PRECISION"] = precision
                found = in_a_new_process(
                    "precision", "answers", given.data, folder, reader, given.questions, one_thread=False
                )
                texts.append(found["texts"])
                print(
                    f"{reader}, {precision}: right {statistics.mean(found['right']):.1%}, a question "
                    f"{1000 * statistics.median(found['seconds']):.0f} ms (mean "
                    f"{1000 * statistics.mean(found['seconds']):.0f}), memory {found['growth'] / 1e6:.0f} MB",
                    flush=True,
                )
            same = statistics.mean(one == other for one, other in zip(*texts, strict=True))
            print(f"{reader}: {same:.1%} of the answers are the same", flush=True)


if __name__ == "__main__":
    main()
