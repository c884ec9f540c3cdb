"""`mbc eval`: how well methods answer, on one dataset or a grid of them.

In help texts, `[b]train[/b]` keeps Rich from rendering `:train:` as an emoji.
"""

import os
import re
import shlex
import sys
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer
from rich.text import Text

from mbc_cli.command_line import interrupt_message, is_from_command_line, stop_on_interrupt, stopped
from mbc_cli.commands.train import TrainProgress
from mbc_cli.formatting import format_duration, pluralise, sanitise
from mbc_cli.loading import loading, prepare_torch, read_data, require_device
from mbc_cli.options import (
    DeviceOption,
    JsonOption,
    ModelOption,
    ReadOption,
    ThreadsOption,
    argument,
    complete_evaluations,
    complete_presets,
    completer,
    option,
)
from mbc_cli.paths import evaluation_names, evaluations_folder, resolve_name, short_name, states_cache
from mbc_cli.render.terminal import notes, out, print_json, print_table
from mbc_engine import events
from mbc_engine.datasets.by_name import is_of_hub
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.evaluation.methods import METHODS, Protocol, controls_of
from mbc_engine.machine import require_extra
from mbc_engine.metrics import Golds
from mbc_engine.names import find_model, from_anywhere, suite_names

if TYPE_CHECKING:
    from mbc_engine.evaluation.report import Report
    from mbc_engine.evaluation.results import ExperimentFolder
    from mbc_engine.evaluation.suite import Base, Suite
    from mbc_engine.evaluation.tables import Table

_data_option, _method_option = partial(option, panel="What to evaluate"), partial(option, panel="How to evaluate")
_training_option, _file_option = partial(option, panel="Training"), partial(option, panel="Files")
_MAX_NAME_LENGTH: Final = 40
# Options for what to evaluate and how; a suite defines all of these itself.
_DATA_OPTIONS: Final = (
    *("model", "method", "protocol", "documents", "bank_size", "limit", "golds", "read"),
    *("train", "validation", "preset", "settings"),
)

_complete_methods: Final = completer(lambda: {name: kind.title for name, kind in METHODS.items()})
_complete_protocols: Final = completer(lambda: get_args(Protocol))

_METHODS: Final = ", ".join(name for name, kind in METHODS.items() if not kind.control_of and not kind.read)
_METHOD: Final = f"{_METHODS}, a control, such as mbc-wrong (MBC with another bank), or a method with a read mode, such as mbc-routed; can be repeated."
_PROTOCOL: Final = f"{', '.join(get_args(Protocol))}; can be repeated."
_QUESTIONS: Final = "The questions to ask: a .jsonl, .csv or .json file, or squad:test."
_GRID: Final = "Run a whole grid of evaluations instead: paper, small, smollm2, or a TOML file."
_ONLY: Final = "Run a suite for this base LM only, or for the one in a folder; can be repeated."
_BANK_SIZE: Final = "Split the documents into several memories of this size, each asked about its own documents."
_GOLDS: Final = "Score answers against the shortest gold answer, as the paper does, or the best-matching one."
_TRAIN: Final = "Questions to learn from, such as squad:[b]train[/b]; can be repeated."
_VALIDATION: Final = "Questions used to choose learning rates."
_HELD_OUT: Final = "squad:validation for squad:train, else a tenth of the documents"
_PRESET: Final = "Train MBC with this preset instead of using --model."
_CHANGES: Final = "Change a setting of the preset: training.epochs=3; can be repeated."
_FOLDER: Final = "The folder for the results; given alone, it continues a stopped evaluation."
_FILES: Final = "The folder that contains the files named in a suite."
_LIMIT: Final = "Maximum number of questions to ask, evenly spaced."
_DEFAULT_METHOD: Final = "the model's own, with its controls"
_DATED: Final = "the date and the data's name"
EvaluationArgument = Annotated[str, argument("RUN", "An evaluation's name or folder.", complete_evaluations)]


