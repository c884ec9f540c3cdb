"""Running an experiment stage by stage, storing each finished stage so that an interrupted experiment can be resumed.

The environment is stored with the results, which are hard to reproduce without it.
"""

import platform
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import mbc_engine
from mbc_engine.datasets.layout import evenly_spaced
from mbc_engine.errors import DataError, MBCError
from mbc_engine.evaluation.protocols import online, retention, scaling
from mbc_engine.evaluation.results import CellFolder, CodeUsage, ExperimentFolder
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
from mbc_engine.experiments.cells import Cell, Stage, cells
from mbc_engine.experiments.page import write_report
from mbc_engine.experiments.settings import ExperimentSettings
from mbc_engine.machine import memory, processor, usable_cores
from mbc_engine.runs.event_log import EventLog, read_events
from mbc_engine.runs.training_runs import EVENTS, SNAPSHOT
from mbc_engine.text.decoding import storable

# A training run keeps its own log.
_LOGGED: Final = (ExperimentFinished, Progressed, RateTried, StageFinished, StageSkipped, StageStarted, TuningStep)
_PACKAGES: Final = ("torch", "transformers", "peft", "tokenizers", "accelerate", "bitsandbytes", "numpy", "spacy")
_POINTS: Final = 200  # enough for a plot


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
    """Run the remaining stages of an experiment in `folder` (see `ExperimentFolder`), and write its report.

    States of frozen encoders are cached in `cache`; `command` is the command line, for the report. A stage that cannot
    be done here is skipped, or its error raised if not `skips`; `obstacles` are reasons to skip without trying, by cell
    and stage, see `requirements.py`. Setting `stop` ends the run soon; running again resumes it.
    """
    kept = ExperimentFolder(folder)
    with kept.lock():
        given, here = settings.model_dump(exclude_none=True), environment(settings.seed, device, command)
        kept.begin(given, here, check_moved=lambda: _require_same_questions(settings, kept))
        log = EventLog(kept.events)
        try:
            for event in _events(settings, kept, cache, device, skips, obstacles or {}, stop or threading.Event()):
                if isinstance(event, _LOGGED) and getattr(event, "work", "") != "read texts":
                    log.append(event)
                yield event
        finally:
            log.close()


def _require_same_questions(settings: ExperimentSettings, folder: ExperimentFolder) -> None:
    for cell in cells(settings):
        if (folder.path / cell.name).is_dir():
            folder.cell(cell.name).require_same_questions(cell.digest())


def _events(
    settings: ExperimentSettings,
    folder: ExperimentFolder,
    cache: Path,
    device: str,
    skips: bool,
    obstacles: Mapping[tuple[str, str], str],
    stop: threading.Event,
) -> Iterator[Event]:
    began, number, skipped = time.monotonic(), 0, 0
    total = sum(1 for cell in cells(settings) for _ in cell.stages())
    for cell in cells(settings):
        kept = folder.cell(cell.name)
        cell.prepared, cell.cache, cell.device = kept.prepared_folder, cache, device
        missing: set[str] = set()
        for stage in cell.stages():
            number += 1
            if stage.is_done(kept):
                yield StageFinished(cell.name, stage.name, 0.0, was_kept=True)
                continue
            stage_began = time.monotonic()
            follows = next((need for need in stage.needs if need in missing), None)
            reason = f"{follows} could not be done" if follows else obstacles.get((cell.name, stage.name))
            if reason is None:
                yield StageStarted(cell.name, stage.name, number, total)
                reason = yield from _tried(stage, cell, kept, skips, stop)
                if stop.is_set():
                    return
            if reason is None:
                yield StageFinished(cell.name, stage.name, round(time.monotonic() - stage_began, 1), was_kept=False)
            else:
                missing.add(stage.name)
                skipped += 1
                yield StageSkipped(cell.name, stage.name, reason, follows)
    report = write_report(folder)
    yield ExperimentFinished(total - skipped, skipped, round(time.monotonic() - began, 1), str(report))


def _tried(
    stage: Stage, cell: Cell, folder: CellFolder, skips: bool, stop: threading.Event
) -> Generator[Event, None, str | None]:
    import torch

    try:
        if reason := cell.skip_reason(stage.subject):
            return reason
        work = _work(stage, cell, folder, stop)
        for event in work:
            yield event
            if stop.is_set() and stage.kind != "prepare":
                work.close()
    except torch.OutOfMemoryError:
        return f"the memory of {cell.device} is too small"
    except MBCError as error:
        if not skips:
            raise
        return error.message
    return None


