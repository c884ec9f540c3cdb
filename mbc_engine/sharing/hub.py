"""Where shared models lie: one interface for the hub and for a folder that acts as one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mbc_engine.errors import ModelError
from mbc_engine.events import Event
from mbc_engine.sharing.contents import CARD, MODEL_FILES

Moved = Callable[[int], None]


class NotOnHub(ModelError):
    """There is no such repository, or none that this user may see."""


@dataclass(frozen=True)
class FilesMoved(Event):
    """`done` of `total` bytes of a model have come from a hub or gone to it; `file` is under way."""

    done: int
    total: int
    file: str


@dataclass(frozen=True)
class HubFile:
    """A file of a repository.

    Attributes:
        name: its path there.
        size: in bytes.
        sha256: what its content must hash to; None if the hub does not say.
    """

    name: str
    size: int
    sha256: str | None = None


@dataclass(frozen=True)
class Listing:
    """The files of a shared model in a repository; what else lies there is left out.

    Attributes:
        repository: OWNER/NAME.
        revision: the commit they are of; None where there are no commits.
        files: in the order of `SHARED_FILES`.
    """

    repository: str
    revision: str | None
    files: tuple[HubFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def missing(self) -> tuple[str, ...]:
        """Files that a model needs and that are not there."""
        here = {file.name for file in self.files}
        return tuple(name for name in MODEL_FILES if name not in here)

    @property
    def has_card(self) -> bool:
        """Whether there is a model card."""
        return any(file.name == CARD for file in self.files)

    @property
    def holds_something(self) -> bool:
        """Whether a model, or a part of one, is there already."""
        return len(self.missing) < len(MODEL_FILES)


class Hub(Protocol):
    """A place of repositories named OWNER/NAME. Every method raises ModelError, in words, where it cannot do its work.

    `moved` is told how many bytes of a file have moved so far. Callbacks and not events of a generator: the client of
    the hub works with callbacks, and so Ctrl-C reaches it in the thread that waits for it.
    """

    @property
    def place(self) -> str:
        """Where it is, in a person's words."""

    def listing(self, repository: str, revision: str | None = None) -> Listing:
        """The files of a model; raises `NotOnHub` if there is no such repository."""

    def fetch(self, listing: Listing, file: HubFile, folder: Path, moved: Moved) -> None:
        """Bring a file of a listing into a folder, under its name; what of it is there from before is made use of."""

    def card(self, listing: Listing) -> str:
        """The text of the model card."""

    def publish(
        self,
        repository: str,
        contents: Mapping[str, Path | bytes],
        *,
        is_private: bool,
        message: str,
        moved: Callable[[str, int], None],
    ) -> str | None:
        """Put files into a repository, made if there is none: all at once, or none. Returns the new revision.

        A model that was there goes, with what this one has not; a card stays unless there is one among the files.
        """
