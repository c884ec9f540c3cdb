"""Running a suite stage by stage, storing each finished stage so that an interrupted run can be resumed.

The environment is stored with the results, which are hard to reproduce without it.
"""

import platform
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import mbc_engine
from mbc_engine.datasets.questions import permuted
from mbc_engine.errors import DataError, MBCError
from mbc_engine.evaluation.cells import Cell, Stage, cells
from mbc_engine.evaluation.protocols import online, retention
from mbc_engine.evaluation.results import CodeUsage, ExperimentFolder
from mbc_engine.evaluation.suite import Suite, suite_in
from mbc_engine.evaluation.tables import write_report
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
from mbc_engine.machine import installed_version, memory, processor, usable_cores
from mbc_engine.runs.event_log import EventLog, read_events
from mbc_engine.runs.training_runs import EVENTS, SNAPSHOT
from mbc_engine.text.decoding import storable

# A training run keeps its own log.
_LOGGED: Final = (ExperimentFinished, Progressed, RateTried, StageFinished, StageSkipped, StageStarted, TuningStep)
_PACKAGES: Final = ("torch", "transformers", "peft", "tokenizers", "accelerate", "bitsandbytes", "numpy", "spacy")
_POINTS: Final = 200  # enough for a plot


def run(
    suite: Suite,
    folder: Path,
    *,
    cache: Path,
    device: str = "cpu",
    command: str = "",
    skips: bool = True,
    stop: threading.Event | None = None,
) -> Iterator[Event]:
    """Run the remaining stages of a suite in `folder` (see `ExperimentFolder`), and write its report.

    States of frozen encoders are cached in `cache`; `command` is the command line, for the report. A stage that cannot
    be done here is skipped, or its error raised if not `skips`. Setting `stop` ends the run soon; running again resumes
    it.
    """
    experiment, stop = ExperimentFolder(folder), stop or threading.Event()
    with experiment.lock():
        before = suite_in(folder) if experiment.exists() else suite  # older settings get this version's defaults
        settings, begun_with = (each.model_dump(exclude_none=True) for each in (suite, before))
        experiment.begin(settings, environment(suite.seed, device, command), begun_with)
        with closing(EventLog(experiment.events)) as log:
            for event in _events(suite, experiment, cache, device, skips, stop):
                if isinstance(event, _LOGGED) and getattr(event, "work", "") != "read texts":
                    log.append(event)
                yield event


def _events(
    suite: Suite, experiment: ExperimentFolder, cache: Path, device: str, skips: bool, stop: threading.Event
) -> Iterator[Event]:
    began, number, skipped = time.monotonic(), 0, 0
    total = sum(1 for cell in cells(suite) for _ in cell.stages())
    for cell in cells(suite, experiment, cache=cache, device=device):  # one at a time, with their models
        missing: set[str] = set()
        for stage in cell.stages():
            number += 1
            if stage.is_done:
                yield StageFinished(cell.name, stage.name, 0.0, was_kept=True)
                continue
            stage_began = time.monotonic()
            follows = next((need for need in stage.needs if need in missing), None)
            if follows:
                reason: str | None = f"{follows} could not be done"
            else:
                yield StageStarted(cell.name, stage.name, number, total)
                reason = yield from _tried(stage, cell, skips, stop)
                if stop.is_set():
                    return
            if reason is None:
                yield StageFinished(cell.name, stage.name, round(time.monotonic() - stage_began, 1), was_kept=False)
            else:
                missing.add(stage.name)
                skipped += 1
                yield StageSkipped(cell.name, stage.name, reason, follows)
    report = write_report(experiment)
    yield ExperimentFinished(total - skipped, skipped, round(time.monotonic() - began, 1), str(report))


def _tried(stage: Stage, cell: Cell, skips: bool, stop: threading.Event) -> Generator[Event, None, str | None]:
    """Do a stage; returns why it cannot be done here."""
    import torch

    try:
        cell.require_same()
        if reason := cell.skip_reason(stage):
            return reason
        work = _work(stage, cell, stop)
        for event in work:
            yield event
            if isinstance(event, TrainStateChanged) and event.state == "stopped":  # as requested in its own folder
                stop.set()
            if stop.is_set() and stage.kind != "prepare":  # a training ends with a snapshot
                work.close()
        if stage.kind == "prepare" and not stop.is_set():
            stage.file.touch()
    except torch.OutOfMemoryError:
        return f"the memory of {cell.device} is too small"
    except MBCError as error:
        if not skips:
            raise type(error)(f"{stage.name}: {error.message}", hint=error.hint) from error
        return error.message
    return None


