"""Training speed: our step and the naive way's (`naive.py`), alternating on the same model.

    python benchmarks/performance.py --data ../shared/data --only training

A pass is forward and backward over a share of the preset's batch, through the engine's own objective, including code
usage and resets; a step is clipping and Adam, once for all passes of a batch. Both are timed each time, which gives the
examples per second for the preset's batch. The texts are SQuAD's: each pass takes as many questions as the preset's,
about as many documents. Before anything is timed, both ways must have the same loss.
"""

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from naive import DOCUMENT, QUESTION, NaiveLM, NaiveObjective, PaddedStates
from shapes import SHAPES, examples, random_model

from mbc_engine.config import TrainingSettings
from mbc_engine.paper.builder import trainable_parameters
from mbc_engine.paper.model import MBC
from mbc_engine.training.data import TextStates, TrainingSet
from mbc_engine.training.objective import Objective
from mbc_engine.training.processes import processes_on

OURS: Final = "ours"
NAIVE: Final = "naive"
ROUNDS: Final = 3
# Padding a text changes its sums by rounding in float32, and by more with bf16 weights.
CLOSE: Final = {torch.float32: 1e-3, torch.bfloat16: 5e-2}

Result = dict[str, Any]


class Trainee:
    """A model, its optimiser, and the objectives of both ways."""

    def __init__(self, model: MBC, data: TrainingSet, settings: TrainingSettings, device: str) -> None:
        self.model, self.data, self.settings, self.device = model, data, settings, torch.device(device)
        if device == "cpu":
            model.base.model.set_attn_implementation("eager")  # as the trainer does
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.bases = {OURS: model.base, NAIVE: NaiveLM(model.base.model, model.base.tokenizer)}
        for parameter in trained:
            parameter.requires_grad_(True)  # creating a base LM freezes it, KV-LoRA included
        documents, questions = model.documents, model.questions
        processes = processes_on(device)
        self.objectives = {
            OURS: Objective(
                model,
                data,
                TextStates(documents, data.documents),
                TextStates(questions, data.questions),
                settings,
                processes,
            ),
            NAIVE: NaiveObjective(
                model,
                data,
                PaddedStates(documents, data.documents, DOCUMENT),
                PaddedStates(questions, data.questions, QUESTION),
                settings,
                processes,
            ),
        }
        self.optimizer = torch.optim.Adam(trained, lr=settings.learning_rate)
        self.generator = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def loss(self, way: str, chosen: list[int]) -> float:
        """The loss of a batch, without dropout."""
        self.model.eval().base = self.bases[way]
        total: float = self.objectives[way](self.data.batch(chosen), self.generator).total.item()
        return total

    def run_pass(self, way: str, chosen: list[int]) -> Result:
        """Run a pass: its `seconds` and, on a GPU, its peak memory in `bytes`."""
        self.model.base = self.bases[way]
        self.model.train()
        began = self._now()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"):
            losses = self.objectives[way](self.data.batch(chosen), self.generator)
        assert losses.quantized is not None
        self.model.codebook.update_usage(losses.quantized.codes)
        self.model.codebook.reset_dead(losses.quantized.residuals, self.generator)
        (losses.total / self.settings.accumulate).backward()
        return {"seconds": self._now() - began, "bytes": self._peak()}

    def step(self) -> Result:
        """Clip and step Adam; returns the same as `run_pass`."""
        began = self._now()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return {"seconds": self._now() - began, "bytes": self._peak()}

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def _peak(self) -> int | None:
        """Peak memory in bytes since the last call; None on a CPU."""
        if self.device.type != "cuda":
            return None
        most = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        return most


def measure(
    data: str,
    shape: str,
    device: str,
    precision: str,
    rounds: int = ROUNDS,
    ways: Sequence[str] = (OURS, NAIVE),
    accumulate: int | None = None,
) -> Result:
    """Alternate passes and steps of each way; medians.

    Args:
        data: the folder of texts and tokenizers, see `shapes.py`.
        shape, device, precision: what to measure.
        rounds: passes of each way.
        ways: one or both.
        accumulate: passes per batch, None for the preset's; the naive way needs a GB of memory per example.

    Raises:
        ValueError: the ways' losses differ.
    """
    model_shape, config = SHAPES[shape], SHAPES[shape].config
    other = {"precision": precision, "accumulate": accumulate or config.training.accumulate}
    settings = config.training.model_copy(update=other)
    model = random_model(model_shape, device, Path(data))
    found = examples(Path(data), config.model.documents.window, model.documents.tokenizer)
    size = settings.batch_size // settings.accumulate
    training_set = TrainingSet(found[:: max(1, len(found) // (size * rounds))][: size * rounds])
    trainee = Trainee(model, training_set, settings, device)
    losses = [trainee.loss(way, [0, 1]) for way in ways]
    if max(losses) - min(losses) > CLOSE[model.base.model.dtype] * abs(losses[0]):
        raise ValueError(f"The losses of the two ways differ: {losses}.")
    taken: dict[str, list[Result]] = {way: [] for way in ways}
    steps = []
    for turn in range(rounds):
        chosen = list(range(turn * size, (turn + 1) * size))
        for way in ways:
            taken[way].append(trainee.run_pass(way, chosen))
            steps.append(trainee.step())
    passes = {way: _median(passed) for way, passed in taken.items()}
    step = _median(steps)
    seconds = {way: settings.accumulate * passed["seconds"] + step["seconds"] for way, passed in passes.items()}
    return {
        "title": model_shape.title,
        "device": device,
        "precision": precision,
        "threads": torch.get_num_threads(),
        "batch": settings.batch_size,
        "accumulate": settings.accumulate,
        "of_preset": config.training.accumulate,
        "tokens": statistics.mean(map(len, model.documents.tokenizer(training_set.documents)["input_ids"])),
        "trainable": trainable_parameters(model),
        "rounds": rounds,
        "losses": losses,
        "passes": passes,
        "step": step,
        "rates": {way: settings.batch_size / each for way, each in seconds.items()},
    }


def _median(several: Sequence[Result]) -> Result:
    """Median seconds, maximum bytes."""
    return {
        "seconds": statistics.median(measured["seconds"] for measured in several),
        "bytes": max((measured["bytes"] for measured in several if measured["bytes"] is not None), default=None),
    }
