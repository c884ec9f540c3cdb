"""Models on their way from and to a hub."""

from functools import singledispatchmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mbc_cli.render.bank.facts import code_layout
from mbc_cli.render.consoles import notes, print_facts
from mbc_cli.render.models import made_of
from mbc_cli.render.progress import ProgressView
from mbc_cli.text import near, plain, size
from mbc_engine.events import Event
from mbc_engine.sharing.hub import FilesMoved

if TYPE_CHECKING:
    from mbc_engine.sharing.pulling import Pulled
    from mbc_engine.sharing.pushing import Pushed


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
