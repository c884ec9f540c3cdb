"""`mbc bank export` and `mbc bank import`: a bank as lines of JSON.

Exports as files and streams, compressed or not.

Documents on their way from one bank or export to another.
"""

import gzip
import hashlib
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import singledispatchmethod
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import typer

from mbc_cli.options import BankOption, JsonOption
from mbc_cli.render.bank import holdings
from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import print_facts
from mbc_cli.text import counted, near, size
from mbc_engine.atomic_write import atomic_write
from mbc_engine.bank import BankTotals
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.events import Event, Progressed


def export(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The file to write; - is stdout. Compressed if its name ends in .gz or .xz."
        ),
    ] = Path("-"),
    *,
    bank: BankOption,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    json: JsonOption = False,
) -> None:
    """Export a bank as JSON Lines, from which `mbc bank import` rebuilds it.

    Two banks with the same content export the same lines, whatever their history. On
    stdout there is nothing but the export, with or without --json.

    \b
    Examples:
      mbc bank export | sha256sum
      mbc bank export memory.jsonl.xz --bank work.mbc
    """
    from mbc_cli.interrupt import ending_with
    from mbc_cli.render.terminal import out, print_json
    from mbc_engine.bank import MemoryBank
    from mbc_engine.bank import export as lines

    is_stdout = file == STANDARD
    with (
        ending_with("The export is incomplete; run the same command to start over."),
        MemoryBank.open(bank, read_only=True) as memory,
        memory.snapshot(),
        written(file, force=force) as target,
        ExportView(memory.totals(), is_shown=not (is_stdout and out.is_terminal)) as view,
    ):
        target.writelines(view.followed(lines(memory)))
    if is_stdout:
        return
    if json:
        print_json(view.summary_json(file))
    else:
        view.show_summary(file)


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `mbc bank export` wrote; - is stdin.")],
    *,
    bank: BankOption,
    json: JsonOption = False,
) -> None:
    """Import an export into a bank, creating it if needed: all of it or, on any error, nothing.

    The export may be compressed (gzip, xz).

    \b
    Examples:
      mbc bank import memory.jsonl.xz --bank work.mbc
      ssh elsewhere mbc bank export | mbc bank import -
    """
    from mbc_cli.interrupt import ending_with
    from mbc_cli.render.bank import holdings_json, show_holdings
    from mbc_cli.render.terminal import print_json
    from mbc_engine.bank import MemoryBank, import_lines

    with (
        ending_with("Nothing was imported; run the same command to start over."),
        opened(file) as source,
        ImportView(source.size, source.position) as view,
    ):
        for event in import_lines(source.lines, bank):
            view.show(event)
    with MemoryBank.open(bank, read_only=True) as memory, memory.snapshot():
        totals, sizes = memory.totals(), memory.sizes()
    if json:
        print_json({"imported": view.documents, "bank": holdings_json(memory.name, totals, sizes)})
    else:
        show_holdings(memory.name, totals, sizes)


STANDARD: Final = Path("-")
# Nothing that a bank exports comes near; a line without end would fill the memory.
_LONGEST_LINE: Final = 1 << 28
_BUFFER: Final = 1 << 16


@dataclass(frozen=True)
class Lines:
    """The lines of a file.

    Attributes:
        lines: with their line ends.
        size: bytes of the file, None if unknown.
        position: tells how many of them were read.
    """

    lines: Iterator[bytes]
    size: int | None
    position: Callable[[], int]


@contextmanager
def opened(path: Path) -> Iterator[Lines]:
    """A file to read, or stdin for `-`. How it was compressed is seen from its first bytes.

    Raises:
        DataError: it cannot be read, or is damaged.
    """
    try:
        if path == STANDARD:
            yield _lines(_Counted(sys.stdin.buffer), None)
        else:
            with path.open("rb") as file:
                yield _lines(_Counted(file), os.fstat(file.fileno()).st_size)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{path} is damaged: {error}.", hint="Export the bank again.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {_reason(error)}.", hint="Check the path.") from error


