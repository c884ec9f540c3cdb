"""What methods need before they can be evaluated: models trained on a cell's questions, each in a folder of its own.

Every preparation goes on where it was interrupted.

Code usage over two trainings, with the online reset of dead codes and without (paper, section 4.4.4).

Running an experiment: stage by stage, each kept when it is done, so that an interrupted one goes on where it was.
"""

import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Final

import torch

from mbc_engine.config import Config
from mbc_engine.errors import DataError, MBCError
from mbc_engine.evaluation.folder import CellFolder, ExperimentFolder, MethodFolder, environment
from mbc_engine.evaluation.protocols import online, retention, scaling
from mbc_engine.evaluation.results import CodeUsage, Curve, RateSweep
from mbc_engine.events import (
    Event,
    ExperimentFinished,
    Progressed,
    RateTried,
    StageFinished,
    StageSkipped,
    StageStarted,
    TrainStateChanged,
    TrainStep,
    TuningStep,
)
from mbc_engine.experiments.cells import Cell, ExperimentSettings, cells, mac_of
from mbc_engine.experiments.materials import Materials
from mbc_engine.experiments.registry import METHODS, MethodKind
from mbc_engine.experiments.reporting import Stage, stages, write_report_of
from mbc_engine.experiments.suites import parsed
from mbc_engine.methods.camels import MetaSettings, meta_train
from mbc_engine.methods.fine_tuned import sweep
from mbc_engine.methods.tuning import train_on_questions
from mbc_engine.runs.event_log import EventLog, read_events
from mbc_engine.runs.training_runs import EVENTS, SNAPSHOT
from mbc_engine.training.trainer import train

Preparation = Callable[[Materials, threading.Event], Iterator[Event]]


def prepare(name: str, materials: Materials, *, stop: threading.Event) -> Iterator[Event]:
    """Train something; see `PREPARATIONS`.

    Args:
        name: what.
        materials: of the cell.
        stop: set it to end soon, with what is needed to go on.

    Raises:
        MBCError: it cannot be trained here.
    """
    yield from PREPARATIONS[name](materials, stop)


def _memory(name: str, config_of: Callable[[Materials], Config]) -> Preparation:
    """A training of MBC, or of what settings make of it."""

    def work(materials: Materials, stop: threading.Event) -> Iterator[Event]:
        run, data = materials.prepared(name), materials.data
        yield from train(
            config_of(materials),
            data.train,
            data.validation,
            run,
            cache=materials.cache,
            resume=(run / EVENTS).exists() or (run / SNAPSHOT).exists(),
            device=materials.device,
            stop=stop,
        )

    return work


def _questions(materials: Materials, stop: threading.Event) -> Iterator[Event]:
    return _trained_base(materials, "questions", stop, reads=False)


def _reader(materials: Materials, stop: threading.Event) -> Iterator[Event]:
    return _trained_base(materials, "reader", stop, reads=True)


def _trained_base(materials: Materials, name: str, stop: threading.Event, *, reads: bool) -> Iterator[Event]:
    settings, data = materials.settings, materials.data
    own = settings.reading_training if reads else settings.question_training
    yield from train_on_questions(
        materials.plain_base(),
        data.train if reads else data.question_train,
        data.validation,
        materials.prepared(name),
        reads=reads,
        epochs=own.epochs,
        batch_size=own.batch_size,
        learning_rate=own.learning_rate,
        optimiser=materials.optimiser,
        seed=settings.seed,
        stop=stop,
    )


def _camels(materials: Materials, stop: threading.Event) -> Iterator[Event]:
    settings = materials.settings
    own = settings.camels
    asked = MetaSettings(
        steps=own.steps,
        inner_documents=own.inner_documents,
        inner_batches=own.inner_batches,
        learning_rate=own.learning_rate,
        inner_rate=own.inner_rate,
        locality=own.locality,
        window=settings.document_window,
        seed=settings.seed,
    )
    base, folder = materials.base("questions"), materials.prepared("camels")
    yield from meta_train(base, materials.data.train, folder, asked, stop=stop)