def evaluate(
    ctx: typer.Context,
    *,
    data: Annotated[str | None, _data_option(_QUESTIONS, metavar="SPEC")] = None,
    suite: Annotated[str | None, _data_option(_GRID, metavar="NAME|FILE", completion=completer(suite_names))] = None,
    base: Annotated[list[str] | None, _data_option(_ONLY, metavar="NAME|FOLDER", show_default="all")] = None,
    model: ModelOption,
    method: Annotated[
        list[str] | None,
        _data_option(_METHOD, metavar="NAME", show_default=_DEFAULT_METHOD, completion=_complete_methods),
    ] = None,
    protocol: Annotated[
        list[str] | None, _data_option(_PROTOCOL, metavar="NAME", show_default="online", completion=_complete_protocols)
    ] = None,
    documents: Annotated[int, _method_option("Maximum number of documents to memorise.", min=1)] = 1665,
    bank_size: Annotated[int | None, _method_option(_BANK_SIZE, min=1, show_default="all")] = None,
    limit: Annotated[int | None, _method_option(_LIMIT, min=1, show_default="all")] = None,
    golds: Annotated[Golds, _method_option(_GOLDS)] = "shortest",
    read: ReadOption = None,
    train: Annotated[list[str] | None, _training_option(_TRAIN, metavar="SPEC")] = None,
    validation: Annotated[str | None, _training_option(_VALIDATION, metavar="SPEC", show_default=_HELD_OUT)] = None,
    preset: Annotated[str | None, _training_option(_PRESET, metavar="NAME|FILE", completion=complete_presets)] = None,
    settings: Annotated[list[str] | None, _training_option(_CHANGES, "--set", metavar="KEY=VALUE")] = None,
    run: Annotated[
        str | None, _file_option(_FOLDER, metavar="NAME|PATH", show_default=_DATED, completion=complete_evaluations)
    ] = None,
    data_folder: Annotated[
        Path | None, _file_option(_FILES, metavar="FOLDER", envvar="MBC_DATA", show_default="the working folder")
    ] = None,
    plan: Annotated[bool, option("Only list the stages that would run.", "--plan")] = False,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    json: JsonOption = False,
) -> None:
    """Evaluate how well methods answer: exact match, F1, sources, time and size.

    Each method memorises documents and is then asked about them. Without --[b]train[/b], an existing model is
    evaluated. A trained model is also asked with shuffled banks and with a bank of other documents: if it answers as
    well with those, it does not use its memory. All results are kept in one folder, with the report, report.md. Ctrl-C
    stops the evaluation; --run continues it.

    Examples:
      mbc eval --data test.jsonl
      mbc eval --model runs/mine --data questions.jsonl --bank-size 16 --json
      mbc eval --preset smollm2-135m --[b]train[/b] "news.jsonl[:900]" --data "news.jsonl[900:]" --method mbc --method mac
      mbc eval --suite small --plan
    """
    from mbc_engine.evaluation.suite import load_suite, suite_in

    if ctx.invoked_subcommand is not None:
        return
    require_device(device)
    require_extra("eval", "accelerate", "bm25s", "peft", asked_by="`mbc eval`")
    _check_option_conflicts(ctx)
    if suite is not None:
        chosen = load_suite(suite, data_folder)
        chosen = chosen.only(base) if base else chosen
    elif data is not None:
        sizes = {"documents": documents, "bank_documents": bank_size, "questions": limit}
        methods = method or _default_methods(None if preset else model)
        how = {"golds": golds, "read": read, "methods": methods, "protocols": protocol or ["online"], **sizes}
        chosen = _suite_of(_base(model, preset, settings or []), data, train or [], validation, how)
    else:
        chosen = suite_in(existing_evaluation(run or "").path)
    if plan:
        _print_stages(chosen, as_json=json)
        return
    folder = _folder(run, is_begun=not (suite or data), stem=Path(suite).stem if suite else chosen.datasets[0].name)
    _run(chosen, folder, device, threads)
    _show_report(folder, as_json=json)


def show(run: EvaluationArgument, *, json: JsonOption = False) -> None:
    """Show the report of an evaluation, finished or not.

    Examples:
      mbc eval show small
      mbc eval show small --json | jq .verdicts
    """
    _show_report(existing_evaluation(run).path, as_json=json)


def existing_evaluation(name: str) -> "ExperimentFolder":
    """An evaluation that was started, by name or folder; a bare folder name in the working folder works too."""
    from mbc_engine.evaluation.results import ExperimentFolder

    with suppress(OSError, ValueError):  # no folder could have this name
        for path in (resolve_name(name, evaluations_folder()), Path(name).absolute()):
            if (folder := ExperimentFolder(path)).exists():
                return folder
    names = evaluation_names()
    latest = f"The latest: {', '.join(names[:5])}." if names else "`mbc eval --data SPEC` starts one."
    raise DataError(f"There is no evaluation {name!r}.", hint=latest)


def _folder(run: str | None, *, is_begun: bool, stem: str) -> Path:
    if run:
        return existing_evaluation(run).path if is_begun else resolve_name(run, evaluations_folder())
    folder, dated = evaluations_folder(), f"{datetime.now().astimezone().date()}-{stem}"
    names = (dated if number == 1 else f"{dated}-{number}" for number in count(1))
    return next(folder / name for name in names if not (folder / name).exists()).absolute()


