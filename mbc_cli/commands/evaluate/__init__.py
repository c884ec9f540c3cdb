"""`mbc eval`: how well methods answer, on one data set, or on a grid of them.

In help texts `[b]train[/b]` keeps Rich from reading a tram out of `newswire:train:900`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbc_cli.completion import evaluations, methods, presets, suites
from mbc_cli.options import DeviceOption, JsonOption, ModelOption, ReadOption, ReportOption

if TYPE_CHECKING:
    from mbc_engine.experiments.settings import ExperimentSettings

_WHAT, _HOW, _TRAINED, _WHERE = "What", "How", "What is trained for it", "Where"
# Whoever asks for many hours of work says so.
_HOURS = 100.0
# Options that say what is evaluated, and how: a suite says all of it itself.
_OF_ONE = (
    *("model", "method", "protocol", "documents", "bank_size", "limit", "golds", "read"),
    *("train", "validation", "preset", "settings"),
)


def evaluate(
    ctx: typer.Context,
    *,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Questions to ask: a .jsonl, .csv or .json file, squad:test, or newswire:test:64.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="A whole grid instead: paper, small, or a TOML file.",
            autocompletion=suites,
            rich_help_panel=_WHAT,
        ),
    ] = None,
    model: ModelOption,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            show_default="mbc and its controls",
            help="mbc, mac, uniform, salient-spans, camels, tf-idf, closed-book, bm25, oracle, or a control; may be "
            "given again.",
            autocompletion=methods,
            rich_help_panel=_WHAT,
        ),
    ] = None,
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            show_default="online",
            help="online, retention, scaling or code-usage; may be given again.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    documents: Annotated[
        int, typer.Option(min=1, help="Most documents that are taken in.", rich_help_panel=_HOW)
    ] = 1665,
    bank_size: Annotated[
        int | None,
        typer.Option(
            min=1, show_default="all", help="Documents in a memory; more memories than one.", rich_help_panel=_HOW
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, show_default="all", help="Most questions to ask, evenly spaced.", rich_help_panel=_HOW),
    ] = None,
    golds: Annotated[
        str,
        typer.Option(
            metavar="WHICH",
            help="Hold answers against the shortest gold answer, as the paper does, or the best of any.",
            rich_help_panel=_HOW,
        ),
    ] = "shortest",
    read: ReadOption = None,
    train: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="Questions that methods may learn from, as squad:[b]train[/b]; may be given again.",
            rich_help_panel=_TRAINED,
        ),
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            show_default="squad:validation for squad:train, else a tenth of the documents",
            help="Questions that learning rates are chosen by.",
            rich_help_panel=_TRAINED,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Train MBC by this preset, in place of --model.",
            autocompletion=presets,
            rich_help_panel=_TRAINED,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a setting of the preset: training.epochs=3; may be given again.",
            rich_help_panel=_TRAINED,
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH",
            show_default="the date and the data's name",
            help="The folder that keeps everything; alone, it goes on where it ended.",
            autocompletion=evaluations,
            rich_help_panel=_WHERE,
        ),
    ] = None,
    data_folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            envvar="MBC_DATA",
            show_default="the working folder",
            help="Where the files lie that a suite names.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only tell what it needs, and what of it can be done here.")
    ] = False,
    hours: Annotated[
        float, typer.Option(min=0, help="Pass over what of a suite is estimated to take longer here.")
    ] = _HOURS,
    device: DeviceOption = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads to use.")] = None,
    report: ReportOption = False,
    json: JsonOption = False,
) -> None:
    """Measure how well methods answer: exact match, F1, sources, seconds, bytes.

    A method takes in documents, then is asked about them. Without --[b]train[/b] a trained model is asked, and controls
    whose bank is empty, shuffled or of other documents: a model that answers no better than they do makes no use of
    its memory. Everything is kept in one folder, with a page for the browser, report.html. Ctrl-C stops it; --run goes
    on.

    \b
    Examples:
      mbc eval --data newswire:test:64
      mbc eval --model runs/mine --data questions.jsonl --bank-size 16 --json
      mbc eval --preset mini --[b]train[/b] "news.jsonl[:900]" --data "news.jsonl[900:]" --method mbc --method mac
      mbc eval --suite paper --plan
      mbc eval --suite small --data-folder data --run small
    """
    from mbc_cli.program import is_typed
    from mbc_engine.errors import ConfigError

    if ctx.invoked_subcommand is not None:
        typed = [param.opts[0] for param in ctx.command.params if param.name and is_typed(ctx, param.name)]
        if typed:
            named = ctx.invoked_subcommand
            raise ConfigError(f"{typed[0]} is not for {named} here.", hint=f"Options stand behind `mbc eval {named}`.")
        return
    from mbc_cli.commands.evaluate.one import One, settings_of
    from mbc_cli.commands.evaluate.work import Place, show_plan, work
    from mbc_cli.evaluations import existing_evaluation, find_evaluation, new_evaluation, require_one

    require_one(data, suite, run)
    if suite is None and is_typed(ctx, "data_folder"):
        raise ConfigError("--data-folder is for --suite.", hint="It says where the files lie that a suite names.")
    folder = find_evaluation(run) if run else None
    if data is None:
        typed = [name.replace("_", "-") for name in _OF_ONE if is_typed(ctx, name)]
        if typed:
            told = f"--{typed[0].replace('settings', 'set')}"
            raise ConfigError(f"{told} is for --data.", hint="A suite is settled: copy its TOML file to change it.")
    if suite is not None:
        from mbc_engine.experiments.suites import load_suite

        experiment, stem = load_suite(suite, data_folder), Path(suite).stem
    elif data is not None:
        one = One(
            data=data,
            model=model if preset is None or is_typed(ctx, "model") else None,
            preset=preset,
            changes=settings or [],
            methods=method or [],
            protocols=protocol or [],
            documents=documents,
            bank_documents=bank_size,
            questions=limit,
            golds=golds,
            read=read,
            train=train or [],
            validation=validation,
        )
        experiment = settings_of(one)
        stem = experiment.datasets[0].name
    else:
        assert run is not None
        kept = existing_evaluation(run)
        experiment, folder, stem = _settings_in(kept.path), kept.path, kept.path.name
    is_grid = len(experiment.bases) * len(experiment.datasets) > 1
    place = Place(device, threads, hours)
    if plan:
        show_plan(experiment, place, as_json=json)
    else:
        work(experiment, folder or new_evaluation(stem), place, is_grid=is_grid, opens=report, as_json=json)


def _settings_in(folder: Path) -> "ExperimentSettings":
    from mbc_engine.experiments.suites import settings_in

    return settings_in(folder)
