"""The folder of a tuning: it belongs to one training, and what goes wrong with its files is said.

A tuning's state in one file, replaced atomically: weights, their optimiser's state, and notes on where it stands.

A base LM learns to answer questions: what fine-tuning starts from (paper, section 4.3.2), or a reader of passages.
"""

import hashlib
import json
import math
import random
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from mbc_engine.atomic_write import atomic_write
from mbc_engine.datasets.layout import QAExample
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.events import Event, TuningStep, TuningValidated
from mbc_engine.lm.base import BaseLM
from mbc_engine.lm.pretrained import state_digest, write_tensors
from mbc_engine.lm.texts import Targets
from mbc_engine.methods.fine_tuned import Optimiser, make_optimiser
from mbc_engine.methods.reading import MAX_NEW_TOKENS, QUESTION_WINDOW, passage_chunker
from mbc_engine.metrics import shortest
from mbc_engine.paper.scoring import within_window


@contextmanager
def tuning_folder(folder: Path) -> Iterator[None]:
    """A folder, made where it is not there, to work in.

    Raises:
        ConfigError: it cannot be read or written, be it for want of room.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"The training in {folder} cannot read or write its files: {error}.",
            hint="Check the path and the room on the disk; called again, it goes on from the last snapshot.",
        ) from error


def require_same(folder: Path, told: str, settings: str, *, otherwise: str) -> None:
    """Make sure that a folder is of this training.

    Args:
        folder: which.
        told: what it says it was begun with.
        settings: what this training is begun with.
        otherwise: what it holds if it is of another.

    Raises:
        ConfigError: it is of another.
    """
    if told != settings:
        raise ConfigError(f"{folder} holds {otherwise}.", hint="Delete it to train again, or take another folder.")


@dataclass(frozen=True)
class Noted:
    """What a snapshot notes beside its tensors.

    Attributes:
        step: optimiser steps done.
        best_loss: the best validated loss so far; infinite before the first.
        settings: what the tuning was begun with; another cannot go on from here.
    """

    step: int
    best_loss: float
    settings: str


def save_tuning(
    path: Path, parameters: Mapping[str, nn.Parameter], optimiser: torch.optim.Optimizer, noted: Noted
) -> None:
    """Write everything that changes in a tuning.

    Args:
        path: where.
        parameters: what learns, by name, in the optimiser's order.
        optimiser: theirs.
        noted: where the tuning stands.
    """
    names = list(parameters)
    tensors = {f"model.{name}": value.detach() for name, value in parameters.items()}
    for place, state in optimiser.state_dict()["state"].items():
        # Adafactor counts its steps in a plain number.
        tensors |= {f"optimiser.{names[place]}.{key}": torch.as_tensor(value) for key, value in state.items()}
    on_host = {name: value.cpu().contiguous() for name, value in tensors.items()}
    told = {"step": str(noted.step), "best_loss": repr(noted.best_loss), "settings": noted.settings}
    write_tensors(path, on_host, told)


def noted_in(path: Path) -> Noted:
    """What a snapshot notes."""
    with safe_open(path, framework="pt") as file:
        told = file.metadata()
    return Noted(int(told["step"]), float(told["best_loss"]), told["settings"])


@torch.no_grad()
def load_tuning(path: Path, parameters: Mapping[str, nn.Parameter], optimiser: torch.optim.Optimizer) -> None:
    """Restore weights and optimiser."""
    places = {name: place for place, name in enumerate(parameters)}
    state: dict[int, dict[str, Tensor | int]] = {}
    with safe_open(path, framework="pt") as file:
        for told in file.keys():  # noqa: SIM118
            kind, name = told.split(".", 1)
            value = file.get_tensor(told)
            if kind == "model":
                parameters[name].copy_(value)
            else:
                name, key = name.rsplit(".", 1)
                is_count = not value.is_floating_point()
                state.setdefault(places[name], {})[key] = int(value) if is_count else value
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


# Tells by its presence that a folder holds a finished model, and by its content which training made it.
_FINISHED: Final = "question-training.json"
_SNAPSHOT: Final = "snapshot.safetensors"
_BEST: Final = "best"
_ANOTHER: Final = "another base LM, or one trained on other questions or with other settings"
# Batches are cut from stretches of so many of them, sorted by length: little of a batch is padding, and no two epochs
# have the same batches.
_STRETCH: Final = 16


def train_on_questions(
    base: BaseLM,
    examples: Sequence[QAExample],
    validation: Sequence[QAExample],
    folder: Path,
    *,
    reads: bool,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    optimiser: Optimiser = "adam",
    seed: int = 0,
    snapshot_seconds: float = 600,
    stop: threading.Event | None = None,
) -> Iterator[Event]:
    """Tune a base LM on questions and keep the best in a folder; called again, it goes on from the last snapshot.

    When the last event is out, `load_base(str(folder))` opens the model; `base` itself holds the last epoch's weights.
    A folder that holds the finished model of the same training yields nothing. An interrupted training ends in the same
    weights as one that ran through.

    Args:
        base: what is tuned, in float32; as it was first, also when the training goes on.
        examples: what to train on, against the shortest answer.
        validation: what is validated on after each epoch; may be empty, then the last weights are kept.
        folder: gets the model.
        reads: the document stands before its question; of one that is too long for the context, the chunk with the
            answer.
        epochs: passes over the examples.
        batch_size: questions of a step.
        learning_rate: constant.
        optimiser: adam or adafactor.
        seed: of the order and of dropout.
        snapshot_seconds: how often a snapshot is taken inside an epoch.
        stop: set it to end after the step in progress, with a snapshot.

    Raises:
        ConfigError: the folder is of another training, or cannot be written.
        DataError: there are no examples.
        ModelError: the base LM cannot be tuned.
    """
    if not examples:
        raise DataError("There are no questions to train on.", hint="Name a dataset that has some.")
    told = {
        "reads": reads,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "optimiser": optimiser,
        "seed": seed,
        "base": state_digest(dict([next(base.named_parameters())])),  # its embeddings
        "examples": _digest(examples),
        "validation": _digest(validation),
    }
    settings = json.dumps(told, indent=1)
    with tuning_folder(folder):
        if not _is_finished(folder, settings):
            training = _QuestionTraining(base, examples, validation, folder, settings, reads, batch_size)
            training.begin(optimiser, learning_rate)
            yield from training.events(epochs, seed, snapshot_seconds, stop or threading.Event())


def _is_finished(folder: Path, settings: str) -> bool:
    """Whether a folder holds the finished model of this training; raises ConfigError if it is another's."""
    if not (folder / _FINISHED).exists():
        return False
    require_same(folder, (folder / _FINISHED).read_text(), settings, otherwise=_ANOTHER)
    (folder / _SNAPSHOT).unlink(missing_ok=True)  # of a kill just before it was deleted
    return True


