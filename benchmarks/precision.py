"""What 8 bits change for `mini`'s readers: answers, time and memory, with each precision in a new process.

    python benchmarks/precision.py --data ../shared/data/qa/squad_val.jsonl.xz [--questions 300]

The paragraphs are memorised once. Each process answers the same questions one after the other; a first one, not
counted, loads the reader. *Right* is EM if every question is answered.
"""

import argparse
import os
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from measuring import growth_of, in_a_new_process, seconds_of

from mbc_engine import Memory, load_model
from mbc_engine.answer import AskOptions
from mbc_engine.datasets.by_name import load_examples
from mbc_engine.datasets.layout import evenly_spaced
from mbc_engine.metrics import compare


def memorise(data: str, folder: str) -> None:
    for number, text in enumerate(dict.fromkeys(example.text for example in load_examples(data))):
        Path(folder, f"{number}.txt").write_text(text, encoding="utf-8")
    with Memory(Path(folder, "bank.mbc")) as memory:
        for _ in memory.add([Path(folder)]):
            pass


def answers(data: str, folder: str, reader: str, count: int) -> dict[str, Any]:
    """The answers, whether each is right, the seconds each took, and by how much the process grew."""
    first, *examples = evenly_spaced(load_examples(data), count + 1)
    always = AskOptions(min_confidence=0.0)
    with Memory(Path(folder, "bank.mbc"), load_model("mini", reader=reader)) as memory:

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
        in_a_new_process("precision", "memorise", given.data, folder, one_thread=False)
        for reader in ("large", "small"):
            texts = []
            for precision in ("float32", "auto"):
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
