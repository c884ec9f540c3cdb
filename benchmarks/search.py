"""Time of mini's search in a million chunks, stage by stage: the first in a new process, and later ones.

    python benchmarks/performance.py --only search

One chunk per document, with sources and text: the hardest case. Codes are random, and a few thousand texts repeat, so
that a word occurs in about as many chunks as in a bank of news.
"""

import os
import statistics
from datetime import date
from pathlib import Path
from typing import Final

import bank as banks
import numpy as np
from measuring import in_a_new_process, seconds_of

from mbc_engine import load_model
from mbc_engine.bank import MemoryBank, Selection, delete
from mbc_engine.mini.model import RetrieverReader

LAYOUT: Final = banks.BankLayout("mini", banks.MINI, banks.MINI_DIM, 1, keeps_origins=True, keeps_text=True)
CHUNKS: Final = 1 << 20
QUESTION: Final = "Who was appointed to lead the harbour authority after the storm?"
TOP: Final = 64  # documents that a search ranks
SEVERAL: Final = 16
PROCESSES: Final = 5
LATER: Final = 3  # more searches in each process

SCAN: Final = "scan the codes and rank"
STAGES: Final = ("encode the question", "whiten by codes of the bank", "look up its words", SCAN)
SELECTIONS: Final = {
    "`--since`": Selection(since=date(2001, 1, 1)),
    "`--only`": Selection(only=("news/0001/**",)),
}


def make_bank(path: str) -> None:
    """Create the bank under a temporary name first, so that an interrupted run leaves no incomplete one."""
    unfinished = Path(f"{path}.part")
    delete(unfinished)
    banks.fill_bank(unfinished, LAYOUT, CHUNKS)
    unfinished.replace(path)


def time_stages(path: str) -> dict[str, list[float]]:
    """Seconds by stage, for one search after another in this process."""
    os.environ["OMP_NUM_THREADS"] = "1"
    model = load_model("mini")
    assert isinstance(model, RetrieverReader)
    found: dict[str, list[float]] = {}
    with MemoryBank.open(Path(path), read_only=True) as bank:
        for run in range(1 + LATER):
            question = f"{QUESTION} Nobody{run}"  # another word, or what is known of them would be used
            with bank.snapshot():
                scope, weight = model.scope(bank), model.settings.word_weight
                vectors, encoding = seconds_of(
                    lambda: model.encoder.vectors([question], model.settings.question_window)  # noqa: B023 - called here
                )
                whitening = seconds_of(lambda: scope.whitening)[1]  # noqa: B023
                words, looking = seconds_of(lambda: scope.words([question], weight))  # noqa: B023
                tables = scope.tables(vectors)
                scanning = seconds_of(lambda: scope.best(tables, TOP, words))[1]  # noqa: B023
                many = np.repeat(tables, SEVERAL, axis=0)
                batch = seconds_of(lambda: scope.best(many, TOP, words * SEVERAL))[1] / SEVERAL  # noqa: B023
                stages = dict(zip(STAGES, (encoding, whitening, looking, scanning), strict=True))
                stages |= {f"{SCAN}, each of {SEVERAL} questions": batch}
                for name, selection in SELECTIONS.items():
                    stages[name] = seconds_of(lambda: model.scope(bank, selection))[1]  # noqa: B023
            for name, seconds in stages.items():
                found.setdefault(name, []).append(seconds)
    return found


def measure(folder: str) -> dict[str, dict[str, float]]:
    """Medians over processes for each stage, the first time and later; `all of it` is the sum of the stages."""
    path = Path(folder) / "banks" / f"mini-{CHUNKS}.mbc"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        in_a_new_process("search", "make_bank", str(path))
    runs = [in_a_new_process("search", "time_stages", str(path)) for _ in range(PROCESSES)]
    for run in runs:
        run["all of it"] = [sum(seconds) for seconds in zip(*(run[stage] for stage in STAGES), strict=True)]
    return {
        name: {
            "first": statistics.median(run[name][0] for run in runs),
            "later": statistics.median(seconds for run in runs for seconds in run[name][1:]),
        }
        for name in runs[0]
    }