@contextmanager
def written(path: Path, *, force: bool) -> Iterator[io.BufferedIOBase | BinaryIO]:
    """A file to write, or stdout for `-`. The file appears, complete, when the block succeeds.

    Args:
        path: where to; the suffix .gz or .xz asks for compression.
        force: replace a file that is there.

    Raises:
        ConfigError: it is there, or cannot be written.
    """
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
        with atomic_write(target) as file, _compressing(file, target.suffix) as stream:
            yield stream
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {_reason(error)}.", hint="Check the path and the room on the disk."
        ) from error


class _Counted(io.RawIOBase):
    """A stream that knows how many bytes were read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.count = stream, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the type of io's own caller
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        self.count += len(data)
        return len(data)


def _lines(raw: _Counted, size: int | None) -> Lines:
    stream = io.BufferedReader(raw, _BUFFER)
    start = stream.peek(6)
    file: io.BufferedIOBase = stream
    if start.startswith(b"\x1f\x8b"):
        file = gzip.GzipFile(fileobj=stream)
    elif start.startswith(b"\xfd7zXZ\0"):
        file = lzma.LZMAFile(stream)  # noqa: SIM115  # it opens nothing
    return Lines(iter(lambda: file.readline(_LONGEST_LINE), b""), size, lambda: raw.count)


def _compressing(file: io.BufferedWriter, suffix: str) -> AbstractContextManager[io.BufferedIOBase]:
    """What compresses into a file as a suffix says. The same lines give the same bytes."""
    if suffix == ".gz":
        return gzip.GzipFile("", "wb", 6, file, mtime=0)
    if suffix == ".xz":
        return lzma.LZMAFile(file, "wb")
    return nullcontext(file)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


_EVERY = 1000


class MergeView(ProgressView):
    """Follows merges by their events, all in one bar.

    Args:
        total: documents of all banks together.
    """

    def __init__(self, total: int) -> None:
        super().__init__()
        self._total = total
        self._before = self._done = 0

    @singledispatchmethod
    def show(self, event: Event) -> None:
        """Draw an event."""

    @show.register
    def _(self, event: Progressed) -> None:
        self._done = self._before + event.done
        self.bar("Merging", self._total, completed=self._done)

    def next_bank(self) -> None:
        """From here on, events are of another bank."""
        self._before = self._done


class ImportView(ProgressView):
    """Follows an import by its events: documents, and how far the file was read.

    Args:
        total: bytes of the file, None if unknown.
        position: tells how many of them were read.
    """

    def __init__(self, total: int | None, position: Callable[[], int]) -> None:
        super().__init__(in_bytes=True)
        self._total, self._position = total, position
        self.documents = 0

    @singledispatchmethod
    def show(self, event: Event) -> None:
        """Draw an event."""

    @show.register
    def _(self, event: Progressed) -> None:
        self.documents = event.done
        self.bar("Importing", self._total, completed=self._position(), note=counted(event.done, "document"))


class ExportView(ProgressView):
    """Follows an export by its lines.

    Args:
        totals: what there is to export.
        is_shown: False where the lines share the terminal with the bar.
    """

    def __init__(self, totals: BankTotals, *, is_shown: bool) -> None:
        super().__init__(is_shown=is_shown)
        self._totals = totals
        self._digest = hashlib.sha256()

    def followed(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The same lines, counted and hashed."""
        for number, line in enumerate(lines):
            self._digest.update(line)
            yield line
            if number % _EVERY == 0:
                self.bar("Exporting", self._totals.documents, completed=min(number, self._totals.documents))
        self.bar("Exporting", self._totals.documents, completed=self._totals.documents)

    def show_summary(self, file: Path) -> None:
        """What was exported where, and the hash that tells whether another export is the same."""
        print_facts(
            [
                ("export", f"{near(file)}, {size(file.stat().st_size)}"),
                ("holds", holdings(self._totals)),
                ("SHA-256", f"{self._digest.hexdigest()} (before compression)"),
            ]
        )

    def summary_json(self, file: Path) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "path": str(file),
            "size": file.stat().st_size,
            "documents": self._totals.documents,
            "chunks": self._totals.chunks,
            "sha256": self._digest.hexdigest(),
        }
