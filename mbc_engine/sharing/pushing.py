"""Pushing a model: checked as a pulled one is, with a card, in one piece."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.events import Event
from mbc_engine.sharing.card import MARK, Training, model_card
from mbc_engine.sharing.hub import FilesMoved, Hub, Listing, NotOnHub
from mbc_engine.sharing.inspection import CARD, MODEL_FILES, TENSOR_FILES, SharedModel, inspect, require_repository

_MESSAGE: Final = "Share a model of mbc"


class CardOrigin(StrEnum):
    """Whose model card it is."""

    WRITTEN = "written by mbc"
    BESIDE = "the README.md beside the model"
    KEPT = "the one on the hub, as it was"


@dataclass(frozen=True)
class Pushed:
    """A model that was shared.

    Attributes:
        revision: its commit; None where there are no commits.
        size: bytes that were pushed.
        card: whose card it has.
        model: what it says of itself.
    """

    revision: str | None
    size: int
    card: CardOrigin
    model: SharedModel


def push(
    hub: Hub,
    folder: Path,
    repository: str,
    *,
    training: Training | None = None,
    licence: str | None = None,
    renews_card: bool = False,
    replaces: bool = False,
    is_private: bool = False,
    author: str = "mbc",
    show: Callable[[Event], None],
) -> Pushed:
    """Share the model in a folder, which is left as it is.

    Args:
        hub: where to.
        folder: the model's.
        repository: OWNER/NAME, made if there is none.
        training: what the card tells of its run.
        licence: for a card that is written here.
        renews_card: write a card where somebody wrote one by hand.
        replaces: a model that is there makes way; on the hub it stays in the history.
        is_private: a new repository is for its owner alone.
        author: the program that writes a card, with its version.
        show: gets a `FilesMoved` now and then.

    Raises:
        ConfigError: the name cannot be used or is taken, or the licence belongs into a card that is kept.
        ModelError: the model is not sound, names something of this machine alone, or the hub does not take it.
    """
    require_repository(repository)
    model = inspect(folder, f"The model in {folder}", "Others could not use it either; mend it before it is shared.")
    there = _listing(hub, repository)
    if there is not None and there.holds_something and not replaces:
        raise ConfigError(
            f"{repository} is on {hub.place} already.", hint="--force puts this model there in its place."
        )
    origin = _card_origin(hub, there, folder, renews_card=renews_card)
    if licence and origin is not CardOrigin.WRITTEN:
        raise ConfigError(
            f"The card is {origin}, and --license would not be in it.",
            hint="Write the licence into that card, or let --renew-card write a new one.",
        )
    before = _stamps(folder)
    contents = _contents(folder, has_card=origin is CardOrigin.BESIDE)
    if origin is CardOrigin.WRITTEN:
        contents[CARD] = model_card(model, repository, training=training, licence=licence, author=author).encode()
    total, gone = sum(map(_size, contents.values())), dict.fromkeys(contents, 0)

    def moved(name: str, done: int) -> None:
        if not before or _stamps(folder) != before:
            raise ModelError(f"The model in {folder} changed on its way.", hint="Push it when its training has ended.")
        gone[name] = done
        show(FilesMoved(sum(gone.values()), total, name))

    show(FilesMoved(0, total, next(iter(contents))))
    revision = hub.publish(repository, contents, is_private=is_private, message=_MESSAGE, moved=moved)
    return Pushed(revision, total, origin, model)


def _listing(hub: Hub, repository: str) -> Listing | None:
    try:
        return hub.listing(repository)
    except NotOnHub:
        return None


def _card_origin(hub: Hub, there: Listing | None, folder: Path, *, renews_card: bool) -> CardOrigin:
    """A card written by hand is kept, the one beside the model before the one on the hub."""
    if renews_card:
        return CardOrigin.WRITTEN
    if (folder / CARD).is_file():
        return CardOrigin.BESIDE
    is_theirs = there is not None and there.has_card and MARK not in hub.card(there)
    return CardOrigin.KEPT if is_theirs else CardOrigin.WRITTEN


def _stamps(folder: Path) -> list[tuple[int, int]]:
    """What tells a model from the one that its training puts in its place; nothing while it does."""
    try:
        return [((found := (folder / name).stat()).st_ino, found.st_mtime_ns) for name in MODEL_FILES]
    except OSError:
        return []


def _contents(folder: Path, *, has_card: bool) -> dict[str, Path | bytes]:
    """What goes: the settings as they are now, weights from where they lie, which is looked at as they go."""
    names = (*MODEL_FILES, CARD) if has_card else MODEL_FILES
    try:
        return {name: folder / name if name in TENSOR_FILES else (folder / name).read_bytes() for name in names}
    except OSError as error:
        raise _unreadable(error) from error


def _size(content: Path | bytes) -> int:
    try:
        return len(content) if isinstance(content, bytes) else content.stat().st_size
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> ModelError:
    return ModelError(f"{error.filename} cannot be read: {error.strerror}.", hint="Check its permissions.")
