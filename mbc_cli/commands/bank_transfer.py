"""`mbc bank merge`, `compact`, `export`, `import` and `reencode`: copy or convert a bank's content."""

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

import mbc_engine
from mbc_cli.engine import load_model, number_of_workers, unpack_language_model
from mbc_cli.options import BankOption, DeviceOption, JsonOption, ModelOption, WorkersOption, option
from mbc_cli.program import INTERRUPTED, interrupt_message, stop_on_interrupt
from mbc_cli.render.bank import content_summary, print_bank_summary
from mbc_cli.render.ingest import IngestProgress
from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import out, print_facts, print_json, status_spinner
from mbc_cli.text import display_path, format_size, pluralise, sanitise
from mbc_engine.atomic_write import atomic_write
from mbc_engine.errors import BankError, ConfigError, DataError
from mbc_engine.events import Progressed
from mbc_engine.sources import text_model

_STANDARD: Final = Path("-")
# Far longer than any exported line; an endless line would exhaust memory.
_MAX_LINE_BYTES: Final = 1 << 28
_CODEC = "Also recode all texts: with the language model (lm, smaller) or with zstd (faster to read)."
_FILE = "The file to write; - is stdout."


def merge(
    banks: Annotated[list[Path], typer.Argument(metavar="BANK", help="The banks to copy from.")],
    *,
    bank: BankOption,
    json: JsonOption = False,
) -> None:
    """Copy other banks' documents into --bank, creating it if needed; on any error, none are copied.

    All must belong to one model, and keep text if --bank does. Duplicate documents are stored once; where two banks
    have read the same source, the later one wins. The other banks do not change.

    Examples:
      mbc bank merge shard-1.mbc shard-2.mbc --bank all.mbc
    """
    from mbc_engine.bank.exchange import merge as copy

    total = done = 0
    for path in banks:  # report a bank that cannot be opened before creating anything
        with mbc_engine.MemoryBank.open(path, read_only=True) as other:
            total += other.totals().documents
    with interrupt_message("No bank was changed; run the same command to start over."), _target(bank, banks) as memory:
        with ProgressView() as view, memory.changing():
            for path in banks:
                before = done
                with mbc_engine.MemoryBank.open(path, read_only=True) as other:
                    for event in copy(memory, other):
                        assert isinstance(event, Progressed)
                        done = before + event.done
                        view.bar("Merging", total, completed=done)
        memory.checkpoint()
        print_bank_summary(memory, {} if json else None)


@contextmanager
def _target(path: Path, banks: list[Path]) -> "Iterator[mbc_engine.MemoryBank]":
    """The bank to merge into. If missing, it is created like the first of `banks`, and deleted if left empty by an
    error."""
    from mbc_engine.bank import MemoryBank, delete_if_unused
    from mbc_engine.bank.database import bytes_at

    is_new = not bytes_at(path)
    if not is_new and any(other.samefile(path) for other in banks):
        raise ConfigError(f"{path} cannot be merged into itself.", hint="Name the other banks only, or another --bank.")
    with MemoryBank.open(banks[0], read_only=True) as first:
        header = first.header
    memory = MemoryBank.open(path, create=header)
    try:
        with memory:
            yield memory
    except BaseException:
        if is_new:
            delete_if_unused(path)
        raise


def compact(
    *,
    bank: BankOption,
    codec: Annotated[Literal["lm", "zstd"] | None, option(_CODEC, show_default="texts stay as they are")] = None,
    json: JsonOption = False,
) -> None:
    """Free the disk space that removed documents left behind. What the bank holds does not change.

    With --codec, texts are recoded first. After Ctrl-C, run the same command again to continue. The next `mbc ingest`
    recodes texts with the language model again, unless it is given --codec zstd too.

    Examples:
      mbc bank compact
      mbc bank compact --codec lm --bank work.mbc
    """
    with mbc_engine.MemoryBank.open(bank) as memory:
        before = memory.sizes()
        if codec:
            _recode(memory, to_lm=codec == "lm")
        with interrupt_message("The bank is intact."), status_spinner("Compacting"):
            memory.compact()
        after = memory.sizes()
    if json:
        print_json({"path": memory.name, "before": before, "after": after})
    else:
        out.print(f"{sanitise(memory.name)} now takes {format_size(after.file)}, {format_size(before.file)} before.")


def _recode(bank: "mbc_engine.MemoryBank", *, to_lm: bool) -> None:
    if not bank.header.keeps_text:
        raise ConfigError(f"{bank.name} keeps no text.", hint="Leave out --codec.")
    if to_lm:
        unpack_language_model()
    saved = "Texts recoded so far are saved; run the same command again to continue."
    with (
        interrupt_message(saved),
        ProgressView() as view,
        stop_on_interrupt(lambda: view.announce("Stopping.")) as stop,
    ):
        for event in bank.recode_texts(text_model, to_lm=to_lm, stop=stop):
            view.recoding_bar(event)
        if stop.is_set():
            view.announce(f"Stopped. {saved}")
            raise typer.Exit(INTERRUPTED)


