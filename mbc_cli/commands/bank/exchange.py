"""`mbc bank export` and `mbc bank import`: a bank as lines of JSON, compressed or not."""

import gzip
import hashlib
import io
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from mbc_cli.options import BankOption, JsonOption
from mbc_engine.errors import ConfigError, DataError

STANDARD: Final = Path("-")
# Nothing that a bank exports comes near; a line without end would fill the memory.
_LONGEST_LINE: Final = 1 << 28
_EVERY: Final = 1000


def export(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The file to write; - is stdout. Compressed if its name ends in .gz or .xz."
        ),
    ] = STANDARD,
    *,
    bank: BankOption,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    json: JsonOption = False,
) -> None:
    """Export a bank as JSON Lines, from which `mbc bank import` rebuilds it.

    Two banks with the same content export the same lines, whatever their history. On stdout there is nothing but the
    export, with or without --json.

    Examples:
      mbc bank export | sha256sum
      mbc bank export memory.jsonl.xz --bank work.mbc
    """
    from mbc_cli.program import ending_with
    from mbc_cli.render.bank import holdings
    from mbc_cli.render.progress import ProgressView
    from mbc_cli.render.terminal import out, print_facts, print_json
    from mbc_cli.text import near, size
    from mbc_engine.bank import MemoryBank
    from mbc_engine.bank import export as lines

    is_stdout, digest = file == STANDARD, hashlib.sha256()
    with (
        ending_with("The export is incomplete; run the same command to start over."),
        MemoryBank.open(bank, read_only=True) as memory,
        memory.snapshot(),
        _written(file, force=force) as target,
        ProgressView(is_shown=not (is_stdout and out.is_terminal)) as view,
    ):
        totals = memory.totals()
        for number, line in enumerate(lines(memory)):
            digest.update(line)
            target.write(line)
            if number % _EVERY == 0:
                view.bar("Exporting", totals.documents, completed=min(number, totals.documents))
        view.bar("Exporting", totals.documents, completed=totals.documents)
    if is_stdout:
        return
    written, sha = file.stat().st_size, digest.hexdigest()
    if json:
        counts = {"documents": totals.documents, "chunks": totals.chunks}
        print_json({"path": str(file), "size": written, **counts, "sha256": sha})
    else:
        print_facts(
            [
                ("export", f"{near(file)}, {size(written)}"),
                ("holds", holdings(totals)),
                ("SHA-256", f"{sha} (before compression)"),
            ]
        )


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `mbc bank export` wrote; - is stdin.")],
    *,
    bank: BankOption,
    json: JsonOption = False,
) -> None:
    """Import an export into a bank, creating it if needed: all of it or, on any error, nothing.

    The export may be compressed (gzip, xz).

    Examples:
      mbc bank import memory.jsonl.xz --bank work.mbc
      ssh elsewhere mbc bank export | mbc bank import -
    """
    from mbc_cli.program import ending_with
    from mbc_cli.render.bank import show_holdings
    from mbc_cli.render.progress import ProgressView
    from mbc_cli.text import counted
    from mbc_engine.bank import MemoryBank, import_lines
    from mbc_engine.events import Progressed

    documents = 0
    with (
        ending_with("Nothing was imported; run the same command to start over."),
        _opened(file) as source,
        ProgressView(in_bytes=True) as view,
    ):
        size = None if file == STANDARD else file.stat().st_size
        for event in import_lines(_lines(source), bank):
            assert isinstance(event, Progressed)
            documents = event.done
            position = source.tell() if size is not None else 0
            view.bar("Importing", size, completed=position, note=counted(documents, "document"))
    with MemoryBank.open(bank, read_only=True) as memory, memory.snapshot():
        show_holdings(memory, {"imported": documents} if json else None)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with nullcontext(sys.stdin.buffer) if path == STANDARD else path.open("rb", buffering=0) as file:
            reader = io.BufferedReader(cast("io.RawIOBase", file))
            try:
                yield reader
            finally:
                reader.detach()
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{path} is damaged: {error}.", hint="Export the bank again.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {_reason(error)}.", hint="Check the path.") from error


def _lines(stream: Any) -> Iterator[bytes]:
    start = stream.peek(6)
    if start.startswith(b"\x1f\x8b"):
        stream = gzip.GzipFile(fileobj=stream)
    elif start.startswith(b"\xfd7zXZ\0"):
        stream = lzma.LZMAFile(stream)  # noqa: SIM115  # it opens nothing
    return iter(lambda: stream.readline(_LONGEST_LINE), b"")


@contextmanager
def _written(path: Path, *, force: bool) -> Iterator[Any]:
    """A file to write, compressed by its suffix, or stdout for `-`; it appears, complete, when the block succeeds."""
    from mbc_engine.atomic_write import atomic_write

    if path == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            raise ConfigError(f"{path} is not a file.", hint="Name a file, or - for stdout.")
        if target.exists() and not force:
            raise ConfigError(f"There is already a file at {path}.", hint="Name another, or replace it with --force.")
        with atomic_write(target) as file:
            if target.suffix == ".gz":  # the same lines give the same bytes
                with gzip.GzipFile("", "wb", 6, file, mtime=0) as stream:
                    yield stream
            elif target.suffix == ".xz":
                with lzma.LZMAFile(file, "wb") as stream:
                    yield stream
            else:
                yield file
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {_reason(error)}.", hint="Check the path and the room on the disk."
        ) from error


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
