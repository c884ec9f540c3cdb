"""The options of `mbc eval` that no other command has.

In help texts `[b]train[/b]` keeps Rich from reading a tram out of `squad:train`.

`mbc eval`: how well methods answer, on one data set, or on a grid of them.
"""

from pathlib import Path
from typing import Annotated, get_args

import typer

from mbc_cli.completion import evaluations, golds, methods, presets, protocols, suites
from mbc_cli.options import DeviceOption, JsonOption, ModelOption, ReadOption, ThreadsOption
from mbc_engine.experiments.cells import Protocol
from mbc_engine.experiments.registry import METHODS
from mbc_engine.metrics import Golds

_WHAT, _HOW, _TRAINED, _WHERE = "What", "How", "What is trained for it", "Where"

EvaluationArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="An evaluation's name or folder.", autocompletion=evaluations)
]
DataOption = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help="Questions to ask: a .jsonl, .csv or .json file, squad:test, or newswire:test:64.",
        rich_help_panel=_WHAT,
    ),
]
SuiteOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        help="A whole grid instead: paper, small, or a TOML file.",
        autocompletion=suites,
        rich_help_panel=_WHAT,
    ),
]
MethodOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        show_default="the model's own, with its controls",
        help=f"{', '.join(name for name, kind in METHODS.items() if kind.control_of is None)}, or a control; may be "
        "given again.",
        autocompletion=methods,
        rich_help_panel=_WHAT,
    ),
]
ProtocolOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        show_default="online",
        help=f"{', '.join(get_args(Protocol))}; can be repeated.",
        autocompletion=protocols,
        rich_help_panel=_WHAT,
    ),
]
DocumentsOption = Annotated[int, typer.Option(min=1, help="Most documents to memorise.", rich_help_panel=_HOW)]
BankSizeOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        show_default="all",
        help="Documents in each memory; the rest go into further memories.",
        rich_help_panel=_HOW,
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(min=1, show_default="all", help="Most questions to ask, evenly spaced.", rich_help_panel=_HOW),
]
GoldsOption = Annotated[
    str,
    typer.Option(
        metavar="|".join(get_args(Golds)),
        help="Score answers against the shortest gold answer, as the paper does, or the best match of any.",
        autocompletion=golds,
        rich_help_panel=_HOW,
    ),
]
TrainOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SPEC",
        help="Questions that methods may learn from, as squad:[b]train[/b]; can be repeated.",
        rich_help_panel=_TRAINED,
    ),
]
ValidationOption = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        show_default="squad:validation for squad:train, else a tenth of the documents",
        help="Questions used to choose learning rates.",
        rich_help_panel=_TRAINED,
    ),
]
PresetOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        help="Train MBC with this preset instead of using --model.",
        autocompletion=presets,
        rich_help_panel=_TRAINED,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting of the preset: training.epochs=3; can be repeated.",
        rich_help_panel=_TRAINED,
    ),
]
RunOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|PATH",
        show_default="the date and the data's name",
        help="The folder that keeps everything; given alone, it continues where it stopped.",
        autocompletion=evaluations,
        rich_help_panel=_WHERE,
    ),
]
DataFolderOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        envvar="MBC_DATA",
        show_default="the working folder",
        help="The folder of the files that a suite names.",
        rich_help_panel=_WHERE,
    ),
]
PlanOption = Annotated[bool, typer.Option("--plan", help="Only show what it needs and which parts can run here.")]
HoursOption = Annotated[
    float, typer.Option(min=0, help="Skip parts of a suite estimated to take longer than this here.")
]
ReportOption = Annotated[bool, typer.Option("--report", help="Open the report in the browser.")]


def evaluate(
    ctx: typer.Context,
    *,
    data: DataOption = None,
    suite: SuiteOption = None,
    model: ModelOption,
    method: MethodOption = None,
    protocol: ProtocolOption = None,
    documents: DocumentsOption = 1665,
    bank_size: BankSizeOption = None,
    limit: LimitOption = None,
    golds: GoldsOption = "shortest",
    read: ReadOption = None,
    train: TrainOption = None,
    validation: ValidationOption = None,
    preset: PresetOption = None,
    settings: SetOption = None,
    run: RunOption = None,
    data_folder: DataFolderOption = None,
    plan: PlanOption = False,
    hours: HoursOption = 100.0,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    report: ReportOption = False,
    json: JsonOption = False,
) -> None:
    """Evaluate how well methods answer: exact match, F1, sources, seconds, bytes.

    A method takes in documents, then is asked about them. Without --[b]train[/b] a trained model is asked. One of the
    paper's method is asked with an empty bank, too, and with ones that are shuffled or hold other documents: a model
    that answers no better then makes no use of its memory. Everything is kept in one folder, with an HTML report, report.html.
    Ctrl-C stops the evaluation; --run continues it.

    \b
    Examples:
      mbc eval --data newswire:test:64
      mbc eval --model runs/mine --data questions.jsonl --bank-size 16 --json
      mbc eval --preset mini --[b]train[/b] "news.jsonl[:900]" --data "news.jsonl[900:]" --method mbc --method mac
      mbc eval --suite paper --plan
      mbc eval --suite small --data-folder data --run small
    """
    if ctx.invoked_subcommand is not None:
        return
    from mbc_cli.commands.evaluate.choice import Amounts, Learning, One, choose
    from mbc_cli.commands.evaluate.work import Means, show_plan, work
    from mbc_cli.engine import require_device

    require_device(device)
    amounts = Amounts(documents=documents, bank_documents=bank_size, questions=limit)
    learning = Learning(train=train or [], validation=validation, preset=preset, changes=settings or [])
    one = One(model, method or [], protocol or [], golds, read, amounts, learning)
    chosen, means = choose(ctx, data, suite, one, data_folder, run), Means(device, threads, hours)
    if plan:
        show_plan(chosen.settings, means, as_json=json)
    else:
        work(chosen, means, opens=report, as_json=json)
