"""`mbc models push`: share a model with others."""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbc_cli.commands.models.options import HubOption, RepositoryArgument, hub_of
from mbc_cli.completion import models
from mbc_cli.options import JsonOption, RunsOption

if TYPE_CHECKING:
    from mbc_cli.runs import RunCommand
    from mbc_engine.sharing.card import Training


_ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model's name or folder, or a training run.", autocompletion=models)
]
_PrivateOption = Annotated[bool, typer.Option("--private", help="Make a new repository private.")]
_LicenceOption = Annotated[
    str | None, typer.Option("--license", metavar="NAME", show_default="none", help="For the model card: apache-2.0.")
]
_RenewCardOption = Annotated[
    bool, typer.Option("--renew-card", help="Overwrite a model card that was written by hand.")
]
_ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite an existing model.")]


def push(
    model: _ModelArgument,
    repository: RepositoryArgument,
    *,
    private: _PrivateOption = False,
    licence: _LicenceOption = None,
    renew_card: _RenewCardOption = False,
    force: _ForceOption = False,
    hub: HubOption = None,
    runs: RunsOption,
    json: JsonOption = False,
) -> None:
    """Share a model on the hub: its settings, trained weights and a model card, in one commit.

    The card describes the model and, if it comes from a training run, how it was
    trained and its results; a README.md in the model's folder replaces it. Neither
    the base LM nor any document is shared. After Ctrl-C nothing is shared.

    \b
    Examples:
      mbc models push first ada/notes-gpt2 --license apache-2.0
      mbc models push first ada/notes-gpt2 --hub /mnt/shared/models
    """
    from mbc_cli.interrupt import ending_with
    from mbc_cli.models import find, nothing_of
    from mbc_cli.render.consoles import print_json
    from mbc_cli.render.sharing import SharingView, pushed_json, show_pushed
    from mbc_engine import __version__
    from mbc_engine.sharing.pushing import push as share

    found = find(model, runs)
    if found is None:
        raise nothing_of(model, runs)
    target = hub_of(hub)
    with (
        ending_with("Nothing was shared; the same command begins anew."),
        SharingView("Pushing") as view,
    ):
        pushed = share(
            target,
            found.folder,
            repository,
            training=_training_of(found.folder),
            licence=licence,
            renews_card=renew_card,
            replaces=force,
            is_private=private,
            author=f"mbc {__version__}",
            show=view.show,
        )
    if json:
        print_json(pushed_json(found.name, repository, pushed, target.place))
    else:
        show_pushed(found.name, repository, pushed, target.place)


def _training_of(folder: Path) -> "Training | None":
    """What the run knows whose model lies in a folder; None if it is no run's."""
    from mbc_cli.runs import command_of, read_run, run_of
    from mbc_engine.sharing.card import Training

    run = run_of(folder)
    if run is None:
        return None
    command = command_of(run)
    return Training(
        read_run(run, has_curves=False).history,
        _command_line(command) if command else None,
        command.device if command else None,
    )


def _command_line(command: "RunCommand") -> str:
    """How to train the same: with the names of files, and nothing of where they lay."""
    words = ["mbc", "train", "--preset", "config.toml"]
    for option, specs in (
        ("--data", command.data),
        ("--validation", [command.validation] if command.validation else []),
        ("--from", [command.start] if command.start else []),
    ):
        words += [word for spec in specs for word in (option, re.sub(r"(^|:)/.*/", r"\1", spec, flags=re.DOTALL))]
    return shlex.join(words)
