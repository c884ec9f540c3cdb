"""Where shared models lie: one interface for the hub and for a folder that acts as one.

A folder that is never there in part: made elsewhere, moved to its place when it is whole.

A folder that acts as a hub: models lie in it as OWNER/NAME. For shared disks, and without a network.

The hub itself, through its own client: with the user's login, one commit for a whole model, and errors in words.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import gaierror
from typing import Any, Final, Protocol, Self

from huggingface_hub import CommitOperationAdd, HfApi, get_token
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.tqdm import disable_progress_bars

from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.events import Event
from mbc_engine.sharing.inspection import CARD, MODEL_FILES, SHARED_FILES

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


def put_in_place(whole: Path, place: Path, aside: Path) -> None:
    """Move a folder to its place. What was there is moved aside, and back if that fails; all on one file system.

    Between the two moves there is nothing: who is ended just then leaves it to the next one to `restore`.

    Raises:
        OSError: it cannot be moved.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        if os.path.lexists(place):
            place.rename(aside)
        whole.rename(place)
    except BaseException:
        restore(place, aside)
        raise
    _remove(aside)


def restore(place: Path, aside: Path) -> None:
    """Bring back what was moved aside by someone who was ended before the place was taken again; else it goes."""
    if place.exists():
        _remove(aside)
    elif os.path.lexists(aside):
        aside.rename(place)


def _remove(folder: Path) -> None:
    """Of a link to a folder only the link goes."""
    if folder.is_symlink():
        folder.unlink(missing_ok=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)


_BLOCK: Final = 1 << 20
_OF_MODEL: Final = frozenset(Path(name).parts[0] for name in SHARED_FILES if name != CARD)


class FolderHub:
    """Models in a folder.

    Args:
        folder: it must be there.

    Raises:
        ModelError: it is not.
    """

    def __init__(self, folder: Path) -> None:
        with _told(folder):
            if not folder.is_dir():
                raise ModelError(f"There is no folder {folder} to act as the hub.", hint="Make it, or leave out --hub.")
        self.folder = folder.absolute()

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.folder)

    def listing(self, repository: str, revision: str | None = None) -> Listing:
        """See `Hub`; a folder keeps no revisions."""
        if revision is not None:
            raise ConfigError("A folder that acts as the hub keeps no revisions.", hint="Leave out --revision.")
        home = self.folder / repository
        with _told(home):
            if not home.is_dir():
                raise NotOnHub(f"There is no {repository} in {self.folder}.", hint="Models lie in it as OWNER/NAME.")
            paths = {name: home / name for name in SHARED_FILES}
            files = (HubFile(name, path.stat().st_size) for name, path in paths.items() if _is_file_of(home, path))
            return Listing(repository, None, tuple(files))

    def fetch(self, listing: Listing, file: HubFile, folder: Path, moved: Moved) -> None:
        """See `Hub`."""
        source, target = self.folder / listing.repository / file.name, folder / file.name
        with _told(target):  # a full disk names no file, and it is this one's
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(source, target, moved)

    def card(self, listing: Listing) -> str:
        """See `Hub`."""
        path = self.folder / listing.repository / CARD
        with _told(path):
            return path.read_text(encoding="utf-8", errors="replace")

    def publish(
        self,
        repository: str,
        contents: Mapping[str, Path | bytes],
        *,
        is_private: bool,
        message: str,
        moved: Callable[[str, int], None],
    ) -> str | None:
        """See `Hub`; a folder takes no message, and nothing in it is private."""
        if is_private:
            raise ConfigError(
                "A folder that acts as the hub has no private models.", hint="Its permissions say who may read it."
            )
        home = self.folder / repository
        with _told(home):
            home.parent.mkdir(parents=True, exist_ok=True)
            aside = home.with_name(f".{home.name}.aside")
            restore(home, aside)
            with tempfile.TemporaryDirectory(prefix=f".{home.name}.", dir=home.parent) as staging:
                whole = Path(staging) / "whole"
                whole.mkdir()
                for name, content in contents.items():
                    (whole / name).parent.mkdir(exist_ok=True)
                    if isinstance(content, bytes):
                        (whole / name).write_bytes(content)
                        moved(name, len(content))
                    else:
                        _copy(content, whole / name, partial(moved, name))
                _keep_others(home, whole)
                put_in_place(whole, home, aside)
        return None