def _work(stage: Stage, cell: Cell, stop: threading.Event) -> Generator[Event, None, None]:
    """The work of a stage; but for a training, its result is stored at the end."""
    name, suite, folder = stage.subject, cell.suite, cell.folder
    options: Any = {"golds": suite.golds, "seed": suite.seed}
    if stage.kind == "prepare":
        yield from _training(name, cell, stop)
    elif stage.kind == "code-usage":
        curves = (_perplexities(folder.prepared / training) for training in ("reset", "no-reset"))
        folder.write("", "code-usage", CodeUsage(cell.config_of("reset").model.codebook.codes, *curves))
    elif stage.kind == "rate":
        folder.write(name, "rate", (yield from _best_rate(name, cell)))
    else:
        method, size = cell.method(name, folder.read(name, "rate")), stage.documents or suite.bank_documents
        if stage.kind == "retention":
            measured = yield from retention(method, cell.test, suite.retention, **options)
        else:
            measured = ((yield from online(method, cell.test, bank_documents=size, **options)),)
        folder.write_measured(name, stage.file.stem, measured)


def _best_rate(name: str, cell: Cell) -> Generator[Event, None, float]:
    from mbc_engine.evaluation.fine_tuning import sweep

    rates, window = cell.suite.rates, cell.suite.document_window
    if not cell.validation and len(rates) > 1:
        raise DataError(
            "There are no questions for choosing a learning rate.",
            hint="Give --validation, or --train data with several documents: the last are held out.",
        )
    model, weights = cell.base_lm("questions"), cell.token_weights(name)
    return (yield from sweep(model, weights, rates, cell.validation, optimiser=cell.base.optimiser, window=window))


def _perplexities(training: Path) -> tuple[tuple[int, float], ...]:
    steps = [event for event in read_events(training / EVENTS) if isinstance(event, TrainStep)]
    every = max(1, len(steps) // _POINTS)
    sampled = [step for number, step in enumerate(steps, 1) if number % every == 0 or number in (1, len(steps))]
    return tuple((step.step, step.perplexity) for step in sampled)


def _training(name: str, cell: Cell, stop: threading.Event) -> Iterator[Event]:
    suite, folder = cell.suite, cell.folder.prepared / name
    options: Any = {"seed": suite.seed, "stop": stop}
    if name in ("questions", "reader", "text"):
        from mbc_engine.evaluation.fine_tuning import train_on_questions

        tuning = {"questions": suite.question_training, "reader": suite.reading_training, "text": suite.text_training}
        options |= {"optimiser": cell.base.optimiser, "reads": name != "questions"}
        options["lora"] = cell.config().model.lora if name == "text" else None
        examples = cell.question_train if name == "questions" else cell.train
        return train_on_questions(cell.base_lm(), examples, cell.validation, folder, tuning[name], **options)
    if name == "camels":
        from mbc_engine.evaluation.camels import meta_train

        window = suite.document_window
        return meta_train(cell.base_lm("questions"), cell.train, folder, suite.camels, window=window, **options)
    from mbc_engine.training.trainer import train

    is_begun = (folder / EVENTS).exists() or (folder / SNAPSHOT).exists()
    # The null learns everything but to read.
    train_on, validation = (
        permuted(examples) if name == "mbc-null" else examples for examples in (cell.train, cell.validation)
    )
    options = {"cache": cell.cache, "resume": is_begun, "device": cell.device, "stop": stop}
    return train(cell.config_of(name), train_on, validation, folder, **options)


def environment(seed: int, device: str = "cpu", command: str = "") -> dict[str, Any]:
    """The environment of an evaluation: versions, machine, seed, date (ISO 8601, UTC), command line."""
    torch, commit, folder = sys.modules.get("torch"), "", Path(mbc_engine.__file__).parents[1]
    versions, gpu = {name: installed_version(name) for name in _PACKAGES}, None if device == "cpu" else device
    if torch and device.startswith("cuda"):
        gpu = torch.cuda.get_device_name(device)
    if (folder / ".git").exists():
        with suppress(OSError):
            git = ["git", "rev-parse", "HEAD"]
            commit = subprocess.run(git, cwd=folder, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    return {
        "mbc": mbc_engine.__version__,
        "commit": commit or None,
        "python": platform.python_version(),
        "packages": {name: version for name, version in versions.items() if version},
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
