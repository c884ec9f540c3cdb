"""The hub itself, through its own client: with the user's login, one commit for a whole model, and errors in words."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from socket import gaierror
from typing import Any, Final, Self

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

from mbc_engine.errors import ModelError
from mbc_engine.sharing.contents import CARD, SHARED_FILES
from mbc_engine.sharing.hub import HubFile, Listing, Moved, NotOnHub

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
        with _told(repository, revision):
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
        with _told(listing.repository, listing.revision):
            self._api.hf_hub_download(
                listing.repository,
                file.name,
                revision=listing.revision,
                local_dir=folder,
                tqdm_class=_meter(moved),
            )

    def card(self, listing: Listing) -> str:
        """See `Hub`."""
        with _told(listing.repository, listing.revision):
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
        with _told(repository), disable_progress_bars():
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
def _told(repository: str, revision: str | None = None) -> Iterator[None]:
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
