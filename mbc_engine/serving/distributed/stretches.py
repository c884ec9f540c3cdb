"""What travels between the processes: files in, stretches of what becomes of them out, each in one cell of a table."""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from mbc_engine.errors import MBCError
from mbc_engine.serving.distributed.known import KnownParts
from mbc_engine.serving.reading import Encoded, Item

COLUMN: Final = "packed"

Table = Any  # pyarrow's, which has no types


@dataclass(frozen=True)
class Files:
    """Files that one process reads in one go.

    Attributes:
        number: how many such came before, from 0.
        paths: absolute, as bytes of the file system.
        known: what the bank knows of each; None in a bank without sources.
    """

    number: int
    paths: tuple[bytes, ...]
    known: tuple[KnownParts | None, ...]


@dataclass(frozen=True)
class Stretch:
    """What became of some of these files, in order.

    Attributes:
        number: of the `Files`.
        place: how many stretches of them came before, from 0.
        is_last: whether there is nothing more of them.
        items: documents that were not encoded yet are `Chunked`.
        encoding: seconds that their encoder took.
        error: why there is nothing more of anything.
    """

    number: int
    place: int
    is_last: bool
    items: tuple[Item | Encoded, ...]
    encoding: float = 0.0
    error: MBCError | None = None


def packed(value: Files | Stretch) -> dict[str, list[bytes]]:
    """A row of the table."""
    return {COLUMN: [pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)]}


def unpacked(table: Table) -> Iterator[Any]:
    """The values of the rows."""
    return (pickle.loads(cell.as_py()) for cell in table.column(COLUMN))


def told(error: Exception) -> MBCError:
    """An error on its way to another process, which may not know its type."""
    return error if isinstance(error, MBCError) else MBCError(f"{type(error).__name__}: {error}")