def _check_option_conflicts(ctx: typer.Context) -> None:
    given = ctx.params
    data, suite, preset = given["data"], given["suite"], given["preset"]
    if data is not None and suite is not None:
        raise ConfigError("--data and --suite contradict each other.", hint="A suite names its own data.")
    if data is None and suite is None and given["run"] is None:
        hint = "Give --data SPEC, for example: mbc eval --data test.jsonl; or --suite small."
        raise ConfigError("There is nothing to evaluate on.", hint=hint)
    for missing, names, hint in (
        ("suite", ("data_folder", "base"), "A suite names base LMs, and files in that folder."),
        ("data", _DATA_OPTIONS, "To change a suite, copy its TOML file."),
    ):
        for name in names:
            if given[missing] is None and is_from_command_line(ctx, name):
                option = name.replace("_", "-").replace("settings", "set")
                raise ConfigError(f"--{option} is for --{missing}.", hint=hint)
    if preset is not None and is_from_command_line(ctx, "model"):
        raise ConfigError("--model and --preset contradict each other.", hint="Leave one of them out.")
    if given["validation"] is not None and not given["train"]:
        raise ConfigError("--validation needs --train.", hint="Name the questions to learn from with --train.")
    if given["settings"] and preset is None:
        raise ConfigError("--set needs --preset.", hint="Name the preset whose settings to change.")
    if unknown := [name for name in given["protocol"] or () if name not in get_args(Protocol)]:
        hint = f"Protocols: {', '.join(get_args(Protocol))}."
        raise ConfigError(f"There is no protocol {unknown[0]!r}.", hint=hint)


def _suite_of(base: "Base", data: str, train: list[str], validation: str | None, how: dict[str, Any]) -> "Suite":
    from mbc_engine.evaluation.suite import Suite, require_usable

    dataset = {"name": _dataset_name(data), "title": data, "train": train, "validation": validation, "test": data}
    what = {"title": f"{base.title} on {data}", "bases": [base], "datasets": [dataset]}
    suite = Suite.model_validate(what | how, context={"folder": None})
    require_usable(suite)
    sources = filter(None, (data, *train, validation))
    read_data([source for source in sources if not is_of_hub(source)])  # hub datasets take too long to read twice
    if base.model is not None:
        find_model(base.model)
    return suite


def _default_methods(model: str | None) -> list[str]:
    from mbc_engine.evaluation.suite import is_retriever_reader

    method = "retriever-reader" if model is not None and is_retriever_reader(model) else "mbc"
    return [method, *(control for control in controls_of(method) if not METHODS[control].needs_training_data)]


def _base(model: str, preset: str | None, changes: list[str]) -> "Base":
    from mbc_engine.evaluation.suite import Base

    name = preset or model
    short = Path(name).stem if os.path.isfile(name) else Path(name).name  # Path.is_file() raises on overlong names
    what: Any = {"preset": preset, "changes": changes} if preset else {"model": from_anywhere(model)}
    return Base(name=_slug(short), title=name, **what)


def _dataset_name(source: str) -> str:
    """A short name for folders; the paper's SQuAD gets the paper's name, so that its published figures are found."""
    if re.fullmatch(r"squad:test(:.*[^]])?", source):
        return "squad"
    name = Path(source).name
    return _slug(name.partition(".")[0] if ":" not in name.partition("[")[0] else name)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text)[:_MAX_NAME_LENGTH].strip("-").lower() or "own"


def _print_stages(suite: "Suite", *, as_json: bool) -> None:
    from mbc_engine.evaluation.cells import cells

    stages = {cell.name: [stage.name for stage in cell.stages()] for cell in cells(suite)}
    if as_json:
        print_json({"title": suite.title, "cells": [{"cell": name, "stages": names} for name, names in stages.items()]})
    else:
        out.print("\n".join(sanitise(f"{name}: {stage}") for name, names in stages.items() for stage in names))


def _run(suite: "Suite", folder: Path, device: str | None, threads: int | None) -> None:
    resume = f"Continue with: mbc eval --run {shlex.quote(short_name(folder, evaluations_folder()))}"
    with interrupt_message(resume):
        with loading("torch"):
            from mbc_engine.evaluation.running import run

            torch_device = prepare_torch(device, threads)
        view = ExperimentView(folder)
        stopping = "Stopping; press Ctrl-C again to end at once. Finished stages are kept."
        with view, stop_on_interrupt(view, stopping) as stop:
            for event in run(
                suite,
                folder,
                cache=states_cache(),
                device=torch_device,
                command=shlex.join(["mbc", *sys.argv[1:]]),
                skips=len(suite.bases) * len(suite.datasets) > 1,
                stop=stop,
            ):
                view.show(event)
    if not view.is_finished:
        raise stopped(view, resume)


def _show_report(folder: Path, *, as_json: bool) -> None:
    from mbc_engine.evaluation.report import read_report
    from mbc_engine.evaluation.results import ExperimentFolder
    from mbc_engine.evaluation.tables import as_json as json_of

    experiment = ExperimentFolder(folder)
    report = read_report(experiment)
    if as_json:
        print_json({"folder": folder, **json_of(report)})
    else:
        print_report(report)
    if experiment.report_markdown.is_file():
        notes.print(f"The report: {sanitise(experiment.report_markdown)}")


