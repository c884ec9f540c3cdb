"""The bytes of a file, decompressed if its name says so. Damage ends them, and is told afterwards."""

import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mbc_engine.documents.unreadable import EmptyFile, UnreadableFile, described, reason

# What `ByteStream.peek` gives at least, if there are that many.
PEEK_BYTES = 1 << 20
# Small, for what a decompressor gave in the call that met the damage is lost.
_BLOCK_BYTES = 1 << 16

_DAMAGE = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


def _plain(file: io.BufferedReader) -> io.BufferedReader:
    return file


OPENERS: Mapping[str, Callable[[io.BufferedReader], io.BufferedReader | gzip.GzipFile | lzma.LZMAFile]] = {
    "": _plain,
    ".gz": gzip.open,
    ".xz": lzma.open,
}
"""What decompresses an open file, by the suffix its compression adds."""


def split_suffixes(name: str) -> tuple[str, str]:
    """The suffix of a file's name that tells what is in it, and that of its compression, one of `OPENERS`; small."""
    stem, suffix = os.path.splitext(name.lower())
    return (os.path.splitext(stem)[1], suffix) if suffix and suffix in OPENERS else (suffix, "")


class _UntilItFails(io.RawIOBase):
    """Blocks of bytes as a stream that ends where reading them fails, keeping the reason.

    Attributes:
        failure: why reading failed; None as long as it did not.
        last_fill: how many bytes of the file and of the stream were read before the last call, and after it.
    """

    def __init__(self, read: Callable[[int], bytes], position: Callable[[], int]) -> None:
        self._read, self._position = read, position
        self.failure: str | None = None
        self.last_fill = ((0, 0), (0, 0))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the type of io's own caller
        filled = 0
        while filled < len(buffer) and (block := self._next(min(_BLOCK_BYTES, len(buffer) - filled))):
            buffer[filled : filled + len(block)] = block
            filled += len(block)
        before = self.last_fill[1]
        self.last_fill = (before, (self._position(), before[1] + filled))
        return filled

    def tell(self) -> int:
        return self.last_fill[1][1]

    def _next(self, most: int) -> bytes:
        if self.failure:
            return b""
        try:
            return self._read(most)
        except _DAMAGE as error:  # before OSError, of which BadGzipFile is one
            self.failure = f"is damaged: {described(error)}"
        except OSError as error:
            self.failure = reason(error)
        return b""


class ByteStream(io.BufferedReader):
    """Bytes that can be looked at before they are taken: `peek()` gives the first `PEEK_BYTES`.

    Args:
        read: gives the next bytes, at most as many as it is asked for, and none at the end.
        position: bytes of the file on the disk that `read` needed so far.
    """

    def __init__(self, read: Callable[[int], bytes], position: Callable[[], int] = int) -> None:
        self._source = _UntilItFails(read, position)
        super().__init__(self._source, PEEK_BYTES)

    def position(self) -> int:
        """About how many bytes of the file, as it is on the disk, the bytes taken so far come from."""
        (file, given), (file_now, given_now) = self._source.last_fill
        ahead = given_now - self.tell()
        # What was read at once is read ahead of its use: of this the share that was used counts.
        return file_now - (file_now - file) * min(ahead, given_now - given) // max(1, given_now - given)

    def require_whole(self) -> None:
        """Raise if the bytes ended early.

        Raises:
            UnreadableFile: the file is damaged or could not be read to its end.
        """
        if self._source.failure:
            raise UnreadableFile(self._source.failure)

    def read_whole(self, most: int) -> bytes:
        """All bytes up to the end or the damage.

        Raises:
            UnreadableFile: there are none, or more than `most`.
        """
        blocks: list[bytes] = []
        size = 0
        while block := self.read(PEEK_BYTES):
            blocks.append(block)
            size += len(block)
            if size > most:
                raise UnreadableFile(f"is larger than {most >> 20} MB")
        if not blocks:
            self.require_whole()
            raise EmptyFile
        return b"".join(blocks)


@contextmanager
def open_bytes(path: Path, compression: str) -> Iterator[ByteStream]:
    """Open a file whose compression is named by a suffix, one of `OPENERS`.

    Raises:
        OSError: the file cannot be opened.
    """
    with path.open("rb") as file, OPENERS[compression](file) as unpacked:
        yield ByteStream(unpacked.read1, file.tell)
