"""A folder that acts as a hub: models lie in it as OWNER/NAME. For shared disks, and without a network."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.sharing.contents import CARD, SHARED_FILES
from mbc_engine.sharing.hub import HubFile, Listing, Moved, NotOnHub
from mbc_engine.sharing.placing import put_in_place, restore

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