_ALL = "Stages"
_BARS = {"read texts": "Reading texts", "take in documents": "Memorising", "answer questions": "Answering"}


class ExperimentView(TrainProgress):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._kept = 0
        self.is_finished = False

    def show(self, event: events.Event) -> None:
        match event:
            case events.StageStarted():
                self._show_kept()
                note = f"{sanitise(event.cell)}: {sanitise(event.stage)}"
                self.bar(_ALL, event.total, completed=event.number - 1, note=note)
            case events.StageFinished() | events.StageSkipped():
                self._end_stage(event)
            case events.Progressed():
                self.bar(_BARS[event.work], event.total, completed=event.done)
            case events.TuningStep():
                self.bar("Tuning", event.total_steps, completed=event.step, note=f"loss {event.loss:.3f}")
            case events.RateTried():
                tried = f"learning rate {event.rate:g}"
                self.line(f"{tried}: exact match {event.exact_match:.1f} % · F1 {event.f1:.1f} %")
            case events.ExperimentFinished():
                self._show_kept()
                self.is_finished = True
                self.remove_bar(_ALL)
            case _:
                self.draw(event)

    def _end_stage(self, event: events.StageFinished | events.StageSkipped) -> None:
        for name in ("Training", "Tuning", *_BARS.values()):
            self.remove_bar(name)
        stage = f"{sanitise(event.cell)}: {sanitise(event.stage)}"
        if isinstance(event, events.StageSkipped):
            if event.follows is None:
                self.line(f"{stage}: skipped: {sanitise(event.reason)}", "yellow")
        elif event.was_kept:
            self._kept += 1
        else:
            self.line(f"{stage}: {format_duration(event.seconds)}")

    def _show_kept(self) -> None:
        if self._kept:
            were = "was" if self._kept == 1 else "were"
            self.line(f"{sanitise(self._run)}: {pluralise(self._kept, 'stage')} {were} already done.")
            self._kept = 0


_STYLES: Final = {"worse": "red", "no": "red", "unchecked": "yellow", "yes": "green"}
# Columns that a table does without on a terminal too narrow for all, in this order.
_SPARED: Final = (
    *("questions", "wrong bank", "closed book", "less than text from", "lenient match*", "text", "shared"),
    *("per document", "paper's bytes", "in five", "learning rate", "per answer", "paper's F1 kept"),
    *("bytes, paper's count", "paper's F1", "paper's EM", "bytes on disk"),
)


def print_report(report: "Report") -> None:
    from mbc_engine.evaluation.tables import NOTHING_TO_BEAT, OUTCOMES, tables_of

    for verdict in report.verdicts:
        style = _STYLES[verdict.outcome]
        figures = f": {sanitise(verdict.figures)}." if verdict.figures else "."
        _print((f"{OUTCOMES[verdict.outcome]} ", style), (sanitise(verdict.claim), f"bold {style}"), figures)
    if not report.verdicts:
        _print((NOTHING_TO_BEAT, "bold yellow"))
    for caution in report.cautions:
        _print(("Note. ", "bold yellow"), sanitise(caution))
    told: set[str] = set()
    for cell in report.cells:
        print()
        _print((sanitise(cell.title), "bold"), (f"  {pluralise(len(cell.rows), 'method')}", "dim"))
        for table in tables_of(cell):
            if "second" not in table.columns:  # paired tests: the verdicts say what they show
                _print_table(table, told)
    if report.missing:
        print()
        _print(("What is missing", "bold"))
    for missing in report.missing:
        _print(sanitise(f"{missing['cell']}, {missing['stage']}: {missing['reason']}"))


def _print_table(table: "Table", told: set[str]) -> None:
    _print((table.title, "dim"))
    shown = {name: [line[number] for line in table.lines] for number, name in enumerate(table.columns)}
    for name in _SPARED:
        width = sum(2 + max(map(len, (title, *entries))) for title, entries in shown.items())
        if out.is_terminal and width > out.width:
            shown.pop(name, None)
    # print_table has no headings in a pipe, for commands that print one table; a report has several kinds.
    headings = [] if out.is_terminal else [[*shown]]
    rows = [*headings, *zip(*shown.values(), strict=True)]
    print_table([*shown], rows, right=[name for name in shown if name != "method"])
    if table.note not in {"", *told} and ("lenient match*" in shown or not table.note.startswith("*")):
        told.add(table.note)
        _print((table.note, "dim"))
    print()


def _print(*parts: str | tuple[str, str]) -> None:
    out.print(Text.assemble(*parts))