def _work(stage: Stage, cell: Cell, folder: CellFolder, stop: threading.Event) -> Generator[Event, None, None]:
    folder.require_same_questions(cell.digest())
    name = stage.subject
    match stage.kind:
        case "prepare":
            for event in _preparation(name, cell, stop):
                yield event
                if isinstance(event, TrainStateChanged) and event.state == "stopped":  # as requested in its own folder
                    stop.set()
            if not stop.is_set():
                folder.keep_prepared(name)
        case "rate":
            folder.write(name, "rate", (yield from _best_rate(name, cell)))
        case "code-usage":
            curves = (_perplexities(cell.prepared / training) for training in ("reset", "no-reset"))
            folder.write("", "code-usage", CodeUsage(cell.config_of("reset").model.codebook.codes, *curves))
        case protocol:
            yield from _asked(protocol, name, cell, folder)


def _asked(protocol: str, name: str, cell: Cell, folder: CellFolder) -> Generator[Event, None, None]:
    if (rate := folder.read(name, "rate")) is not None:
        cell.rates[name] = rate
    settings, method = cell.settings, cell.method(name)
    options: Any = {"golds": settings.golds, "seed": settings.seed}
    if protocol == "online":
        outcome = yield from online(method, cell.test, bank_documents=settings.bank_documents, **options)
        folder.keep_online(name, outcome)
        return
    if protocol == "retention":
        work = retention(method, cell.test, **settings.retention.model_dump(), **options)
    else:
        asked = folder.read(name, "online")
        known = [*(folder.read(name, "scaling.partial") or ()), *filter(None, [asked])]
        keep = partial(folder.write, name, "scaling.partial")
        work = scaling(method, cell.test, settings.scaling, known=known, keep=keep, **options)
    folder.write(name, protocol, (yield from work))
    folder.file(name, f"{protocol}.partial").unlink(missing_ok=True)  # or it would stand in for a deleted result


def _best_rate(name: str, cell: Cell) -> Generator[Event, None, float]:
    from mbc_engine.methods.fine_tuned import sweep

    rates = cell.settings.rates
    if not cell.validation and len(rates) > 1:
        raise DataError(
            "There are no questions for choosing a learning rate.",
            hint="Give --validation, or --train data with several documents: the last are held out.",
        )
    model, weights, window = cell.base_lm("questions"), cell.token_weights(name), cell.settings.document_window
    return (yield from sweep(model, weights, rates, cell.validation, optimiser=cell.base.optimiser, window=window))


def _perplexities(training: Path) -> tuple[tuple[int, float], ...]:
    steps = [event for event in read_events(training / EVENTS) if isinstance(event, TrainStep)]
    every = max(1, len(steps) // _POINTS)
    sampled = [step for number, step in enumerate(steps, 1) if number % every == 0 or number in (1, len(steps))]
    return tuple((step.step, step.perplexity) for step in sampled)


def _preparation(name: str, cell: Cell, stop: threading.Event) -> Iterator[Event]:
    settings, folder = cell.settings, cell.prepared / name
    if name in ("questions", "reader"):
        from mbc_engine.methods.tuning import train_on_questions

        own, examples = settings.question_training, cell.question_train
        if name == "reader":
            own, examples = settings.reading_training, cell.train
        examples = evenly_spaced(examples, own.most_train)
        how: Any = {"reads": name == "reader", "optimiser": cell.base.optimiser, "seed": settings.seed, "stop": stop}
        return train_on_questions(cell.base_lm(), examples, cell.validation, folder, own, **how)
    if name == "camels":
        from mbc_engine.methods.camels import meta_train

        base, how = cell.base_lm("questions"), {"window": settings.document_window, "seed": settings.seed, "stop": stop}
        return meta_train(base, cell.train, folder, settings.camels, **how)
    from mbc_engine.training.trainer import train

    is_begun = (folder / EVENTS).exists() or (folder / SNAPSHOT).exists()
    where: Any = {"cache": cell.cache, "resume": is_begun, "device": cell.device}
    return train(cell.config_of(name), cell.train, cell.validation, folder, **where, stop=stop)


def environment(seed: int, device: str = "cpu", command: str = "") -> dict[str, Any]:
    """The environment of an evaluation: versions, machine, seed, date (ISO 8601, UTC), command line."""
    torch, gpu = sys.modules.get("torch"), None if device == "cpu" else device
    if device.startswith("cuda"):
        from torch.cuda import get_device_name

        gpu = get_device_name(device)
    packages = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            packages[name] = version(name)
    return {
        "mbc": mbc_engine.__version__,
        "commit": _commit(Path(mbc_engine.__file__).parents[1]),
        "python": platform.python_version(),
        "packages": packages,
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": processor(),
        "cores": usable_cores(),
        "memory": memory(),
        "threads": torch.get_num_threads() if torch else None,
        "device": device,
        "gpu": gpu,
        "seed": seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": storable(command),
    }


def _commit(folder: Path) -> str | None:
    with suppress(OSError, subprocess.CalledProcessError):
        if (folder / ".git").exists():
            git = ["git", "rev-parse", "HEAD"]
            return subprocess.run(git, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    return None
