"""`mbc ingest`: files into a bank."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

import mbc_engine
from mbc_cli.engine import loading, open_memory, unpack_language_model
from mbc_cli.options import BankOption, DeviceOption, JsonOption, ModelOption, WorkersOption, option
from mbc_cli.program import interrupt_message, is_from_command_line, stop_on_interrupt, stopped
from mbc_cli.render.ingest import READABLE, IngestProgress
from mbc_cli.render.terminal import is_on
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.events import TextsRecoded
from mbc_engine.machine import yield_to_others
from mbc_engine.text import is_empty, printable_path, require_paths

if TYPE_CHECKING:
    from mbc_engine.ingestion.ray import Actors

_ON_RAY: Final = "With --engine ray"
_ray = partial(option, panel=_ON_RAY)
_STDIN: Final = Path("-")
_IGNORE = "Skip files that match this pattern, as in .gitignore; can be repeated."
_ALL_FILES = "Also memorise what .gitignore files exclude, installed software, caches and temporary files."
_PRUNE = "Also remove documents whose files are no longer in these folders, or whose folder is gone."
_WATCH = "Keep running and memorise changes as they happen, until Ctrl-C."
_COLUMN = "Memorise only the rows of tables and JSON that have a text in this column or field."
_TEXT = (
    "Keep a compressed copy of the documents' text; only for a new bank. mini reads its answers from this text; models "
    "you train do not need it."
)
_CODEC = (
    "How the bank's texts are compressed. zstd is fast. lm recodes them with the language model, if installed, once "
    "everything is memorised: less than half the size, a few texts a second. auto recodes only if at most 2,000 texts wait for it."
)
_ENGINE = "Encode in this process (local) or on a Ray cluster (ray)."


def ingest(
    ctx: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Files and folders to memorise; - alone is stdin.")
    ],
    *,
    bank: BankOption,
    model: ModelOption,
    ignore: Annotated[list[str] | None, option(_IGNORE, metavar="PATTERN")] = None,
    all_files: Annotated[bool, option(_ALL_FILES, "--all-files")] = False,
    prune: Annotated[bool, option(_PRUNE, "--prune")] = False,
    watch: Annotated[bool, option(_WATCH, "--watch")] = False,
    text_column: Annotated[str | None, option(_COLUMN, metavar="NAME")] = None,
    no_sources: Annotated[bool, option("Store no file names or dates; only for a new bank.", "--no-sources")] = False,
    text: Annotated[bool | None, option(_TEXT, "--text/--no-text", show_default="depends on the model")] = None,
    codec: Annotated[Literal["auto", "lm", "zstd"], option(_CODEC, envvar="MBC_CODEC")] = "auto",
    workers: WorkersOption,
    device: DeviceOption = None,
    engine: Annotated[Literal["local", "ray"], option(_ENGINE)] = "local",
    address: Annotated[
        str | None,
        _ray("The Ray cluster: HOST:PORT, or auto.", metavar="ADDR", show_default="start a temporary local cluster"),
    ] = None,
    actors: Annotated[int | None, _ray("Number of encoder processes.", min=1, show_default="as many as fit")] = None,
    actor_batch: Annotated[int, _ray("Chunks per encoder batch.", min=1)] = 64,
    actor_cpus: Annotated[float, _ray("CPUs, and threads, per encoder process.", metavar="X", min=0.0)] = 1.0,
    actor_gpus: Annotated[float, _ray("GPUs per encoder process; fractions are allowed.", metavar="X", min=0.0)] = 0.0,
    json: JsonOption = False,
) -> None:
    """Memorise files and folders. Files that haven't changed since the last run are skipped.

    Left out are hidden files, what .mbcignore and .gitignore files exclude, installed software, caches, temporary and
    lock files. A file that you name is always taken. Each row of a table or of JSON becomes a document with all its
    columns. The first Ctrl-C saves what has been encoded and stops; run the same command again to continue. With
    --watch --json, each change is one line of JSON.

    Examples:
      mbc ingest ~/notes
      mbc ingest report.pdf minutes/ --bank work.mbc --ignore 'drafts/'
      mbc ingest ~/notes --watch --prune
      mbc ingest reviews.csv --text-column review
      mbc ingest /shared/news --engine ray --address head:6379 --actor-gpus 1
      curl -s https://example.org/page.txt | mbc ingest -
    """
    is_stream, how = _STDIN in paths, dict[str, Any](keeps_origins=not no_sources, keeps_text=text, codec=codec)
    _check_option_conflicts(ctx)
    if on_ray := engine == "ray":
        from mbc_engine.ingestion.ray import Actors

        how["actors"] = Actors(actors, actor_batch, actor_cpus, actor_gpus, device)
        _require_ray(how["actors"], address, other="stdin" if is_stream else "--watch" if watch else None)
    if not is_stream:
        _require_files(paths, bank, ignore or [], is_choosy=not all_files, prunes=prune, watches=watch)
        how |= {"ignore": ignore or [], "is_choosy": not all_files, "prune": prune, "text_column": text_column}
        if not on_ray:
            how["workers"] = workers
    _require_fitting_bank(bank, prune=prune, no_sources=no_sources, text=text)
    with open_memory([bank], model, "cpu" if on_ray else device) as memory:
        with interrupt_message("Nothing was memorised yet."):
            if codec == "lm":
                unpack_language_model()
            memory.model  # noqa: B018  # load it now, so that Ctrl-C ends it
        with ExitStack() as connection:
            if on_ray:
                from mbc_engine.ingestion.ray import connected

                with loading("Ray"):
                    connection.enter_context(connected(address, verbose=is_on("verbose")))
            _memorise(memory, paths, how, watch=watch, as_json=json)


def _memorise(
    memory: "mbc_engine.Memory", paths: Sequence[Path], how: dict[str, Any], *, watch: bool, as_json: bool
) -> None:
    with (
        interrupt_message("What was committed before is saved; run the same command again to continue."),
        IngestProgress(str(memory.paths[0]), as_json=as_json, watches=watch) as view,
        stop_on_interrupt(view, view.stopping) as stop,
    ):
        if _STDIN in paths and sys.stdin.isatty():
            view.line("Type the text; Ctrl-D ends it.")
        documents = sys.stdin.buffer if _STDIN in paths else paths
        for event in memory.add(documents, watch=watch, stop=stop, **how):
            view.show(event)
            if isinstance(event, TextsRecoded) and event.done and not watch:  # a watch does other work afterwards
                yield_to_others()
    if not watch:
        view.show_result()
    if not view.is_complete:
        raise stopped(view, "Everything counted above is saved; run the same command again to continue.")
    if not watch:
        view.require_documents(may_be_none=bool(how.get("prune")), text_column=how.get("text_column"))


def _check_option_conflicts(ctx: typer.Context) -> None:
    given = ctx.params
    if _STDIN in given["paths"]:
        if len(given["paths"]) > 1:
            raise ConfigError("- stands for stdin and cannot be mixed with paths.", hint="A file of that name is ./-")
        if given["prune"] or given["watch"]:
            raise ConfigError("--prune and --watch need folders, not stdin.", hint="Leave them out.")
        if given["text_column"] is not None:
            raise ConfigError("--text-column needs files with rows, not stdin.", hint="Leave it out.")
    if given["prune"] and given["no_sources"]:
        raise ConfigError("--prune needs sources, which --no-sources does not keep.", hint="Leave one of them out.")
    for param in ctx.command.params if given["engine"] == "local" else ():
        if getattr(param, "rich_help_panel", None) == _ON_RAY and param.name and is_from_command_line(ctx, param.name):
            raise ConfigError(f"{param.opts[0]} needs --engine ray.", hint="Add it, or leave this out.")


def _require_ray(actors: "Actors", address: str | None, *, other: str | None) -> None:
    from mbc_engine.ingestion.ray import require_ray

    if other:
        raise ConfigError(f"--engine ray cannot be combined with {other}.", hint="Use --engine local.")
    if not actors.cpus and not actors.gpus:
        raise ConfigError("Each actor needs at least a fraction of a CPU or a GPU.", hint="Set --actor-cpus.")
    require_ray(address)


def _require_files(
    paths: Sequence[Path], bank: Path, ignore: Sequence[str], *, is_choosy: bool, prunes: bool, watches: bool
) -> None:
    """Raises DataError if a path is missing or unreadable, or if there are no files unless it prunes or watches."""
    from mbc_engine.bank.database import bytes_at
    from mbc_engine.ingestion.run import holds_below

    def holds(*places: Path) -> bool:
        if not bytes_at(bank):
            return False
        with mbc_engine.MemoryBank.open(bank, read_only=True) as memory:
            return holds_below(memory, places)

    prunable = "The bank still holds what was read from it; --prune removes that."
    existing = [path for path in paths if os.path.lexists(path) or not holds(path)]
    if len(existing) < len(paths) and (watches or not prunes):
        gone = printable_path(next(path for path in paths if path not in existing))
        raise DataError(f"{gone} does not exist.", hint=prunable)
    require_paths(existing, ignore)
    for path in existing:
        if not os.access(path, os.R_OK):
            raise DataError(f"{path} cannot be read: permission denied.", hint="Check the path and its permissions.")
    if not (prunes or watches) and is_empty(paths, ignore, is_choosy=is_choosy):
        hint = prunable if holds(*paths) else READABLE
        raise DataError(f"No files to ingest in {', '.join(map(str, paths))}.", hint=hint)


def _require_fitting_bank(path: Path, *, prune: bool, no_sources: bool, text: bool | None) -> None:
    from mbc_engine.bank.database import bytes_at

    if not bytes_at(path):
        return
    with mbc_engine.MemoryBank.open(path, read_only=True) as memory:
        keeps_origins, keeps_text = memory.header.keeps_origins, memory.header.keeps_text
    made = "This was decided when the bank was created: name another file with --bank, or leave out"
    if no_sources and keeps_origins:
        raise ConfigError(f"{path} keeps sources.", hint=f"{made} --no-sources.")
    if prune and not keeps_origins:
        raise ConfigError(f"{path} keeps no sources to prune by.", hint=f"{made} --prune.")
    if text is not None and text != keeps_text:
        does, option = ("keeps", "--no-text") if keeps_text else ("does not keep", "--text")
        raise ConfigError(f"{path} {does} the text of its documents.", hint=f"{made} {option}.")
