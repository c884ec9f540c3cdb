"""Training a base LM on questions, as the start of fine-tuning (paper, section 4.3.2) or as a passage reader."""

import math
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import torch
from safetensors import safe_open
from torch import Tensor, nn

from mbc_engine.datasets.layout import QAExample
from mbc_engine.errors import DataError
from mbc_engine.events import Event, TuningStep, TuningValidated
from mbc_engine.lm.base import BaseLM, Targets
from mbc_engine.lm.pretrained import gathered_state, optimiser_tensors, restore_optimiser, write_tensors
from mbc_engine.methods.fine_tuned import Optimiser, make_optimiser
from mbc_engine.methods.method import QuestionSettings
from mbc_engine.methods.reading import MAX_NEW_TOKENS, QUESTION_WINDOW, passage_chunker
from mbc_engine.metrics import shortest
from mbc_engine.paper.scoring import within_window

SNAPSHOT: Final = "snapshot.safetensors"
# Batches are cut from runs of this many batches' examples, sorted by length: little of a batch is padding, and no two
# epochs have the same batches.
_STRETCH: Final = 16
# Tokens whose gradients are computed at once: 16 long passages of SQuAD together took 16 GB with SmolLM2-135M.
_TOKENS: Final = 2048


def save_snapshot(
    folder: Path, parameters: Mapping[str, nn.Parameter], optimiser: torch.optim.Optimizer, step: int, best_loss: float
) -> None:
    """Write everything that changes during training."""
    tensors: dict[str, Tensor] = {f"model.{name}": value for name, value in parameters.items()}
    tensors |= optimiser_tensors(parameters, optimiser)
    write_tensors(folder / SNAPSHOT, gathered_state(tensors), {"step": str(step), "best_loss": repr(best_loss)})


@torch.no_grad()
def load_snapshot(
    folder: Path, parameters: Mapping[str, nn.Parameter], optimiser: torch.optim.Optimizer
) -> tuple[int, float]:
    """Restore weights and optimiser from the snapshot, if there is one; returns its step and best loss."""
    if not (folder / SNAPSHOT).exists():
        return 0, math.inf
    with safe_open(folder / SNAPSHOT, framework="pt") as file:
        notes, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name, value in parameters.items():
        value.copy_(tensors[f"model.{name}"])
    restore_optimiser(tensors, parameters, optimiser)
    return int(notes["step"]), float(notes["best_loss"])


def train_on_questions(
    base: BaseLM,
    examples: Sequence[QAExample],
    validation: Sequence[QAExample],
    folder: Path,
    settings: QuestionSettings,
    *,
    reads: bool = False,
    optimiser: Optimiser = "adam",
    seed: int = 0,
    snapshot_seconds: float = 600,
    stop: threading.Event | None = None,
) -> Iterator[Event]:
    """Tune a base LM in float32 on questions and save the best weights in a folder.

    If it `reads`, each question follows its document, or the chunk with the answer of one too long for the context.
    `load_base(str(folder))` loads the result; `base` itself holds the last epoch's weights. Without `validation` the
    last weights are saved. Setting `stop` ends it after the current step with a snapshot; called again with the same
    arguments, it ends with the same weights as an uninterrupted run. Raises DataError without examples, ModelError if
    the base LM cannot be tuned.
    """
    if not examples:
        raise DataError("There are no questions to train on.", hint="Name a dataset that has some.")
    folder.mkdir(parents=True, exist_ok=True)
    if reads:  # as when answering, where the best chunk is read
        chunker = passage_chunker(base)
        examples, validation = within_window(examples, chunker), within_window(validation, chunker)
    base.tune()
    updates = make_optimiser(optimiser, base.parameters(), settings.learning_rate)
    limits = snapshot_seconds, stop or threading.Event()
    yield from _epochs(base, examples, validation, folder, settings, updates, reads, seed * 1_000_003, *limits)


