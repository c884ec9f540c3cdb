"""Where the time to the first answer of a new process goes, with `mini`.

    python benchmarks/performance.py --only startup

Every run is a new process that times each part of `mbc ask`; the whole command is timed separately. Files are in the
page cache. Other programs running at the same time distort the figures.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from measuring import in_a_new_process, newswire

DOCUMENTS = 64
MODEL = "mini"


def make_bank(folder: str) -> list[str]:
    """Memorise generated stories; returns a question about each."""
    from mbc_engine import ingest, load_model, open_bank

    news = list(islice(newswire()["stories"]("test", DOCUMENTS, seed=3), DOCUMENTS))
    for story in news:
        Path(folder, f"{story.id}.txt").write_text(f"{story.title}. {story.text}")
    model = load_model(MODEL)
    with open_bank(model, Path(folder, "bank.mbc")) as bank:
        list(ingest(model, bank, sorted(Path(folder).glob("*.txt"))))
    return [story.questions[0][0] for story in news]


class Stages:
    """Seconds by stage; a stage that runs inside another is not counted twice.

    Args:
        began: when the process was started, in seconds since the epoch.
    """

    def __init__(self, began: float) -> None:
        self.seconds: dict[str, float] = {}
        self._last = began

    def end(self, stage: str) -> None:
        """Count the time since the last stage ended as `stage`."""
        now = time.time()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now

    def within(self, stage: str, around: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its calls timed as `stage`; the time before a call counts as `around`."""

        def timed(*arguments: Any, **options: Any) -> Any:
            self.end(around)
            result = function(*arguments, **options)
            self.end(stage)
            return result

        return timed


def ask_in_stages(began: float, bank: str, questions: list[str]) -> tuple[dict[str, float], list[float], float]:
    """Do what `mbc ask` does; returns the seconds of its stages and of each later answer, and the time it finished."""
    stages, rest = Stages(began), "rest of the model"
    import_module("mbc_cli.app")
    from mbc_cli.loading import load_model, loading
    from mbc_engine.bank import MemoryBank

    stages.end("python and command line")
    with MemoryBank.open(Path(bank), read_only=True) as memory_bank:
        stages.end("bank")
        with loading("the libraries"):
            from mbc_engine.memory import Memory
            from mbc_engine.mini import model as retriever_reader

            stages.end("our modules")
            retriever_reader.Bert = SimpleNamespace(open=stages.within("encoder", rest, retriever_reader.Bert.open))
            load_reader = stages.within("reader", "answer", retriever_reader.load_span_reader)
            retriever_reader.load_span_reader = load_reader
            model = load_model(MODEL)
            stages.end(rest)
        memory = Memory(memory_bank, model)
        stages.end("bank")
        memory.ask(questions[:1])
        stages.end("answer")
        later = []
        for question in questions[1:]:
            start = time.perf_counter()
            memory.ask([question])
            later.append(time.perf_counter() - start)
    return stages.seconds, later, time.time()


def ask_by_command(bank: Path, question: str) -> float:
    """Seconds of a whole `mbc ask`."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "mbc_cli", "ask", question, "--bank", str(bank), "--model", MODEL],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began


def spread(seconds: list[float]) -> dict[str, float]:
    """Minimum and median."""
    return {"min": min(seconds), "median": statistics.median(seconds)}


def measure(runs: int = 5, later: int = 20) -> dict[str, Any]:
    """Time the first answer in new processes, and later answers in the same ones.

    Args:
        runs: number of processes.
        later: further questions that each is asked, one at a time.

    Returns:
        `command`: the whole of `mbc ask`; `stages`: its stages by name, in order; `later_answer`: an answer once
        everything is loaded. All in seconds, each with `min` and `median`.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is not compiled at each start
    commands, stages, answers = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        bank = Path(folder, "bank.mbc")
        questions = in_a_new_process("startup", "make_bank", folder, one_thread=False)
        ask_by_command(bank, questions[0])  # reads the files into the page cache
        for _ in range(runs):
            commands.append(ask_by_command(bank, questions[0]))
            asked = (time.time(), str(bank), questions[: 1 + later])
            seconds, several, done = in_a_new_process("startup", "ask_in_stages", *asked, one_thread=False)
            ended = time.time()
            stages.append(seconds | {"end of the process": ended - done})
            answers.extend(several)
    return {
        "command": spread(commands),
        "stages": {stage: spread([run[stage] for run in stages]) for stage in stages[0]},
        "later_answer": spread(answers),
    }
