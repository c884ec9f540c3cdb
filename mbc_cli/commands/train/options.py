"""The options of `mbc train` that no other command has.

In help texts `[b]train[/b]` keeps Rich from reading a tram out of `newswire:train:5000`.
"""

from typing import Annotated

import typer

from mbc_cli.completion import models, presets, runs

PresetOption = Annotated[
    str | None, typer.Option(metavar="NAME|FILE", autocompletion=presets, help="A built-in preset, or a TOML file.")
]
DataOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SPEC",
        help="A .jsonl, .csv or .json file, squad:train, or newswire:[b]train[/b]:5000; can be repeated.",
    ),
]
ValidationOption = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        show_default="squad:validation for squad:train, else the last 5% of the documents",
        help="Validate on this.",
    ),
]
RunOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|PATH",
        show_default="the preset's name and a number",
        autocompletion=runs,
        help="The run's folder.",
    ),
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue --run where it stopped.")]
BaseOption = Annotated[
    str | None,
    typer.Option(metavar="MODEL", show_default="the preset's", help="The base LM: a hub id, or the folder of a model."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: training.epochs=3; can be repeated."),
]
FromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="MODEL", autocompletion=models, help="Start from the weights of this model."),
]
CompileOption = Annotated[bool, typer.Option("--compile", help="Compile encoders and aggregator with torch.compile.")]
TrackOption = Annotated[
    list[str] | None,
    typer.Option(metavar="TRACKER", help="Log metrics to tensorboard, wandb, ...; can be repeated."),
]
ListPresetsOption = Annotated[bool, typer.Option("--list-presets", help="List the built-in presets.")]