def _is_file_of(home: Path, path: Path) -> bool:
    """Whether a file lies in a repository: a link of a stranger could lead to any file of whoever pulls."""
    return path.is_file() and path.resolve().is_relative_to(home.resolve())


def _copy(source: Path, target: Path, moved: Moved) -> None:
    """Make one file like another, writing only where they differ: what came before an interruption stays."""
    done = 0
    with source.open("rb") as origin, os.fdopen(os.open(target, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as copy:
        while block := origin.read(_BLOCK):
            if copy.read(len(block)) != block:
                copy.seek(done)
                copy.write(block)
            done += len(block)
            copy.seek(done)
            moved(done)
        copy.truncate(done)


def _keep_others(home: Path, whole: Path) -> None:
    """Take over what lies beside a model: a card that is not to be replaced, files of others."""
    for entry in home.iterdir() if home.is_dir() else ():
        if entry.name in _OF_MODEL:
            continue
        if entry.name != CARD and entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, whole / entry.name, symlinks=True)
        elif not (whole / entry.name).exists():
            shutil.copy2(entry, whole / entry.name, follow_symlinks=False)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say in words what the file system refuses."""
    try:
        yield
    except OSError as error:
        raise ModelError(
            f"{error.filename or path}: {error.strerror or error}.",
            hint="Check its permissions, and the room on the disk.",
        ) from error


# What its HTTP client raises where no answer comes; which client that is differs between versions.
_NO_ANSWER: Final[type[Exception]] = HfHubHTTPError.__bases__[0]
_LOG_IN: Final = "Log in with `hf auth login`, or set HF_TOKEN."
_NO_NETWORK: Final = "Check the network, or give a folder that acts as the hub: --hub FOLDER."


class OnlineHub:
    """Models on the hub.

    Args:
        api: its client.
    """

    def __init__(self, api: HfApi) -> None:
        self._api = api

    @property
    def place(self) -> str:
        """The hub."""
        return "the hub"

    def listing(self, repository: str, revision: str | None = None) -> Listing:
        """See `Hub`; the commit is noted, so that all files come from the same one whatever is pushed meanwhile."""
        with _online_hub_told(repository, revision):
            info = self._api.model_info(repository, revision=revision, files_metadata=True)
        found = {sibling.rfilename: sibling for sibling in info.siblings or ()}
        files = (
            HubFile(name, found[name].size or 0, lfs.sha256 if (lfs := found[name].lfs) else None)
            for name in SHARED_FILES
            if name in found
        )
        return Listing(repository, info.sha, tuple(files))

    def fetch(self, listing: Listing, file: HubFile, folder: Path, moved: Moved) -> None:
        """See `Hub`. A file that came whole is not fetched again."""
        with _online_hub_told(listing.repository, listing.revision):
            self._api.hf_hub_download(
                listing.repository,
                file.name,
                revision=listing.revision,
                local_dir=folder,
                tqdm_class=_meter(moved),
            )

    def card(self, listing: Listing) -> str:
        """See `Hub`."""
        with _online_hub_told(listing.repository, listing.revision):
            path = self._api.hf_hub_download(listing.repository, CARD, revision=listing.revision)
            return Path(path).read_text(encoding="utf-8", errors="replace")

    def publish(
        self,
        repository: str,
        contents: Mapping[str, Path | bytes],
        *,
        is_private: bool,
        message: str,
        moved: Callable[[str, int], None],
    ) -> str | None:
        """See `Hub`. Large files go first, one by one; nobody sees them before the commit that follows."""
        if not (self._api.token or get_token()):
            raise ModelError("You are not logged in to the hub.", hint=_LOG_IN)
        additions = [
            CommitOperationAdd(name, content if isinstance(content, bytes) else str(content))
            for name, content in contents.items()
        ]
        with _online_hub_told(repository), disable_progress_bars():
            self._api.create_repo(repository, private=is_private or None, exist_ok=True)
            there = self._api.model_info(repository)
            if is_private and not there.private:
                raise ModelError(
                    f"{repository} is there already, and public.",
                    hint="Make it private in its settings, or leave out --private.",
                )
            for addition in additions:
                size = addition.upload_info.size
                self._api.preupload_lfs_files(repository, [addition])
                moved(addition.path_in_repo, size)
            return self._api.create_commit(repository, additions, commit_message=message).oid


def _meter(moved: Moved) -> Any:
    """What the client takes for a progress bar: tells of bytes and draws nothing."""

    class Meter:
        """As much of a tqdm bar as the client uses; a file has one, which the client may make again to go on."""

        def __init__(self, *_: Any, initial: int = 0, **__: Any) -> None:
            self._done = initial

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            """Nothing was drawn."""

        def update(self, count: float | None = 1) -> None:
            """So many bytes more."""
            self._done += int(count or 0)
            moved(self._done)

        def update_transfer(self, count: float | None = 1) -> None:
            """Bytes on the wire, compressed or left out: not what is counted."""

        def set_postfix_str(self, *_: Any, **__: Any) -> None:
            """The pace is counted where it is drawn."""

        set_transfer_postfix_str = set_postfix_str

    return Meter


@contextmanager
def _online_hub_told(repository: str, revision: str | None = None) -> Iterator[None]:
    """Say in words what the hub, its client or the network say."""
    try:
        yield
    except (_NO_ANSWER, OSError, ValueError) as error:
        raise _in_words(error, repository, revision) from error


def _in_words(  # noqa: PLR0911 - a table: one answer to each kind of error
    error: Exception, repository: str, revision: str | None
) -> ModelError:
    match error:
        case GatedRepoError():
            return ModelError(
                f"{repository} is gated: its owner decides who may have it.",
                hint="Ask for access on its page, then log in with `hf auth login`.",
            )
        case RepositoryNotFoundError():
            way = "Check the name" if get_token() else f"Check the name; if it is private: {_LOG_IN}"
            return NotOnHub(f"There is no {repository} on the hub, or you may not see it.", hint=f"{way.rstrip('.')}.")
        case RevisionNotFoundError():
            return ModelError(
                f"{repository} has no revision {revision!r}.", hint="Give a branch, a tag or a commit, or leave it out."
            )
        case LocalTokenNotFoundError():
            return ModelError("You are not logged in to the hub.", hint=_LOG_IN)
        case OfflineModeIsEnabled():
            return ModelError(
                "The hub is not asked: HF_HUB_OFFLINE is set.", hint="Unset it, or give a folder: --hub FOLDER."
            )
        case HfHubHTTPError():
            return _refused(error, repository)
        case LocalEntryNotFoundError() | _NO_ANSWER() | ConnectionError() | TimeoutError() | gaierror():
            return ModelError("The hub cannot be reached.", hint=_NO_NETWORK)
        case OSError() if error.errno is not None:
            where = f"{error.filename}: " if error.filename else ""  # a full disk names no file
            return ModelError(f"{where}{error.strerror}.", hint="Check permissions and room on the disk.")
    return ModelError(f"The hub's client gave up: {_first_line(error)}", hint="The same command tries again.")


def _refused(error: HfHubHTTPError, repository: str) -> ModelError:
    """What an answer of the hub means."""
    match error.response.status_code:
        case 401:
            return ModelError("The hub does not take your login.", hint=_LOG_IN)
        case 403:
            return ModelError(
                f"You may not do this with {repository}.",
                hint="The token needs the right to write, and you to belong to its owner: `hf auth whoami`.",
            )
        case 429:
            return ModelError("The hub wants fewer requests.", hint="Try again in a few minutes, logged in.")
    return ModelError(f"The hub refuses: {error.server_message or _first_line(error)}", hint="Try again later.")


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
