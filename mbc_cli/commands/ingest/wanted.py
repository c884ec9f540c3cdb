"""What is to be memorised, and what is wrong with that, found before a model is loaded."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mbc_engine.bank import MemoryBank
from mbc_engine.bank.database import bytes_at
from mbc_engine.documents import require_paths
from mbc_engine.errors import ConfigError

_STDIN: Final = Path("-")


@dataclass(frozen=True)
class Wanted:
    """The options of `mbc ingest` that say what goes where."""

    paths: list[Path]
    ignore: list[str]
    bank: Path
    prune: bool
    watch: bool
    no_sources: bool

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
        if self.prune and self.no_sources:
            raise ConfigError("--prune needs sources, which --no-sources does not keep.", hint="Leave one of them out.")

    def require_places(self) -> None:
        """Make sure that the paths are there, and that a bank that is there can be opened and fits the options.

        Raises:
            DataError: a path is not there.
            BankError: the bank cannot be opened.
            ConfigError: it was made otherwise.
        """
        if not self.is_stream:
            require_paths(self.paths, self.ignore)
        if not bytes_at(self.bank):
            return
        with MemoryBank.open(self.bank, read_only=True) as memory:
            keeps_origins = memory.header.keeps_origins
        made = "It was made so: name another file with --bank, or leave out"
        if self.no_sources and keeps_origins:
            raise ConfigError(f"{self.bank} keeps sources.", hint=f"{made} --no-sources.")
        if self.prune and not keeps_origins:
            raise ConfigError(f"{self.bank} keeps no sources to prune by.", hint=f"{made} --prune.")