def reencode(
    *,
    bank: BankOption,
    model: ModelOption,
    drop_missing: Annotated[bool, option("Drop documents that can no longer be read.", "--drop-missing")] = False,
    workers: WorkersOption = None,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Switch a bank to another model: its documents are read again and encoded with that model.

    They are read from their files or, where these are gone, from the text the bank keeps. The old bank stays in use
    until everything is done. After Ctrl-C, run the same command again to continue.

    Examples:
      mbc bank reencode --model runs/mine
      mbc bank reencode --model runs/mine --bank work.mbc --drop-missing
    """
    from mbc_engine.bank.database import open_file

    open_file(bank, read_only=True).close()  # report a mistyped path now, not after loading the model
    loaded = load_model(model, device)
    unchanged = "The bank is unchanged"
    processes = number_of_workers(workers)
    with (
        interrupt_message(
            "The bank is intact, either unchanged or re-encoded; run the same command again to continue."
        ),
        IngestProgress(str(bank), as_json=json, doing="Re-encoding", done="Re-encoded", saved=unchanged) as view,
        stop_on_interrupt(view.announce_stopping) as stop,
    ):
        try:
            for event in mbc_engine.reencode(loaded, bank, drop_missing=drop_missing, workers=processes, stop=stop):
                view.show(event)
        except BankError:
            view.show_skipped()
            raise
    if not view.is_complete:
        view.announce_stopped()
        raise typer.Exit(INTERRUPTED)
    view.show_result()


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=_FILE)] = _STANDARD,
    *,
    bank: BankOption,
    force: Annotated[bool, option("Overwrite an existing file.", "--force")] = False,
    json: JsonOption = False,
) -> None:
    """Export a bank as JSON Lines, from which `mbc bank import` rebuilds it.

    Two banks with the same content export the same lines, whatever their history. On stdout there is nothing but the
    export, with or without --json.

    Examples:
      mbc bank export | sha256sum
      mbc bank export | xz > memory.jsonl.xz
      mbc bank export memory.jsonl --bank work.mbc
    """
    from mbc_engine.bank.exchange import export as lines

    is_stdout, digest = file == _STANDARD, hashlib.sha256()
    with (
        interrupt_message("The export is incomplete; run the same command to start over."),
        mbc_engine.MemoryBank.open(bank, read_only=True) as memory,
        memory.snapshot(),
        _open_output(file, force=force) as target,
        ProgressView(is_shown=not (is_stdout and out.is_terminal)) as view,
    ):
        totals = memory.totals()
        view.bar("Exporting", totals.documents)
        for line in lines(memory, text_model, lambda done: view.bar("Exporting", totals.documents, completed=done)):
            digest.update(line)
            target.write(line)
    if is_stdout:
        return
    written, sha = file.stat().st_size, digest.hexdigest()
    if json:
        counts = {"documents": totals.documents, "chunks": totals.chunks}
        print_json({"path": str(file), "size": written, **counts, "sha256": sha})
    else:
        described = [("export", f"{display_path(file)}, {format_size(written)}"), ("holds", content_summary(totals))]
        print_facts([*described, ("SHA-256", sha)])


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `mbc bank export` wrote; - is stdin.")],
    *,
    bank: BankOption,
    json: JsonOption = False,
) -> None:
    """Import an export into a bank, creating the bank if needed; on any error, nothing is imported.

    Examples:
      mbc bank import memory.jsonl --bank work.mbc
      xz -dc memory.jsonl.xz | mbc bank import -
      ssh elsewhere mbc bank export | mbc bank import -
    """
    from mbc_engine.bank.exchange import import_lines

    documents = 0
    with (
        interrupt_message("Nothing was imported; run the same command to start over."),
        _open_input(file) as source,
        ProgressView(in_bytes=True) as view,
    ):
        total = None if file == _STANDARD else file.stat().st_size
        for event in import_lines(iter(lambda: source.readline(_MAX_LINE_BYTES), b""), bank):
            assert isinstance(event, Progressed)
            documents = event.done
            position = 0 if total is None else source.tell()
            view.bar("Importing", total, completed=position, note=pluralise(documents, "document"))
    with mbc_engine.MemoryBank.open(bank, read_only=True) as memory, memory.snapshot():
        print_bank_summary(memory, {"imported": documents} if json else None)


@contextmanager
def _open_input(path: Path) -> Iterator[Any]:
    try:
        with nullcontext(sys.stdin.buffer) if path == _STANDARD else path.open("rb") as file:
            yield file
    except OSError as error:
        raise DataError(f"{path} cannot be read: {_reason(error)}.", hint="Check the path.") from error


@contextmanager
def _open_output(path: Path, *, force: bool) -> Iterator[Any]:
    """A file to write, or stdout for `-`; the file appears, complete, only if the block succeeds."""
    if path == _STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path} is not a file.", hint="Name a file, or - for stdout.")
        if os.path.lexists(path) and not force:
            raise ConfigError(f"There is already a file at {path}.", hint="Name another, or replace it with --force.")
        with atomic_write(path) as file:  # in place of a link, not of the file that it names
            yield file
    except OSError as error:
        hint = "Check the path and the free disk space."
        raise ConfigError(f"{path} cannot be written: {_reason(error)}.", hint=hint) from error


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
