"""A base LM learns to answer questions: what fine-tuning starts from (paper, section 4.3.2), or a reader of passages."""

import hashlib
import json
import math
import random
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from mbc_engine.atomic_write import atomic_write
from mbc_engine.datasets.layout import QAExample
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.events import Event, TuningStep, TuningValidated
from mbc_engine.lm.base import BaseLM, Targets
from mbc_engine.lm.pretrained import optimiser_tensors, restore_optimiser, state_digest, whole_state, write_tensors
from mbc_engine.methods.fine_tuned import Optimiser, make_optimiser
from mbc_engine.methods.reading import MAX_NEW_TOKENS, QUESTION_WINDOW, passage_chunker
from mbc_engine.metrics import shortest
from mbc_engine.paper.scoring import within_window

_SNAPSHOT: Final = "snapshot.safetensors"
# Its presence says that a folder holds a finished model, its content which training made it.
_FINISHED: Final = "question-training.json"
_BEST: Final = "best"
# Batches are cut from stretches of so many of them, sorted by length: little of a batch is padding, and no two epochs
# have the same batches.
_STRETCH: Final = 16


class TuningFolder:
    """The folder of a training that is not a run: its snapshot, and the settings of the training that it is of."""

    def __init__(self, path: Path, settings: str) -> None:
        self.path, self.settings = path, settings
        self.snapshot = path / _SNAPSHOT

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Inside, the folder is there, and what goes wrong with its files is a ConfigError."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            yield
        except (OSError, SafetensorError) as error:
            raise ConfigError(
                f"The training in {self.path} cannot read or write its files: {error}.",
                hint="Check the path and the room on the disk; called again, it continues from the last snapshot.",
            ) from error

    def require_same(self, settings: str) -> None:
        """Raise ConfigError if the settings found in the folder are those of another training."""
        if settings != self.settings:
            raise ConfigError(
                f"{self.path} holds a training of another base LM, on other questions or with other settings.",
                hint="Delete it to train again, or take another folder.",
            )

    def save(
        self, parameters: Mapping[str, nn.Parameter], optimiser: torch.optim.Optimizer, step: int, best_loss: float
    ) -> None:
        """Write everything that changes in a training."""
        tensors: dict[str, Tensor] = {f"model.{name}": value for name, value in parameters.items()}
        tensors |= optimiser_tensors(parameters, optimiser)
        notes = {"step": str(step), "best_loss": repr(best_loss), "settings": self.settings}
        write_tensors(self.snapshot, whole_state(tensors), notes)

    @torch.no_grad()
    def load(self, parameters: Mapping[str, nn.Parameter], optimiser: torch.optim.Optimizer) -> tuple[int, float]:
        """Restore weights and optimiser from the snapshot, if there is one; returns its step and best loss."""
        if not self.snapshot.exists():
            return 0, math.inf
        with safe_open(self.snapshot, framework="pt") as file:
            notes = file.metadata()
            self.require_same(notes["settings"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        for name, value in parameters.items():
            value.copy_(tensors[f"model.{name}"])
        restore_optimiser(tensors, parameters, optimiser)
        return int(notes["step"]), float(notes["best_loss"])


def training_digest(base: BaseLM, *examples: Sequence[QAExample]) -> str:
    """What distinguishes base LMs, by their embeddings, and sets of questions."""
    digest = hashlib.sha256()
    for part in examples:
        digest.update(json.dumps([[one.text, one.question, one.answers] for one in part]).encode())
    return state_digest(dict([next(base.named_parameters())]), digest.hexdigest())[:16]


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
    """Tune a base LM in float32 on questions and keep the best in a folder; called again, it goes on from a snapshot.

    When the last event is out, `load_base(str(folder))` opens the model; `base` itself holds the last epoch's weights.
    A folder that holds the finished model of the same training yields nothing. An interrupted training ends in the same
    weights as one that ran through. Without `validation` the last weights are kept. Setting `stop` ends it after the
    step in progress, with a snapshot.

    Args:
        reads: the document stands before its question; of one too long for the context, the chunk with the answer.

    Raises:
        ConfigError: the folder is of another training, or cannot be written.
        DataError: there are no examples.
        ModelError: the base LM cannot be tuned.
    """
    if not examples:
        raise DataError("There are no questions to train on.", hint="Name a dataset that has some.")
    settings = {
        "reads": reads,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "optimiser": optimiser,
        "seed": seed,
        "base and questions": training_digest(base, examples, validation),
    }
    tuning, finished = TuningFolder(folder, json.dumps(settings, indent=1)), folder / _FINISHED
    with tuning.opened():
        if finished.exists():
            tuning.require_same(finished.read_text())
            tuning.snapshot.unlink(missing_ok=True)  # of a kill just before it was deleted
            return
        training = _QuestionTraining(base, examples, validation, tuning, reads, batch_size, optimiser, learning_rate)
        yield from training.events(epochs, seed, snapshot_seconds, stop or threading.Event())


class _QuestionTraining:
    """One training: its data, its optimiser and where it stands."""

    def __init__(
        self,
        base: BaseLM,
        examples: Sequence[QAExample],
        validation: Sequence[QAExample],
        folder: TuningFolder,
        reads: bool,
        batch_size: int,
        optimiser: Optimiser,
        rate: float,
    ) -> None:
        if reads:  # as passages are handed over: in chunks, of which the best is read
            chunker = passage_chunker(base)
            examples, validation = within_window(examples, chunker), within_window(validation, chunker)
        self.base, self.examples, self.validation, self.folder = base, examples, validation, folder
        self.reads, self.batch_size = reads, batch_size
        self.steps_per_epoch = -(-len(examples) // batch_size)
        base.tune()
        self.parameters = dict(self.base.named_parameters())
        self.optimiser = make_optimiser(optimiser, self.parameters.values(), rate)
        self.step, self.best_loss = folder.load(self.parameters, self.optimiser)

    def events(self, epochs: int, seed: int, snapshot_seconds: float, stop: threading.Event) -> Iterator[Event]:
        """All events until the model is in the folder or a stop is asked for."""
        saved = time.monotonic()
        for epoch in range(self.step // self.steps_per_epoch, epochs):
            batches = batches_by_length(self.examples, self.batch_size, seed=seed * 1_000_003 + epoch, reads=self.reads)
            for batch in batches[self.step - epoch * self.steps_per_epoch :]:
                yield self._step(batch, seed, epochs)
                is_over = self.step == (epoch + 1) * self.steps_per_epoch
                # An epoch's last snapshot comes after its validation, which a resumed training would skip.
                if not is_over and (stop.is_set() or time.monotonic() - saved > snapshot_seconds):
                    self.folder.save(self.parameters, self.optimiser, self.step, self.best_loss)
                    saved = time.monotonic()
                    if stop.is_set():
                        return
            validated = self._validate(epoch, is_last=epoch == epochs - 1)
            self.folder.save(self.parameters, self.optimiser, self.step, self.best_loss)
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
    def _validate(self, epoch: int, *, is_last: bool) -> TuningValidated:
        """The loss on the validation questions, by answer token; the best model so far is kept."""
        self.base.eval()
        total, tokens = 0.0, 0
        for batch in batches_by_length(self.validation, self.batch_size, seed=None, reads=self.reads):
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

    def _targets(self, batch: Sequence[QAExample]) -> Targets:
        return self.base.texts.asked(
            [example.question for example in batch],
            [shortest(example.answers) for example in batch],
            passages=[example.text for example in batch] if self.reads else None,
            question_window=QUESTION_WINDOW,
            answer_window=MAX_NEW_TOKENS,
        )

    def _keep(self) -> None:
        """Make the present weights the best; killed in the middle, the last snapshot makes them again."""
        best, new = self.folder.path / _BEST, self.folder.path / "best-new"
        shutil.rmtree(new, ignore_errors=True)
        self.base.save(new)
        shutil.rmtree(best, ignore_errors=True)
        new.rename(best)

    def _finish(self) -> None:
        """Move the best model up into the folder; killed in the middle, the rest is moved when it is called again."""
        folder = self.folder.path
        if (folder / _BEST).exists():
            for file in (folder / _BEST).iterdir():
                file.replace(folder / file.name)
            (folder / _BEST).rmdir()
        with atomic_write(folder / _FINISHED) as note:
            note.write(self.folder.settings.encode())
        self.folder.snapshot.unlink()
        self.folder.snapshot.with_suffix(".partial").unlink(missing_ok=True)  # of a kill while it was written


def batches_by_length(
    examples: Sequence[QAExample], size: int, *, seed: int | None, reads: bool
) -> list[list[QAExample]]:
    """Examples in batches of alike lengths, all but one of them full; shuffled by a seed, or all sorted without one.

    Documents count only if these are read: otherwise those about one document would make batches of their own.
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