def _epochs(
    base: BaseLM,
    examples: Sequence[QAExample],
    validation: Sequence[QAExample],
    folder: Path,
    settings: QuestionSettings,
    optimiser: torch.optim.Optimizer,
    reads: bool,
    seed: int,
    snapshot_seconds: float,
    stop: threading.Event,
) -> Iterator[Event]:
    size, parameters = settings.batch_size, dict(base.named_parameters())
    steps_per_epoch = -(-len(examples) // size)
    step, best_loss = load_snapshot(folder, parameters, optimiser)
    saved = time.monotonic()
    for epoch in range(step // steps_per_epoch, settings.epochs):
        batches = batches_by_length(examples, size, seed=seed + epoch, reads=reads)
        for batch in batches[step - epoch * steps_per_epoch :]:
            began = time.monotonic()
            torch.manual_seed(seed + step)  # the same dropout whenever this step is run
            loss = add_gradients(base.train(), _targets(base, batch, reads), settings.precision)
            optimiser.step()
            optimiser.zero_grad()
            step += 1
            speed = len(batch) / (time.monotonic() - began)
            yield TuningStep(step, settings.epochs * steps_per_epoch, round(loss, 5), round(speed, 2))
            is_over = step == (epoch + 1) * steps_per_epoch
            # An epoch's last snapshot is saved after its validation, which a resumed training would otherwise skip.
            if not is_over and (stop.is_set() or time.monotonic() - saved > snapshot_seconds):
                save_snapshot(folder, parameters, optimiser, step, best_loss)
                saved = time.monotonic()
                if stop.is_set():
                    return
        is_last = epoch == settings.epochs - 1
        validated = _validation_loss(base, batches_by_length(validation, size, seed=None, reads=reads), reads)
        is_best = is_last if validated is None else validated < best_loss
        if is_best:
            base.save(folder)  # if killed meanwhile, resuming from the last snapshot repeats this
        if validated is not None:
            best_loss = min(validated, best_loss)
        save_snapshot(folder, parameters, optimiser, step, best_loss)
        yield TuningValidated(step, epoch, None if validated is None else round(validated, 5), is_best)
        if stop.is_set() and not is_last:
            return
    (folder / SNAPSHOT).unlink()


def add_gradients(base: BaseLM, targets: Targets, precision: str) -> float:
    """Add the gradients of the mean loss of a batch, part by part, and return the loss."""
    total, count = 0.0, len(targets.targets)
    for rows, part in targets.by_length(len(targets.ids), _TOKENS):
        with torch.autocast(base.model.device.type, torch.bfloat16, enabled=precision == "bf16"):
            loss = base.loss(base.no_prefix(len(rows)), part) * (len(part.targets) / count)
        loss.backward()
        total += loss.item()
    return total


@torch.no_grad()
def _validation_loss(base: BaseLM, batches: Sequence[Sequence[QAExample]], reads: bool) -> float | None:
    base.eval()
    total, tokens = 0.0, 0
    for batch in batches:
        targets = _targets(base, batch, reads)
        count = int(targets.target_mask.sum())
        total += base.loss(base.no_prefix(len(batch)), targets).item() * count
        tokens += count
    return total / tokens if tokens else None


def _targets(base: BaseLM, batch: Sequence[QAExample], reads: bool) -> Targets:
    return base.prompt_tokenizer.question_answer_targets(
        [example.question for example in batch],
        [shortest(example.answers) for example in batch],
        passages=[example.text for example in batch] if reads else None,
        question_window=QUESTION_WINDOW,
        answer_window=MAX_NEW_TOKENS,
    )


def batches_by_length(
    examples: Sequence[QAExample], size: int, *, seed: int | None, reads: bool
) -> list[list[QAExample]]:
    """Batches of examples of similar length, all but one of them full; shuffled by a seed, or sorted without one."""

    def length(example: QAExample) -> int:  # counting documents that are not read would batch questions on the same one
        return len(example.question) + (len(example.text) if reads else 0)

    order = [*examples]
    stretch = len(order)
    if seed is not None:
        random.Random(seed).shuffle(order)
        stretch = size * _STRETCH
    batches = []
    for start in range(0, len(order), max(1, stretch)):
        alike = sorted(order[start : start + stretch], key=length)
        batches += [alike[first : first + size] for first in range(0, len(alike), size)]
    if seed is not None:
        random.Random(seed).shuffle(batches)
    return batches
