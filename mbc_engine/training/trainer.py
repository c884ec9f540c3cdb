"""The training loop (paper, algorithm 1) as a generator of events, resumable to the bit."""

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch

from mbc_engine.config import Config
from mbc_engine.datasets.layout import QAExample, evenly_spaced
from mbc_engine.events import (
    CheckpointSaved,
    CodesReset,
    Event,
    QuantisationStarted,
    StatesCached,
    TrainFinished,
    TrainPaused,
    TrainResumed,
    TrainStarted,
    TrainStopped,
    Validated,
)
from mbc_engine.lm.efficiency import checkpoint_layers
from mbc_engine.paper.builder import build, load_pretrained, trainable_parameters
from mbc_engine.paper.checkpoint import load_into
from mbc_engine.paper.mbc import compile_parts
from mbc_engine.paper.scoring import within_window
from mbc_engine.runs.event_log import EventLog
from mbc_engine.runs.training_runs import CONFIG, EVENTS, MODEL, SNAPSHOT, TRACKED
from mbc_engine.training.data import Batch, CachedStates, TrainingSet, text_states
from mbc_engine.training.objective import Objective, adam, learning_rate, optimiser_step
from mbc_engine.training.processes import Coming, Made, Processes, Steering, processes_on
from mbc_engine.training.run_files import (
    Progress,
    at_work,
    keep_model,
    load_snapshot,
    recover_model,
    require_examples,
    require_live_encoders,
    require_no_run,
    require_start,
    save_snapshot,
)
from mbc_engine.training.tracking import UsageReport, report, require_trackers, track, tracked
from mbc_engine.training.warm_start import fit_centring, fit_codebook, require_enough, start_from_pca, validate

# How long the end of a pause may go unnoticed.
_PAUSE_SECONDS: Final = 0.2


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
    stop: threading.Event | None = None,
) -> Iterator[Event]:
    """Train a model and keep the best validated one in `run/model`.

    Between two steps it heeds what is asked for in the run's folder (`run_folder.make_request`): to pause, to stop.
    In processes that `accelerate launch` started together, all of them call this alike; the first one writes and
    tells, the others yield nothing.

    Args:
        config: a preset.
        examples: what to train on.
        validation: what to validate on after each epoch; may be empty, then the last model is kept.
        run: the run's folder; gets `config.toml`, `events.jsonl`, `snapshot.safetensors`, `usage.safetensors` and
            `model/`, and `tracked/` where trackers keep files.
        cache: where states of frozen encoders are kept.
        resume: go on from the run's last snapshot.
        start: a model folder whose weights training starts from.
        device: a torch device; of several processes on GPUs each takes its own.
        trackers: names of trackers that get the figures too, such as tensorboard; see `tracking.py`.
        stop: set it to end training after the step in progress, with a snapshot.

    Raises:
        ConfigError: the run exists and `resume` is False, the settings do not fit together or cannot be
            started from (`require_start`), or the files of the run cannot be written.
        DataError: there are no examples.
        ModelError: a pretrained part is missing.
    """
    require_trackers(trackers)
    if start is not None:
        require_start(start)
    if not resume:
        require_no_run(run)  # before any process can write there
    processes = processes_on(device, trackers=trackers, folder=run / TRACKED)
    training = _Training(config, examples, validation, run, cache, start, processes, stop)
    accelerator = processes.accelerator
    if not processes.is_main:
        for _ in training.events(None):
            pass
        accelerator.end_training()
        return
    with at_work(run):
        (run / CONFIG).write_text(config.to_toml())
        with tracked(accelerator, config, run), closing(EventLog(run / EVENTS)) as log:
            for event in training.events(log):
                log.append(event)
                track(accelerator, event)
                yield event


