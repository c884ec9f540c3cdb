"""Which files an assistant may have memorised: those below the folders that were allowed, wherever links lead."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mbc_engine.documents import Found, Skipped, find_files, require_paths, shown
from mbc_engine.errors import ConfigError, DataError

_LEADS_OUT: Final = "links to somewhere outside the allowed folders"


class Allowed:
    """The folders whose files may be memorised, but for what is hidden in them, and for the banks.

    Args:
        folders: as they were named; none for no file at all.
        banks: files that are no documents even if they lie there.

    Raises:
        ConfigError: one of them is no folder.
    """

    def __init__(self, folders: Sequence[Path], banks: Sequence[Path] = ()) -> None:
        for folder in folders:
            if not folder.is_dir():
                raise ConfigError(f"{folder} is not a folder.", hint="Name existing folders with --allow.")
        self.folders = tuple(Path(os.path.realpath(folder)) for folder in folders)
        self._banks = {os.path.realpath(bank) for bank in banks}

    def places(self, names: Sequence[str]) -> list[Path]:
        """Where names lead, absolute or relative to an allowed folder; nothing is walked yet.

        Raises:
            ConfigError: no folder is allowed.
            DataError: something is not to be memorised, whether it is there or not, or is not there.
        """
        if not self.folders:
            raise ConfigError("No folder is allowed.", hint="Start the server with `mbc mcp --allow FOLDER`.")
        places = [self._place(name) for name in names]
        require_paths(places)
        return places

    def find(self, places: Sequence[Path]) -> Found:
        """The readable files among places and below.

        A link below that leads elsewhere is told as one skipped thing, whatever lies behind it.

        Raises:
            DataError: a place is not there any more.
        """
        found = find_files(places)
        files, skipped, links = [], [], dict[Path, None]()
        for path in found.files:
            if self._is_inside(path):
                files.append(path)
            else:
                links[self._link(path)] = None
        for own in found.skipped:
            if self._is_inside(Path(own.source)):
                skipped.append(own)
            else:
                links[self._link(Path(own.source))] = None
        return Found(tuple(files), (*skipped, *(Skipped(shown(link), _LEADS_OUT) for link in links)))

    def _place(self, name: str) -> Path:
        """Where a name leads, if that is allowed."""
        try:
            typed = Path(name).expanduser()
            places = [folder / typed for folder in self.folders]  # an absolute one stays what it is
            place = Path(os.path.realpath(next((place for place in places if place.exists()), places[0])))
        except (OSError, RuntimeError, ValueError) as error:  # too long a name, nobody's home, a null character
            raise self._refusal(name) from error
        if not self._is_inside(place):
            raise self._refusal(name)
        if str(place) in self._banks:
            raise DataError(f"{shown(place)} is a bank, not a document.", hint="Name files and folders to memorise.")
        return place

    def _refusal(self, name: str) -> DataError:
        folders = ", ".join(map(shown, self.folders))
        return DataError(
            f"{name} is not allowed.", hint=f"Only files below {folders} that are not hidden may be memorised."
        )

    def _is_inside(self, path: Path) -> bool:
        real = Path(os.path.realpath(path))
        return any(
            real.is_relative_to(folder) and not any(part.startswith(".") for part in real.relative_to(folder).parts)
            for folder in self.folders
        )

    def _link(self, path: Path) -> Path:
        """The first on the way to a path behind which it is outside."""
        way = [*reversed(path.parents), path]
        entered = next((number for number, place in enumerate(way) if self._is_inside(place)), len(way))
        # Nothing lies at a name that is no UTF-8 and is told in other characters: such a one stands for itself.
        return next((place for place in way[entered:] if not self._is_inside(place)), path)
