"""The training loop (paper, algorithm 1) as a generator of events; resuming is bit-identical."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import torch
from accelerate import Accelerator
from accelerate.tracking import get_available_trackers

from mbc_engine import events
from mbc_engine.config import Config, read_paper_config
from mbc_engine.datasets.examples import QAExample, digest, evenly_spaced
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.lm.pretrained import checkpoint_layers, is_fast_in_bf16
from mbc_engine.machine import Throttle
from mbc_engine.names import CONFIG
from mbc_engine.paper.builder import build, load_pretrained, trainable_parameters
from mbc_engine.paper.checkpoint import load_into
from mbc_engine.paper.model import compile_parts
from mbc_engine.paper.scoring import within_window
from mbc_engine.runs import MODEL
from mbc_engine.runs.event_log import EventLog
from mbc_engine.runs.training_runs import COMMAND, EVENTS, SNAPSHOT, TRACKED, is_stop_requested, write_usage
from mbc_engine.training import run_files
from mbc_engine.training.data import Batch, TextStates, TrainingSet
from mbc_engine.training.objective import Objective, adam, learning_rate, mean_losses, optimiser_step
from mbc_engine.training.processes import Processes, processes_on
from mbc_engine.training.warm_start import (
    fit_centring,
    fit_codebook,
    fit_value_scale,
    require_enough,
    start_from_pca,
    validate,
)

# Code usage is written once a second at most. Writing waits for the disk, and may take at most this share of the time.
_USAGE_SECONDS: Final = 1.0
_USAGE_SHARE: Final = 0.01


def train(
    config: Config,
    examples: Sequence[QAExample],
    validation: Sequence[QAExample],
    run: Path,
    *,
    cache: Path,
    resume: bool = False,
    start: Path | None = None,
    device: str = "cpu",
    trackers: Sequence[str] = (),
    command: str = "",
    stop: threading.Event | None = None,
) -> Iterator[events.Event]:
    """Train a model and keep the one with the best validation loss in `run/model`; without `validation`, the last one.

    Training stops between steps if `request_stop` asks for it. All processes started by `accelerate launch`
    call this with the same arguments; the main one writes and yields events, the others yield nothing.

    States of frozen encoders are cached in `cache`, training starts from the weights in the model folder `start`, and
    `trackers` are accelerate's names, such as tensorboard; `command` is written into the run's folder, if there is one.
    Setting `stop` ends training after the step in progress.

    Raises ConfigError if the run exists and `resume` is False, settings are incompatible or `start` is unsuitable, a
    tracker is not installed, or the run's files cannot be written; DataError if there are no examples, or others than
    before; ModelError if a pretrained part is missing.
    """
    require_trackers(trackers)
    if start is not None:
        read_paper_config(start / CONFIG)
    if not resume:
        run_files.require_no_run(run)  # before any process can write there
    processes = processes_on(device, trackers=trackers, folder=run / TRACKED)
    config = _with_precision(config, processes.device)
    training = _Training(config, examples, validation, run, cache, start, processes, stop)
    accelerator = processes.accelerator
    if not processes.is_main:
        for _ in training.all_events(None):
            pass
        accelerator.end_training()
        return
    with ExitStack() as opened:
        opened.enter_context(run_files.lock_run(run))
        if not resume:
            run_files.require_no_run(run)  # one may have ended while this one's model was loaded
        log = opened.enter_context(closing(EventLog(run / EVENTS)))
        (run / CONFIG).write_text(config.to_toml())
        if command:
            (run / COMMAND).write_text(command)
        settings = _dotted(config.model_dump())
        accelerator.init_trackers(run.name, config=settings, init_kwargs={"wandb": {"dir": str(run)}})
        try:
            for event in training.all_events(log):
                log.append(event)
                _track(accelerator, event)
                yield event
        finally:
            accelerator.end_training()


def _with_precision(config: Config, device: torch.device) -> Config:
    """The settings that a run is recorded with, and resumed with anywhere: with the precision that is fast here."""
    if config.training.precision != "auto":
        return config
    precision = "bf16" if is_fast_in_bf16(device) else "float32"
    return config.model_copy(update={"training": config.training.model_copy(update={"precision": precision})})


def require_trackers(names: Sequence[str]) -> None:
    """Raise ConfigError if a tracker is unknown or not installed."""
    available = sorted(str(name) for name in get_available_trackers())
    for name in names:
        if name not in available:
            raise ConfigError(
                f"There is no tracker {name!r} here.",
                hint=f"Installed: {', '.join(available) or 'none'}; `pip install tensorboardX` adds tensorboard, "
                "`pip install wandb` adds wandb.",
            )


def _track(accelerator: Accelerator, event: events.Event) -> None:
    if isinstance(event, events.TrainStep | events.Validated):
        group = "train" if isinstance(event, events.TrainStep) else "validation"
        figures = {name: value for name, value in vars(event).items() if isinstance(value, int | float)}
        named = {f"{group}/{name}": value for name, value in figures.items() if name not in ("step", "epoch")}
        accelerator.log(named, step=event.step)


def _dotted(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    dotted: dict[str, Any] = {}
    for name, value in settings.items():
        dotted |= _dotted(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return dotted


# What comes after a step; if processes differ, all do the highest.
_STEP, _SNAPSHOT, _STOP = range(3)


class _Training:
    def __init__(
        self,
        config: Config,
        examples: Sequence[QAExample],
        validation: Sequence[QAExample],
        run: Path,
        cache: Path,
        start: Path | None,
        processes: Processes,
        stop: threading.Event | None,
    ) -> None:
        self.config, self.settings, self.run = config, config.training, run
        self.processes, self.stop = processes, stop or threading.Event()
        _require_trainable(config, examples, processes)
        self.validation = evenly_spaced(validation, self.settings.validation_questions)
        self.began = time.monotonic()
        torch.manual_seed(self.settings.seed)
        self.model = build(config.model, load_pretrained(config.model, device=processes.device)).to(processes.device)
        is_new = not (run / SNAPSHOT).exists()
        if is_new and start is not None:
            load_into(self.model, start)
        elif is_new:
            fit_value_scale(self.model, [example.text for example in examples])
        if processes.device.type == "cpu":
            # At training's lengths, plain attention is several times faster on a CPU than the fused kernel.
            self.model.base.model.set_attn_implementation("eager")
        if self.settings.gradient_checkpointing:
            checkpoint_layers(self.model)
        if self.settings.compile:
            compile_parts(self.model)
        self.model.is_quantising = config.model.quantised and (not self.settings.quantise_from or start is not None)
        self.data = TrainingSet(within_window(examples, self.model.documents.chunker))
        if self.model.is_warming_up:
            require_enough(self.model.require_codebook(), len(self.data.documents))
        sides = (self.model.documents, self.data.documents), (self.model.questions, self.data.questions)
        self.documents, self.questions = (
            TextStates(side, texts, cache if side.is_frozen else None) for side, texts in sides
        )
        self.objective = Objective(self.model, self.data, self.documents, self.questions, self.settings, processes)
        optimizer = adam(self.model, self.settings.learning_rate)
        self.optimizer = processes.prepare(self.objective, optimizer, self.model.codebook)
        self.steps_per_epoch = self.data.steps(self.settings.batch_size)
        self.total_steps = self.steps_per_epoch * self.settings.epochs
        given = digest(examples, validation)
        self.state = run_files.TrainingState(0, None, -1, self.model.is_quantising, 0, 0.0, given)
        self.usage_throttle = Throttle(_USAGE_SHARE, _USAGE_SECONDS)
        self.is_fresh = start is None

    def all_events(self, log: EventLog | None) -> Iterator[events.Event]:
        """All events until the last epoch or a stop; `log` is None except in the main process, which alone writes."""
        settings, is_resumed = self.settings, (self.run / SNAPSHOT).exists()
        if is_resumed:
            self._resume(log)
        yield from self._read_texts(log)
        if self._next_action() == _STOP:
            yield self._stopped()
            return
        if log is None:
            yield from chain(self.documents.fill(), self.questions.fill())  # another machine's cache may be incomplete
        if settings.pca_start and self.is_fresh and not is_resumed:
            self._start_from_pca()
        sizes = len(self.data), len(self.data.documents), trainable_parameters(self.model)
        yield events.TrainStarted(self.state.step, self.total_steps, *sizes)
        saved, every = time.monotonic(), settings.validation_steps or self.steps_per_epoch
        for epoch, batch in self._batches():
            yield from self._step(epoch, batch)
            self._show_usage()
            step = self.state.step
            is_due = step % every == 0 or step % self.steps_per_epoch == 0
            if is_due:
                # Before the snapshot of this step: a resumed run would skip it.
                yield from self._validate(epoch)
            action = self._next_action(is_due=is_due or time.monotonic() - saved > settings.checkpoint_seconds)
            if action != _STEP:
                yield self._checkpoint(log)
                saved = time.monotonic()
            if action == _STOP and step < self.total_steps:
                yield self._stopped()
                return
        self._show_usage(at_once=True)
        yield events.TrainFinished(self.state.step, round(self._seconds(), 1), str(self.run / MODEL))

    def _resume(self, log: EventLog | None) -> None:
        if log is not None:
            run_files.recover_model(self.run)
        before = run_files.load_snapshot(self.run / SNAPSHOT, self.model, self.optimizer)
        if before.data and before.data != self.state.data:
            hint = "Restore their files, or start another run, with --from and this run's model."
            raise DataError(f"The questions of {self.run} have changed since its training began.", hint=hint)
        self.state = replace(before, data=self.state.data)

    def _read_texts(self, log: EventLog | None) -> Iterator[events.Progressed]:
        if log is not None:
            log.rewind(self.state.events)
            for event in chain(self.documents.fill(), self.questions.fill()):
                yield event
                if self._is_stop_requested():
                    return

    def _batches(self) -> Iterator[tuple[int, Batch]]:
        """The batches left, with their epochs, until `patience` epochs have passed since the best validation."""
        settings = self.settings
        for epoch in range(self.state.step // self.steps_per_epoch, settings.epochs):
            if settings.patience and 0 <= self.state.best_epoch < epoch - settings.patience:
                return
            skip = self.state.step - epoch * self.steps_per_epoch
            for batch in self.data.epoch(epoch, settings.batch_size, seed=settings.seed, skip=skip):
                yield epoch, batch

    def _start_from_pca(self) -> None:
        torch.manual_seed(self.settings.seed)
        start_from_pca(self.model, self.documents)
        for side in (self.model.documents, self.model.questions):
            self.processes.broadcast_from_main(side.amortizer.parameters())
        self._centre()

    def _is_stop_requested(self) -> bool:
        # Only the main process looks: others might see a request to an earlier training, before it was withdrawn.
        return self.stop.is_set() or (self.processes.is_main and is_stop_requested(self.run))

    def _next_action(self, *, is_due: bool = False) -> int:
        """What all processes do now: stop if requested, a snapshot if it `is_due` in one of them, or the next step."""
        return self.processes.highest(_STOP if self._is_stop_requested() else _SNAPSHOT if is_due else _STEP)

    def _stopped(self) -> events.TrainStateChanged:
        self._show_usage(at_once=True)
        return events.TrainStateChanged("stopped", self.state.step, self.total_steps)

    def _show_usage(self, *, at_once: bool = False) -> None:
        began, codebook = time.monotonic(), self.model.codebook
        if not self.processes.is_main or codebook is None or not self.model.is_quantising:
            return
        if at_once or self.usage_throttle.is_due(began):
            write_usage(self.run, codebook.usage.cpu().numpy(), self.state.step)
            self.usage_throttle.record(began, time.monotonic())

    def _step(self, epoch: int, batch: Batch) -> Iterator[events.Event]:
        model, step, processes = self.model, self.state.step, self.processes
        self._seed()
        if model.is_warming_up and step >= int(self.total_steps * self.settings.quantise_from):
            self._centre()
            yield events.QuantisationStarted(step, self._fit_codes())
        began = time.monotonic()
        rate = learning_rate(step, self.total_steps, self.settings)
        passes, resets = optimiser_step(self.objective, self.optimizer, batch, self._seed(processes.rank), rate=rate)
        seconds = time.monotonic() - began
        self.state.step += 1
        codebook = model.codebook
        perplexity, dead = (codebook.perplexity(), codebook.dead_codes()) if codebook is not None else (0.0, 0)
        figures = {**mean_losses(passes, processes), "perplexity": perplexity, "learning_rate": rate}
        rounded: dict[str, Any] = {
            name: value if value is None else float(f"{value:.6g}") for name, value in figures.items()
        }
        yield events.TrainStep(
            step=step + 1,
            epoch=epoch,
            dead_codes=dead,
            reset_codes=resets,
            examples_per_second=float(f"{len(batch.examples) / seconds:.4g}"),
            **rounded,
        )

    def _validate(self, epoch: int) -> Iterator[events.Event]:
        """Score the model; if its loss is the lowest so far, it becomes `run/model`, except in a warm start."""
        self._centre()
        is_last = self.state.step == self.total_steps
        if is_last and self.settings.refit_codes and self.model.is_quantising:
            self._fit_codes()
        if not self.validation:
            if not self.model.is_warming_up:
                run_files.replace_model(self.model, self.config, self.run, writes=self.processes.is_main)
            return
        documents = len({example.text for example in self.validation})
        others = evenly_spaced(self.data.documents, documents)
        scores = validate(self.model, self.validation, others, self.processes)
        assert scores.loss is not None
        is_lowest = self.state.best_loss is None or scores.loss < self.state.best_loss
        is_best = is_lowest and not self.model.is_warming_up
        if is_best:
            self.state.best_loss, self.state.best_epoch = scores.loss, epoch
            run_files.replace_model(self.model, self.config, self.run, writes=self.processes.is_main)
        exact_match, f1, first = (round(share, 3) for share in (scores.exact_match, scores.f1, scores.first_source))
        figures = self.state.step, epoch, scores.questions, documents, exact_match, f1, first, is_best
        losses = (None if loss is None else round(loss, 5) for loss in (scores.loss, scores.wrong_loss))
        yield events.Validated(*figures, *losses)

    def _seed(self, rank: int = 0) -> torch.Generator:
        """Seed torch for this rank and step; returns a generator that is the same in all ranks."""
        seed = self.settings.seed * 1_000_003 + self.state.step
        torch.manual_seed(seed + (rank << 40))
        return torch.Generator().manual_seed(seed)

    @torch.no_grad()
    def _centre(self) -> None:
        self._seed()
        for side, states in ((self.model.documents, self.documents), (self.model.questions, self.questions)):
            self.processes.run_wrapped(fit_centring, side.amortizer, states)
            if side.amortizer.centring is not None:
                self.processes.broadcast_from_main(side.amortizer.centring.buffers())

    @torch.no_grad()
    def _fit_codes(self) -> int:
        """Fit the codebook to the documents' vectors; returns how many documents were used."""
        fitted_to = self.processes.run_wrapped(fit_codebook, self.model, self.documents)
        book = self.model.require_codebook()
        self.processes.broadcast_from_main([*book.parameters(), *book.buffers()])
        return fitted_to

    def _checkpoint(self, log: EventLog | None) -> events.CheckpointSaved:
        state, snapshot = self.state, self.run / SNAPSHOT
        state.is_quantising, state.events = self.model.is_quantising, 0 if log is None else log.position()
        state.seconds, self.began = self._seconds(), time.monotonic()
        run_files.save_snapshot(snapshot, self.model, self.optimizer, state, writes=log is not None)
        return events.CheckpointSaved(state.step, str(snapshot))

    def _seconds(self) -> float:
        return self.state.seconds + time.monotonic() - self.began


def _require_trainable(config: Config, examples: Sequence[QAExample], processes: Processes) -> None:
    """Raise DataError if there is nothing to train on, ConfigError if the settings do not work with FSDP."""
    if not examples:
        raise DataError("There is nothing to train on.", hint="Give --data a file with questions.")
    is_beside = config.model.documents.frozen or config.model.questions.frozen or config.training.pca_start
    if processes.is_sharded and is_beside:
        raise ConfigError(
            "Frozen encoders and training.pca_start are not supported with FSDP.",
            hint="Launch without FSDP, or train the encoders.",
        )