PREPARATIONS: Mapping[str, Preparation] = {
    "mbc": _memory("mbc", lambda materials: materials.config),
    "mac": _memory("mac", lambda materials: mac_of(materials.config)),
    "reset": _memory("reset", lambda materials: materials.usage_config(resets=True)),
    "no-reset": _memory("no-reset", lambda materials: materials.usage_config(resets=False)),
    "questions": _questions,
    "reader": _reader,
    "camels": _camels,
}


# Enough for a plot.
_POINTS: Final = 200


def code_usage(with_reset: Path, without_reset: Path, codes: int) -> CodeUsage:
    """What the logs of two training runs tell.

    Args:
        with_reset, without_reset: the runs' folders.
        codes: N_c, the most that a perplexity can be.

    Raises:
        DataError: a log is damaged.
    """
    return CodeUsage(codes, _curve(with_reset / EVENTS), _curve(without_reset / EVENTS))


def _curve(log: Path) -> Curve:
    steps = [event for event in read_events(log) if isinstance(event, TrainStep)]
    every = max(1, len(steps) // _POINTS)
    shown = [step for number, step in enumerate(steps, 1) if number % every == 0 or number in (1, len(steps))]
    return Curve(tuple(step.step for step in shown), tuple(step.perplexity for step in shown))


# What a training run logs in its own folder is not logged a second time.
_LOGGED = (
    ExperimentFinished,
    Progressed,
    RateTried,
    StageFinished,
    StageSkipped,
    StageStarted,
    TuningStep,
)


def run(
    settings: ExperimentSettings,
    folder: Path,
    *,
    cache: Path,
    device: str = "cpu",
    command: str = "",
    skips: bool = True,
    obstacles: Mapping[tuple[str, str], str] | None = None,
    stop: threading.Event | None = None,
) -> Iterator[Event]:
    """Do what is left of an experiment and write its report.

    Args:
        settings: the experiment's; those that a folder was begun with.
        folder: keeps everything, see `evaluation/folder.py`.
        cache: where states of frozen encoders are kept.
        device: where models run.
        command: what was typed, for the report.
        skips: whether a stage that cannot be done here is passed over; else its error is raised.
        obstacles: why stages are passed over without trying, by cell and stage; see `needs.py`.
        stop: set it to end soon; run again, it goes on.

    Raises:
        ConfigError: the folder holds an experiment with other settings, or another process is at work in it.
        MBCError: a stage cannot be done, unless such stages are passed over.
    """
    kept = ExperimentFolder(folder)
    with kept.at_work():
        kept.begin(
            settings.model_dump(exclude_none=True),
            environment(settings.seed, device),
            command,
            completed=lambda table: parsed(table, str(folder)).model_dump(exclude_none=True),
        )
        log = EventLog(kept.events)
        try:
            work = _Experiment(settings, kept, cache, device, skips, obstacles or {}, stop or threading.Event())
            for event in work.events():
                if isinstance(event, _LOGGED) and getattr(event, "work", "") != "read texts":
                    log.append(event)
                yield event
        finally:
            log.close()


class _Experiment:
    """An experiment at work."""

    def __init__(
        self,
        settings: ExperimentSettings,
        folder: ExperimentFolder,
        cache: Path,
        device: str,
        skips: bool,
        obstacles: Mapping[tuple[str, str], str],
        stop: threading.Event,
    ) -> None:
        self._settings, self._folder, self._cache, self._device = settings, folder, cache, device
        self._skips, self._obstacles, self._stop = skips, obstacles, stop
        self._total = sum(1 for cell in cells(settings) for _ in stages(cell, settings))
        self._number = self._skipped = 0

    def events(self) -> Iterator[Event]:
        """Everything that happens, until the report is written or a stop."""
        began = time.monotonic()
        for cell in cells(self._settings):
            yield from self._cell(cell)
            if self._stop.is_set():
                return
        report = write_report_of(self._folder)
        yield ExperimentFinished(
            self._total - self._skipped, self._skipped, round(time.monotonic() - began, 1), str(report)
        )

    def _cell(self, cell: Cell) -> Iterator[Event]:
        """All stages of a cell."""
        folder = self._folder.cell(cell.name)
        materials = Materials(cell, self._settings, folder.prepared_folder, self._cache, self._device)
        missing: set[str] = set()
        for stage in stages(cell, self._settings):
            self._number += 1
            if stage.is_done(folder):
                yield StageFinished(cell.name, stage.name, 0.0, was_kept=True)
                continue
            began = time.monotonic()
            follows = next((need for need in stage.needs if need in missing), None)
            reason: str | None
            if follows is not None:
                reason = f"{follows} could not be done"
            elif (cell.name, stage.name) in self._obstacles:
                reason = self._obstacles[cell.name, stage.name]
            else:
                yield StageStarted(cell.name, stage.name, self._number, self._total)
                reason = yield from self._tried(stage, materials, folder)
                if self._stop.is_set():
                    return
            if reason is None:
                yield StageFinished(cell.name, stage.name, round(time.monotonic() - began, 1), was_kept=False)
            else:
                missing.add(stage.name)
                self._skipped += 1
                yield StageSkipped(cell.name, stage.name, reason, follows)

    def _tried(self, stage: Stage, materials: Materials, folder: CellFolder) -> Generator[Event, None, str | None]:
        """Do a stage; what is stopped in the middle leaves no result, a training a snapshot to go on from.

        Returns:
            Why it cannot be done here; None if it is done.
        """
        try:
            if reason := materials.why_not(stage.subject):
                return reason
            work = self._work(stage, materials, folder)
            for event in work:
                yield event
                if self._stop.is_set() and stage.kind != "prepare":
                    work.close()
        except torch.OutOfMemoryError:
            return f"the memory of {self._device} is too small"
        except MBCError as error:
            if not self._skips:
                raise
            return error.message
        return None

    def _work(self, stage: Stage, materials: Materials, folder: CellFolder) -> Generator[Event, None, None]:
        folder.require_same_questions(materials.data.digest())
        match stage.kind:
            case "prepare":
                yield from self._prepared(stage.subject, materials, folder)
            case "code-usage":
                runs = materials.prepared("reset"), materials.prepared("no-reset")
                folder.code_usage.write(code_usage(*runs, materials.usage_config(resets=True).model.codebook.codes))
            case "rate":
                folder.method(stage.subject).rate.write((yield from _swept(METHODS[stage.subject], materials)))
            case protocol:
                yield from self._asked(protocol, stage.subject, materials, folder.method(stage.subject))

    def _prepared(self, name: str, materials: Materials, folder: CellFolder) -> Generator[Event, None, None]:
        for event in prepare(name, materials, stop=self._stop):
            yield event
            if (
                isinstance(event, TrainStateChanged) and event.state == "stopped"
            ):  # asked for in the training's own folder
                self._stop.set()
        if not self._stop.is_set():
            folder.keep_prepared(name)

    def _asked(
        self, protocol: str, name: str, materials: Materials, kept: MethodFolder
    ) -> Generator[Event, None, None]:
        """A method goes through a protocol, at the learning rate that was found best for it."""
        settings, stream, golds = self._settings, materials.data.test, self._settings.golds
        rates = kept.rate.read()
        if rates is not None:
            materials.rates[name] = rates.best
        method = METHODS[name].make(materials)
        match protocol:
            case "online":
                outcome = yield from online(
                    method, stream, bank_documents=settings.bank_documents, golds=golds, seed=settings.seed
                )
                kept.keep_online(outcome)
            case "retention":
                own = settings.retention
                result = yield from retention(
                    method, stream, first=own.first, step=own.step, further=own.further, golds=golds
                )
                kept.retention.write(result)
            case "scaling":
                kept.scaling.write(
                    (yield from scaling(method, stream, settings.scaling, golds=golds, seed=settings.seed))
                )


def _swept(kind: MethodKind, materials: Materials) -> Generator[Event, None, RateSweep]:
    """The learning rates tried, and the best."""
    assert kind.weights is not None
    settings, tried = materials.settings, list[RateTried]()
    if not materials.data.validation and len(settings.rates) > 1:
        raise DataError(
            "There are no questions to choose a learning rate by.",
            hint="Give --validation, or --train more documents than one: the last are held back.",
        )
    work = sweep(
        materials.base("questions"),
        kind.weights(materials),
        settings.rates,
        materials.data.validation,
        optimiser=materials.optimiser,
        window=settings.document_window,
    )
    while True:
        try:
            event = next(work)
        except StopIteration as end:
            return RateSweep(end.value, tuple(tried))
        tried.append(event)
        yield event
