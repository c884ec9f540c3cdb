"""Exports as files and streams, compressed or not."""

import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from mbc_engine.errors import ConfigError, DataError
from mbc_engine.whole_file import whole_file

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
        with whole_file(target) as file, _compressing(file, target.suffix) as stream:
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
