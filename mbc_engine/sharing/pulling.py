"""Pulling a shared model: brought beside its place, checked there, and moved into place when it is whole and sound."""

import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import Timeout

from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.events import Event
from mbc_engine.model_folder import CONFIG, is_model, packaged_model
from mbc_engine.runs.event_log import work_lock
from mbc_engine.sharing.hub import FilesMoved, Hub, HubFile, Listing, put_in_place, restore
from mbc_engine.sharing.inspection import SharedModel, inspect, is_hub_id, require_repository

# Hidden, so that what is not whole is no model to anybody.
_INCOMING: Final = ".incoming"
_NOT_OURS: Final = "It came as the hub has it: tell its owner. Nothing of it was kept."


@dataclass(frozen=True)
class Pulled:
    """A model that has come.

    Attributes:
        name: what --model takes.
        folder: where it is.
        listing: what it was on the hub.
        model: what it says of itself.
    """

    name: str
    folder: Path
    listing: Listing
    model: SharedModel


def pull(
    hub: Hub,
    repository: str,
    models: Path,
    *,
    name: str | None = None,
    revision: str | None = None,
    replaces: bool = False,
    show: Callable[[Event], None],
) -> Pulled:
    """Bring a model into a folder of models.

    However it ends, the place holds the model that was there before or the new one, whole and checked. Only who is
    killed between the two moves that replace one leaves it to the next pull to bring back what was there. Files that
    came before an interruption are used by the next pull.

    Args:
        hub: where it is.
        repository: OWNER/NAME.
        models: where models lie.
        name: another name for it here.
        revision: a branch, tag or commit.
        replaces: a model of that name makes way.
        show: gets a `FilesMoved` now and then.

    Raises:
        ConfigError: a name cannot be used, or is taken.
        ModelError: it is not on the hub, cannot be fetched, or is not sound.
    """
    require_repository(repository)
    name = name or repository
    place = _place(models, name)
    _require_free(place, name, replaces=replaces)
    listing = hub.listing(repository, revision)
    if listing.missing:
        raise ModelError(
            f"{repository} holds no model of mbc: it has no {listing.missing[0]}.",
            hint="Check the name with its owner; retriever-readers such as mini cannot be shared yet.",
        )
    staging = models / _INCOMING / name.replace("/", "--")  # which stands in no name
    try:
        staging.mkdir(parents=True, exist_ok=True)
        with work_lock(staging / "lock"):
            restore(place, staging / "aside")
            try:
                _require_free(place, name, replaces=replaces)
                model = _bring(hub, listing, staging, show)
                put_in_place(staging / "whole", place, staging / "aside")
                shutil.rmtree(staging / "parts", ignore_errors=True)
            finally:
                _tidy(staging)
    except Timeout as error:
        raise ModelError(f"Another process is pulling {name}.", hint="Wait until it is done.") from error
    except OSError as error:
        raise ModelError(
            f"{error.filename or staging} cannot be written: {error.strerror or error}.",
            hint="Check its permissions, and the room on the disk.",
        ) from error
    return Pulled(name, place, listing, model)


def _tidy(staging: Path) -> None:
    """Leave nothing but what the next pull can use."""
    if not (staging / "parts").exists() and not (staging / "aside").exists():
        shutil.rmtree(staging, ignore_errors=True)
    with suppress(OSError):  # another pull is at work in it
        staging.parent.rmdir()


def _place(models: Path, name: str) -> Path:
    """Where a model of a name lies."""
    if not is_hub_id(name):
        raise ConfigError(
            f"{name!r} is not a valid model name.",
            hint="A name is NAME or OWNER/NAME, of letters, digits, dots, dashes and underscores.",
        )
    if is_model(packaged_model(name)):
        raise ConfigError(f"{name} is the name of a model of mbc itself.", hint="Choose another --name.")
    place = models / name
    if place.parent != models and (place.parent / CONFIG).exists():
        raise ConfigError(f"{place.parent} is a model itself.", hint="Choose another --name.")
    return place


def _require_free(place: Path, name: str, *, replaces: bool) -> None:
    if not os.path.lexists(place):
        return
    if not is_model(place):
        raise ConfigError(f"{place} is there already, and no model.", hint="Move it away, or choose another --name.")
    if not replaces:
        raise ConfigError(
            f"There is a model {name} already.", hint="--force replaces it, --name NAME puts the new one beside it."
        )


def _bring(hub: Hub, listing: Listing, staging: Path, show: Callable[[Event], None]) -> SharedModel:
    """Fetch the files, gather in `whole` these and nothing that came before them, and check them."""
    parts, whole = staging / "parts", staging / "whole"
    _require_room(listing, parts, staging)
    before = 0
    for file in listing.files:
        hub.fetch(listing, file, parts, lambda done: show(FilesMoved(before + done, listing.size, file.name)))  # noqa: B023
        _require_same(file, parts / file.name)
        before += file.size
        show(FilesMoved(before, listing.size, file.name))
    shutil.rmtree(whole, ignore_errors=True)
    for file in listing.files:
        (whole / file.name).parent.mkdir(parents=True, exist_ok=True)
        (parts / file.name).rename(whole / file.name)
    try:
        return inspect(whole, listing.repository, _NOT_OURS)
    except ModelError:
        shutil.rmtree(parts, ignore_errors=True)
        raise


def _require_room(listing: Listing, parts: Path, staging: Path) -> None:
    free = shutil.disk_usage(staging).free
    needed = listing.size - sum(path.stat().st_size for path in parts.rglob("*") if path.is_file())
    if needed > free:
        raise ModelError(
            f"{listing.repository} takes {needed / 1e6:,.0f} MB, and the disk of {staging.parent.parent} has "
            f"{free / 1e6:,.0f} MB left.",
            hint="Make room, or set XDG_DATA_HOME to another disk.",
        )


def _require_same(file: HubFile, path: Path) -> None:
    """What has come is what the hub listed; what is not goes, so that the next pull fetches it anew."""
    is_same = path.is_file() and not path.is_symlink() and path.stat().st_size == file.size
    if is_same and file.sha256 is not None:
        with path.open("rb") as content:
            is_same = hashlib.file_digest(content, "sha256").hexdigest() == file.sha256
    if not is_same:
        path.unlink(missing_ok=True)
        raise ModelError(f"{file.name} did not come as the hub has it.", hint="Pull it again.")