class _Training:
    """One run: model, optimiser, data and where it stands."""

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
        self.processes, self.steering = processes, Steering(processes, run, stop or threading.Event())
        require_examples(examples)
        if processes.shards:
            require_live_encoders(config)
        self.validation = evenly_spaced(validation, self.settings.validation_questions)
        self.began = time.monotonic()
        torch.manual_seed(self.settings.seed)
        self.model = build(config.model, load_pretrained(config.model, device=processes.device)).to(processes.device)
        if start is not None and not (run / SNAPSHOT).exists():
            load_into(self.model, start)
        if processes.device.type == "cpu":
            # At training's lengths plain attention is several times faster there than the fused kernel.
            self.model.base.model.set_attn_implementation("eager")
        if self.settings.gradient_checkpointing:
            checkpoint_layers(self.model)
        if self.settings.compile:
            compile_parts(self.model)
        self.model.is_quantising = config.model.quantised and (not self.settings.quantise_from or start is not None)
        self.data = TrainingSet(within_window(examples, self.model.documents.chunker))
        if self.model.is_warming_up:
            require_enough(self.model.require_codebook(), len(self.data.documents))
        self.documents = text_states(self.model.documents, self.data.documents, cache)
        self.questions = text_states(self.model.questions, self.data.questions, cache)
        self.objective = Objective(self.model, self.data, self.documents, self.questions, self.settings, processes)
        self.optimizer = processes.prepare(
            self.objective, adam(self.model, self.settings.learning_rate), self.model.codebook
        )
        self.steps_per_epoch = self.data.steps(self.settings.batch_size)
        self.total_steps = self.steps_per_epoch * self.settings.epochs
        self.progress = Progress(0, -1.0, self.model.is_quantising, 0, 0.0)
        self.usage = UsageReport(run)
        self.fresh_start = start is None

    def events(self, log: EventLog | None) -> Iterator[Event]:
        """Everything that happens, until the last epoch or a stop; `log` is the main process's, which alone writes."""
        is_resumed = (self.run / SNAPSHOT).exists()
        if is_resumed:
            if log is not None:
                recover_model(self.run)
            self.progress = load_snapshot(self.run / SNAPSHOT, self.model, self.optimizer)
        if log is not None:
            log.rewind(self.progress.events)
            yield from self._filled_states()
        if self.steering.coming() is Coming.STOP:
            yield self._stopped()
            return
        if log is None:
            for _ in self._states():
                pass  # on another machine they may still have to be computed
        if self.settings.pca_start and self.fresh_start and not is_resumed:
            self._start_from_pca()
        sizes = len(self.data), len(self.data.documents), trainable_parameters(self.model)
        yield TrainStarted(self.progress.step, self.total_steps, *sizes)
        self.saved = time.monotonic()
        for epoch in range(self.progress.step // self.steps_per_epoch, self.settings.epochs):
            if (yield from self._epoch(epoch, log)):
                return
        self._show_usage(at_once=True)
        yield TrainFinished(self.progress.step, round(self._seconds(), 1), str(self.run / MODEL))

    def _states(self) -> Iterator[StatesCached]:
        """Compute the states of frozen encoders that are not on the disk."""
        for texts in (self.documents, self.questions):
            if isinstance(texts, CachedStates):
                yield from texts.fill()

    def _filled_states(self) -> Iterator[Event]:
        """The same, as long as nothing else is asked for."""
        for event in self._states():
            yield event
            if self.steering.asked() is Coming.STOP:
                return

    def _start_from_pca(self) -> None:
        torch.manual_seed(self.settings.seed)
        start_from_pca(self.model, self.documents, len(self.data.documents))
        for side in (self.model.documents, self.model.questions):
            self.processes.agree_on(side.amortizer)
        self._centre()

    def _epoch(self, epoch: int, log: EventLog | None) -> Generator[Event, None, bool]:
        """What is left of an epoch; True ends the training."""
        skip = self.progress.step - epoch * self.steps_per_epoch
        for batch in self.data.epoch(epoch, self.settings.batch_size, seed=self.settings.seed, skip=skip):
            yield from self._step(epoch, batch)
            self._show_usage()
            if self.progress.step == (epoch + 1) * self.steps_per_epoch:
                break  # An epoch's last snapshot comes after its validation, which a resumed run would skip.
            if (yield from self._rests(log)):
                return True
        yield from self._validate(epoch)
        return (yield from self._rests(log, is_due=True))

    def _rests(self, log: EventLog | None, *, is_due: bool = False) -> Generator[Event, None, bool]:
        """A snapshot, if one is due or something is asked for, and what is asked for; True ends the training."""
        is_due = is_due or time.monotonic() - self.saved > self.settings.checkpoint_seconds
        coming = self.steering.coming(is_due=is_due)
        if coming is Coming.STEP:
            return False
        yield self._snapshot(log)
        if self.progress.step == self.total_steps:
            return False
        if coming is Coming.PAUSE:
            coming = yield from self._pause()
        if coming is Coming.STOP:
            yield self._stopped()
            return True
        self.saved = time.monotonic()
        return False

    def _pause(self) -> Generator[Event, None, Coming]:
        """Wait as long as that is asked for; a snapshot has just been taken. Returns what comes then."""
        self._show_usage(at_once=True)
        yield TrainPaused(self.progress.step, self.total_steps)
        # Not stop.wait(): a signal handler may set the event, and would wait for the lock that wait() holds.
        while (coming := self.steering.coming()) is Coming.PAUSE:
            time.sleep(_PAUSE_SECONDS)
        self.began = time.monotonic()
        if coming is not Coming.STOP:
            yield TrainResumed(self.progress.step, self.total_steps)
        return coming

    def _stopped(self) -> TrainStopped:
        self._show_usage(at_once=True)
        return TrainStopped(self.progress.step, self.total_steps)

    def _show_usage(self, *, at_once: bool = False) -> None:
        if self.processes.is_main:
            self.usage.show(self.model, self.progress.step, at_once=at_once)

    def _step(self, epoch: int, batch: Batch) -> Iterator[Event]:
        """The beginning of quantisation, if it is due, and a step."""
        model, step, processes = self.model, self.progress.step, self.processes
        self._seed()
        if model.is_warming_up and step >= int(self.total_steps * self.settings.quantise_from):
            self._centre()
            fitted_to = self._calmly(fit_codebook, model, self.documents, len(self.data.documents))
            processes.agree_on(model.require_codebook())
            yield QuantisationStarted(step, fitted_to)
        began = time.monotonic()
        rate = learning_rate(step, self.total_steps, self.settings)
        stepped = optimiser_step(self.objective, self.optimizer, batch, self._seed(processes.rank), rate=rate)
        self.progress = replace(self.progress, step=step + 1)
        speed = len(batch.examples) / (time.monotonic() - began)
        if stepped.resets:
            yield CodesReset(step, stepped.resets)
        yield report(stepped.parts, processes, step=step + 1, epoch=epoch, model=model, rate=rate, speed=speed)

    def _validate(self, epoch: int) -> Iterator[Event]:
        """EM and F1 on the validation questions; the best model so far becomes `run/model`, none in a warm start."""
        self._centre()
        if not self.validation:
            if not self.model.is_warming_up:
                keep_model(self.model, self.config, self.run, writes=self.processes.is_main)
            return
        scores = validate(self.model, self.validation, self.processes)
        is_best = not self.model.is_warming_up and scores.f1 > self.progress.best_f1
        if is_best:
            self.progress = replace(self.progress, best_f1=scores.f1)
            keep_model(self.model, self.config, self.run, writes=self.processes.is_main)
        documents = len({example.text for example in self.validation})
        yield Validated(
            self.progress.step,
            epoch,
            scores.questions,
            documents,
            round(scores.exact_match, 3),
            round(scores.f1, 3),
            round(scores.first_source, 3),
            is_best,
        )

    def _seed(self, rank: int = 0) -> torch.Generator:
        """Make what follows draw the same random numbers whenever this step is done.

        Returns:
            Chance that is the same in all processes; torch's own is each rank's.
        """
        seed = self.settings.seed * 1_000_003 + self.progress.step
        torch.manual_seed(seed + (rank << 40))
        return torch.Generator().manual_seed(seed)

    def _centre(self) -> None:
        """Centre both sides by the training set as it is seen now."""
        self._seed()
        for side, states, count in (
            (self.model.documents, self.documents, len(self.data.documents)),
            (self.model.questions, self.questions, len(self.data.questions)),
        ):
            self._calmly(fit_centring, side.amortizer, states, count)
            if side.amortizer.centring is not None:
                self.processes.agree_on(side.amortizer.centring)

    @torch.no_grad()
    def _calmly(self, work: Callable[..., Made], *arguments: Any) -> Made:
        """Do work on the model that nothing is learned from."""
        return self.processes.inside(work, *arguments)

    def _snapshot(self, log: EventLog | None) -> CheckpointSaved:
        self.progress = replace(
            self.progress,
            is_quantising=self.model.is_quantising,
            events=0 if log is None else log.position(),
            seconds=self._seconds(),
        )
        self.began = time.monotonic()
        snapshot = self.run / SNAPSHOT
        save_snapshot(snapshot, self.model, self.optimizer, self.progress, writes=log is not None)
        return CheckpointSaved(self.progress.step, str(snapshot))

    def _seconds(self) -> float:
        return self.progress.seconds + time.monotonic() - self.began
