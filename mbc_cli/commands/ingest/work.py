"""Doing an ingest: here or on Ray, once or for as long as things change.

What is to be memorised, and what is wrong with that, found before a model is loaded.
"""

import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from mbc_cli.engine import load_model, number_of_workers
from mbc_cli.interrupt import INTERRUPTED, ending_with, stop_on_interrupt
from mbc_cli.memorising import noted, opened
from mbc_cli.render.ingest import IngestView, WatchView
from mbc_cli.render.terminal import print_json
from mbc_engine.bank import MemoryBank
from mbc_engine.bank.database import bytes_at
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.text import is_empty, require_paths
from mbc_engine.text.formats import SUFFIXES

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from mbc_cli.commands.ingest import OnRay
    from mbc_engine.events import Event
    from mbc_engine.load import Model


def memorise(
    wanted: "Wanted", model: str, device: str | None, workers: int | None, on_ray: "OnRay | None", *, as_json: bool
) -> None:
    """Memorise, and show how it goes; Ctrl-C stops it.

    Args:
        wanted: what goes where.
        model: the name or folder of the model.
        device: where it runs; None for the default.
        workers: processes that read files; None for as many as there are cores to spare.
        on_ray: the cluster to work on; None to work here.
        as_json: show the result as JSON.

    Raises:
        MBCError: it cannot be done, or nothing can be read.
        typer.Exit: it was stopped.
    """
    with ending_with("Nothing was memorised yet."):
        loaded = load_model(model, "cpu" if on_ray else device)
    with (
        on_ray.connected() if on_ray else nullcontext(),
        ending_with("What was committed before is saved; run the same command again to continue."),
        opened(loaded, wanted.bank, keeps_origins=not wanted.no_sources, keeps_text=wanted.text) as bank,
        WatchView(bank.name, as_json=as_json) if wanted.watch else IngestView(keeps_reasons=as_json) as view,
        stop_on_interrupt(view.stopping) as stop,
    ):
        if wanted.is_stream and sys.stdin.isatty():
            view.line("Type the text; Ctrl-D ends it.")
        for event in noted(_events(wanted, loaded, bank, number_of_workers(workers), on_ray, stop), bank, wanted.bank):
            view.show(event)
    if not wanted.watch and as_json:
        print_json(view.summary_json(bank.name))
    elif not wanted.watch:
        view.show_summary(bank.name)
    if not view.is_complete:
        view.stopped()
        raise typer.Exit(INTERRUPTED)
    if not wanted.watch:
        view.require_something()


def _events(
    wanted: "Wanted",
    model: "Model",
    bank: "MemoryBank",
    workers: int,
    on_ray: "OnRay | None",
    stop: "threading.Event",
) -> "Iterator[Event]":
    from mbc_engine.ingestion.run import ingest, ingest_stream
    from mbc_engine.ingestion.watch import watch

    if wanted.is_stream:
        return ingest_stream(model, bank, sys.stdin.buffer, stop=stop)
    if on_ray:
        from mbc_engine.ingestion.ray.driver import ingest_on_ray

        return ingest_on_ray(
            model,
            bank,
            wanted.paths,
            ignore=wanted.ignore,
            prune=wanted.prune,
            text_column=wanted.text_column,
            actors=on_ray.actors,
            stop=stop,
        )
    return (watch if wanted.watch else ingest)(
        model,
        bank,
        wanted.paths,
        ignore=wanted.ignore,
        prune=wanted.prune,
        workers=workers,
        text_column=wanted.text_column,
        stop=stop,
    )


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
