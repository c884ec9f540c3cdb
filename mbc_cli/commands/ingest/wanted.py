"""What is to be memorised, and what is wrong with that, found before a model is loaded."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mbc_engine.bank import MemoryBank
from mbc_engine.bank.database import bytes_at
from mbc_engine.documents import is_empty, require_paths
from mbc_engine.documents.formats import SUFFIXES
from mbc_engine.errors import ConfigError, DataError

_STDIN: Final = Path("-")


@dataclass(frozen=True)
class Wanted:
    """The options of `mbc ingest` that say what goes where."""

    paths: list[Path]
    ignore: list[str]
    bank: Path
    prune: bool
    watch: bool
    text_column: str | None
    no_sources: bool
    text: bool | None

    @property
    def is_stream(self) -> bool:
        """Whether stdin is to be read."""
        return _STDIN in self.paths

    def require_sense(self) -> None:
        """Make sure that the options do not contradict each other.

        Raises:
            ConfigError: they do.
        """
        if self.is_stream and len(self.paths) > 1:
            raise ConfigError("- stands for stdin and cannot be mixed with paths.", hint="A file of that name is ./-")
        if self.is_stream and (self.prune or self.watch):
            raise ConfigError("--prune and --watch need folders, not stdin.", hint="Leave them out.")
        if self.is_stream and self.text_column is not None:
            raise ConfigError("--text-column needs files with rows, not stdin.", hint="Leave it out.")
        if self.prune and self.no_sources:
            raise ConfigError("--prune needs sources, which --no-sources does not keep.", hint="Leave one of them out.")

    def require_places(self) -> None:
        """Make sure that the paths are there, and that a bank that is there can be opened and fits the options.

        Raises:
            DataError: a path is not there or cannot be read, or there are no files.
            BankError: the bank cannot be opened.
            ConfigError: it was made otherwise.
        """
        if not self.is_stream:
            require_paths(self.paths, self.ignore)
            for path in self.paths:
                if not os.access(path, os.R_OK):
                    raise DataError(
                        f"{path} cannot be read: permission denied.", hint="Check the path and its permissions."
                    )
            self._require_files()
        if not bytes_at(self.bank):
            return
        with MemoryBank.open(self.bank, read_only=True) as memory:
            keeps_origins, keeps_text = memory.header.keeps_origins, memory.header.keeps_text
        made = "That was decided when it was made: name another file with --bank, or leave out"
        if self.no_sources and keeps_origins:
            raise ConfigError(f"{self.bank} keeps sources.", hint=f"{made} --no-sources.")
        if self.prune and not keeps_origins:
            raise ConfigError(f"{self.bank} keeps no sources to prune by.", hint=f"{made} --prune.")
        if self.text is not None and self.text != keeps_text:
            does, option = ("keeps", "--no-text") if keeps_text else ("does not keep", "--text")
            raise ConfigError(f"{self.bank} {does} the text of its documents.", hint=f"{made} {option}.")

    def _require_files(self) -> None:
        """An empty folder may be watched, and it may be what is left of one whose documents are to be forgotten."""
        if self.prune or self.watch or not is_empty(self.paths, self.ignore):
            return
        raise DataError(
            f"No files to ingest in {', '.join(map(str, self.paths))}.",
            hint=f"Files that can be read: {' '.join(sorted(SUFFIXES))}, most of them also as .gz and .xz.",
        )
