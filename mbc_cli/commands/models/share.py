"""`mbc models pull`: a model that others share.

`mbc models push`: share a model with others.

Models on their way from and to a hub.

The hub as it is seen from here: whether it may be asked, whether it answers, and what of it was downloaded.
"""

import re
import shlex
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatchmethod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mbc_cli.commands.models import HubOption, RepositoryArgument, hub_of
from mbc_cli.commands.models.show import made_of
from mbc_cli.completion import models
from mbc_cli.options import JsonOption, RunsOption
from mbc_cli.render.bank import code_layout
from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import notes, print_facts
from mbc_cli.text import near, plain, size
from mbc_engine.events import Event
from mbc_engine.sharing.hub import FilesMoved

if TYPE_CHECKING:
    from mbc_cli.runs import RunCommand
    from mbc_engine.sharing.card import Training
    from mbc_engine.sharing.pulling import Pulled
    from mbc_engine.sharing.pushing import Pushed


def pull(
    repository: RepositoryArgument,
    *,
    revision: Annotated[
        str | None,
        typer.Option("--revision", metavar="REVISION", show_default="the latest", help="A branch, a tag or a commit."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", show_default="OWNER/NAME", help="The name to save it under."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing model of that name.")] = False,
    hub: HubOption = None,
    json: JsonOption = False,
) -> None:
    """Download a shared model; every command then takes it as --model OWNER/NAME.

    Only weights and settings are downloaded, never code; they are checked before they
    are put into your data folder. Its base LM and encoders are downloaded when it is
    first used. Ctrl-C leaves all models unchanged.

    \b
    Examples:
      mbc models pull ada/notes-gpt2
      mbc models pull ada/notes-gpt2 --revision v2 --name notes-v2
      mbc models pull ada/notes-gpt2 --hub /mnt/shared/models
    """
    from mbc_cli.interrupt import ending_with
    from mbc_cli.render.terminal import print_json
    from mbc_engine.model_folder import own_models
    from mbc_engine.sharing.pulling import pull as bring

    source = hub_of(hub)
    with (
        ending_with("All models are as they were; the same command goes on with the files that came whole."),
        SharingView("Pulling") as view,
    ):
        pulled = bring(source, repository, own_models(), name=name, revision=revision, replaces=force, show=view.show)
    if json:
        print_json(pulled_json(pulled, source.place))
    else:
        show_pulled(pulled, source.place)


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
    from mbc_cli.render.terminal import print_json
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


class SharingView(ProgressView):
    """Follows a pull or a push by its events.

    Args:
        name: of the bar.
    """

    def __init__(self, name: str) -> None:
        super().__init__(in_bytes=True)
        self._name = name

    @singledispatchmethod
    def show(self, event: Event) -> None:
        """Draw an event."""

    @show.register
    def _(self, event: FilesMoved) -> None:
        self.bar(self._name, event.total, completed=event.done, note=Path(event.file).name)


def show_pulled(pulled: "Pulled", hub: str) -> None:
    """What came, where it is, and what it needs from elsewhere."""
    settings, shape = pulled.model.config.model, pulled.model.shape
    codes = code_layout(shape.tokens, shape.levels, shape.num_codes)
    encoders = dict.fromkeys(name for what, name in pulled.model.pretrained.items() if what != "base LM")
    print_facts(
        [
            ("model", pulled.name),
            ("folder", near(pulled.folder)),
            ("from", f"{pulled.listing.repository} on {hub}{_at(pulled.listing.revision)}"),
            ("size", size(pulled.listing.size)),
            ("base LM", settings.base),
            ("encoders" if len(encoders) > 1 else "encoder", ", ".join(encoders)),
            ("codes", f"{codes}, {shape.bits_per_chunk / 8:g} bytes a chunk"),
            ("ask it", f"mbc ask --model {pulled.name}"),
        ]
    )
    notes.print("The base LM and the encoders are not in it: they are found by these names when it is used.")


def pulled_json(pulled: "Pulled", hub: str) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "model": pulled.name,
        "path": str(pulled.folder),
        "repository": pulled.listing.repository,
        "hub": hub,
        "revision": pulled.listing.revision,
        "size": pulled.listing.size,
        **made_of(pulled.model.config.model),
        "stored": pulled.model.stored,
    }


def show_pushed(name: str, repository: str, pushed: "Pushed", hub: str) -> None:
    """What was shared as what."""
    for own in sorted(set(pushed.model.pretrained.values())):
        if Path(own).exists():
            notes.print(plain(f"{own} is a folder here as well; others get the {own} of the hub."), style="yellow")
    print_facts(
        [
            ("model", name),
            ("shared as", f"{repository} on {hub}{_at(pushed.revision)}"),
            ("size", size(pushed.size)),
            ("card", pushed.card),
            ("get it", f"mbc models pull {repository}"),
        ]
    )


def pushed_json(name: str, repository: str, pushed: "Pushed", hub: str) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "model": name,
        "repository": repository,
        "hub": hub,
        "revision": pushed.revision,
        "size": pushed.size,
        "card": pushed.card.name.lower(),
        "stored": pushed.model.stored,
    }


def _at(revision: str | None) -> str:
    return "" if revision is None else f" at {revision[:12]}"


# Seconds; whoever waits for a diagnosis waits no longer.
PATIENCE: Final = 3.0


@dataclass(frozen=True)
class Hub:
    """Where pretrained models come from.

    Attributes:
        offline: whether the environment forbids to ask it.
        reachable: whether it answered in a few seconds; None if it was not asked.
        cache: where downloaded models are.
        cached: their names.
    """

    offline: bool
    reachable: bool | None
    cache: str
    cached: list[str]


def hub_from_here(*, may_ask: bool) -> Hub:
    """The hub, and what of it is in the cache; asking whether it can be reached takes seconds at most."""
    try:
        from huggingface_hub import constants
    except ImportError:
        return Hub(offline=True, reachable=None, cache="", cached=[])
    reachable = None
    if may_ask and not constants.HF_HUB_OFFLINE:
        reachable = _within(PATIENCE, lambda: answers(constants.ENDPOINT))
    names = Path(constants.HF_HUB_CACHE).glob("models--*")
    return Hub(
        offline=constants.HF_HUB_OFFLINE,
        reachable=reachable,
        cache=constants.HF_HUB_CACHE,
        cached=sorted(path.name.removeprefix("models--").replace("--", "/") for path in names),
    )


def answers(address: str) -> bool:
    """Whether anything answers, whatever it says."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    try:
        asked = Request(address, method="HEAD")  # noqa: S310  # the address is the user's own setting
        urlopen(asked, timeout=PATIENCE).close()  # noqa: S310
    except HTTPError:
        return True
    except (OSError, ValueError):
        return False
    return True


def _within(patience: float, ask: Callable[[], bool]) -> bool:
    """What `ask` says, False if it takes too long: looking up a name knows no time limit of its own."""
    said: list[bool] = []
    thread = threading.Thread(target=lambda: said.append(ask()), daemon=True)
    thread.start()
    thread.join(patience)
    return bool(said) and said[0]