class _QuestionTraining:
    """One training: its data, its optimiser and where it stands."""

    def __init__(
        self,
        base: BaseLM,
        examples: Sequence[QAExample],
        validation: Sequence[QAExample],
        folder: Path,
        settings: str,
        reads: bool,
        batch_size: int,
    ) -> None:
        if reads:  # as passages are handed over: in chunks, of which the best is read
            chunker = passage_chunker(base)
            examples, validation = within_window(examples, chunker), within_window(validation, chunker)
        self.base, self.examples, self.validation = base, examples, validation
        self.folder, self.settings = folder, settings
        self.reads, self.batch_size = reads, batch_size
        self.steps_per_epoch = -(-len(examples) // batch_size)
        self.step, self.best_loss = 0, math.inf

    def begin(self, optimiser: Optimiser, rate: float) -> None:
        """Start, or take up where a snapshot stands."""
        self.base.tune()
        self.parameters = dict(self.base.named_parameters())
        self.optimiser = make_optimiser(optimiser, self.parameters.values(), rate)
        snapshot = self.folder / _SNAPSHOT
        if snapshot.exists():
            noted = noted_in(snapshot)
            require_same(self.folder, noted.settings, self.settings, otherwise=_ANOTHER)
            load_tuning(snapshot, self.parameters, self.optimiser)
            self.step, self.best_loss = noted.step, noted.best_loss

    def events(self, epochs: int, seed: int, snapshot_seconds: float, stop: threading.Event) -> Iterator[Event]:
        """Everything that happens, until the model stands in the folder or a stop is asked for."""
        saved = time.monotonic()
        for epoch in range(self.step // self.steps_per_epoch, epochs):
            batches = self._batches(self.examples, seed=seed * 1_000_003 + epoch)
            for batch in batches[self.step - epoch * self.steps_per_epoch :]:
                yield self._step(batch, seed, epochs)
                is_over = self.step == (epoch + 1) * self.steps_per_epoch
                # An epoch's last snapshot comes after its validation, which a resumed training would skip.
                if not is_over and (stop.is_set() or time.monotonic() - saved > snapshot_seconds):
                    self._snapshot()
                    saved = time.monotonic()
                    if stop.is_set():
                        return
            validated = self._validated(epoch, is_last=epoch == epochs - 1)
            self._snapshot()
            yield validated
            if stop.is_set() and epoch < epochs - 1:
                return
        self._finish()

    def _step(self, batch: list[QAExample], seed: int, epochs: int) -> TuningStep:
        began = time.monotonic()
        torch.manual_seed(seed * 1_000_003 + self.step)  # dropout is the same whenever this step is done
        self.base.train()
        loss = self.base.loss(self.base.no_prefix(len(batch)), self._targets(batch))
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.step += 1
        speed = len(batch) / (time.monotonic() - began)
        return TuningStep(self.step, epochs * self.steps_per_epoch, round(loss.item(), 5), round(speed, 2))

    @torch.no_grad()
    def _validated(self, epoch: int, *, is_last: bool) -> TuningValidated:
        """The loss on the validation questions, by answer token; the best model so far is kept."""
        self.base.eval()
        total, tokens = 0.0, 0
        for batch in self._batches(self.validation, seed=None):
            targets = self._targets(batch)
            count = int(targets.target_mask.sum())
            total += self.base.loss(self.base.no_prefix(len(batch)), targets).item() * count
            tokens += count
        loss = total / tokens if tokens else None
        is_best = is_last if loss is None else loss < self.best_loss
        if is_best:
            self._keep()
        if loss is not None:
            self.best_loss = min(loss, self.best_loss)
        return TuningValidated(self.step, epoch, None if loss is None else round(loss, 5), is_best)

    def _batches(self, examples: Sequence[QAExample], *, seed: int | None) -> list[list[QAExample]]:
        return batches_by_length(examples, self.batch_size, seed=seed, reads=self.reads)

    def _targets(self, batch: Sequence[QAExample]) -> Targets:
        return self.base.texts.asked(
            [example.question for example in batch],
            [shortest(example.answers) for example in batch],
            passages=[example.text for example in batch] if self.reads else None,
            question_window=QUESTION_WINDOW,
            answer_window=MAX_NEW_TOKENS,
        )

    def _snapshot(self) -> None:
        noted = Noted(self.step, self.best_loss, self.settings)
        save_tuning(self.folder / _SNAPSHOT, self.parameters, self.optimiser, noted)

    def _keep(self) -> None:
        """Make the present weights the best; killed in the middle, the last snapshot makes them again."""
        best, new = self.folder / _BEST, self.folder / "best-new"
        shutil.rmtree(new, ignore_errors=True)
        self.base.save(new)
        shutil.rmtree(best, ignore_errors=True)
        new.rename(best)

    def _finish(self) -> None:
        """Move the best model up into the folder; killed in the middle, the rest is moved when it is called again."""
        best = self.folder / _BEST
        if best.exists():
            for file in best.iterdir():
                file.replace(self.folder / file.name)
            best.rmdir()
        with atomic_write(self.folder / _FINISHED) as note:
            note.write(self.settings.encode())
        (self.folder / _SNAPSHOT).unlink()
        (self.folder / _SNAPSHOT).with_suffix(".partial").unlink(missing_ok=True)  # of a kill while it was written


def batches_by_length(
    examples: Sequence[QAExample], size: int, *, seed: int | None, reads: bool
) -> list[list[QAExample]]:
    """Examples in batches of alike lengths, all but one of them full; shuffled by a seed, or all sorted without one.

    Lengths are those of questions, with their documents only if these are read: otherwise the questions of a document,
    which are as long in that, would make batches of one document each.
    """

    def length(example: QAExample) -> int:
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


def _digest(examples: Sequence[QAExample]) -> str:
    """What tells sets of questions apart."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(json.dumps([example.text, example.question, example.answers]).encode())
    return digest.hexdigest()[:16]
