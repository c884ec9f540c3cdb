"""`mbc models pull` and `mbc models push`: models from the hub and to it."""

import logging
import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from mbc_cli.commands.models import made_of
from mbc_cli.completion import models
from mbc_cli.models import find, not_found, settings_of
from mbc_cli.options import JsonOption, RunsOption
from mbc_cli.render.terminal import notes, print_facts, print_json, verbosity
from mbc_cli.text import near, plain, size

_RepositoryArgument = Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The model's name on the hub.")]
_RevisionOption = Annotated[
    str | None,
    typer.Option("--revision", metavar="REVISION", show_default="the latest", help="A branch, a tag or a commit."),
]
_NameOption = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", show_default="OWNER/NAME", help="The name to save it under."),
]
_ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model's name or folder, or a training run.", autocompletion=models)
]
_LicenceOption = Annotated[
    str | None,
    typer.Option(
        "--license", metavar="NAME", show_default="none", help="The licence in the model card, such as apache-2.0."
    ),
]
_CARDS = {"written": "written by mbc", "beside": "the model's own README.md", "kept": "unchanged on the hub"}


def pull(
    repository: _RepositoryArgument,
    *,
    revision: _RevisionOption = None,
    name: _NameOption = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing model of that name.")] = False,
    json: JsonOption = False,
) -> None:
    """Download a shared model; every command then takes it as --model OWNER/NAME.

    Only weights and settings are downloaded, never code, and they are checked before they are saved to your data
    folder. Its base LM and encoders are downloaded when it is first used. Ctrl-C leaves all models unchanged.

    Examples:
      mbc models pull ada/notes-gpt2
      mbc models pull ada/notes-gpt2 --revision v2 --name notes-v2
    """
    from mbc_cli.program import ending_with
    from mbc_engine.config import own_models
    from mbc_engine.sharing.hub import pull as pull_model

    _set_up_client()
    with ending_with("No model was changed; run the same command again to continue."):
        pulled = pull_model(repository, own_models(), name=name, revision=revision, replaces=force)
    name, folder = name or repository, own_models() / (name or repository)
    made = made_of(settings_of(pulled.config))
    if json:
        source = {"model": name, "path": str(folder), "repository": repository, "revision": pulled.revision}
        print_json({**source, "size": pulled.size, **made})
        return
    print_facts(
        [
            ("model", name),
            ("folder", near(folder)),
            ("from", f"{repository} at {str(pulled.revision)[:12]}"),
            ("size", size(pulled.size)),
            ("base LM", made["base"]),
            ("encoders", ", ".join(dict.fromkeys(made["encoders"].values()))),
            ("per chunk", f"{made['codes']['bits_per_chunk'] / 8:g} bytes"),
            ("ask", f"mbc ask --model {name}"),
        ]
    )
    notes.print("The base LM and the encoders are not included; they are loaded by name when the model is used.")


def push(
    model: _ModelArgument,
    repository: _RepositoryArgument,
    *,
    private: Annotated[bool, typer.Option("--private", help="Create a private repository.")] = False,
    licence: _LicenceOption = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the model on the hub.")] = False,
    runs: RunsOption,
    json: JsonOption = False,
) -> None:
    """Share a model on the hub: its settings, trained weights and a model card, in one commit.

    The card describes the model and, if it comes from a training run, its training and results; a README.md in the
    model's folder replaces it. Neither the base LM nor any document is shared. To share a model without the hub, copy
    its folder.

    Examples:
      mbc models push first ada/notes-gpt2 --license apache-2.0
    """
    from mbc_cli.program import ending_with
    from mbc_cli.runs import read_run, run_of
    from mbc_engine.errors import ModelError
    from mbc_engine.runs.training_runs import is_at_work
    from mbc_engine.sharing.hub import push as push_model

    found = find(model, runs)
    if found is None:
        raise not_found(model, runs)
    run = run_of(found.folder)
    if run and is_at_work(run):
        raise ModelError(f"{model} is being trained.", hint="Share it when its training has ended or is paused.")
    _set_up_client()
    with ending_with("Nothing was shared."):
        pushed = push_model(
            found.folder,
            repository,
            licence=licence,
            history=read_run(run, has_curves=False).history if run else None,
            command=_training_command(run) if run else None,
            replaces=force,
            is_private=private,
        )
    if json:
        shared = {"model": found.name, "repository": repository, "revision": pushed.revision}
        print_json({**shared, "size": pushed.size, "card": pushed.card})
        return
    encoders = made_of(settings_of(pushed.config))["encoders"].values()
    for name in sorted({pushed.config.model.base, *encoders}):
        if Path(name).exists():
            notes.print(plain(f"{name} is also a folder here; others will get {name} from the hub."), style="yellow")
    print_facts(
        [
            ("model", found.name),
            ("shared as", f"{repository} at {str(pushed.revision)[:12]}"),
            ("size", size(pushed.size)),
            ("card", _CARDS[pushed.card]),
            ("pull", f"mbc models pull {repository}"),
        ]
    )


def _training_command(run: Path) -> str | None:
    """How to train the same model, with file names but no paths."""
    from mbc_cli.runs import command_of

    command = command_of(run)
    if command is None:
        return None
    words = ["mbc", "train", "--preset", "config.toml"]
    given = [("--data", spec) for spec in command.data]
    given += [("--validation", command.validation)] if command.validation else []
    given += [("--from", command.start)] if command.start else []
    for option, spec in given:
        words += [option, re.sub(r"(^|:)/.*/", r"\1", spec, flags=re.DOTALL)]
    return shlex.join(words)


def _set_up_client() -> None:
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if notes.quiet or not notes.is_terminal:
        disable_progress_bars()
    if not verbosity().verbose:
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
