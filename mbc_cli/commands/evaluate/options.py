"""The options of `mbc eval` that no other command has.

In help texts `[b]train[/b]` keeps Rich from reading a tram out of `squad:train`.
"""

from pathlib import Path
from typing import Annotated, get_args

import typer

from mbc_cli.completion import evaluations, golds, methods, presets, protocols, suites
from mbc_engine.experiments.roster import METHODS
from mbc_engine.experiments.settings import Protocol
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
