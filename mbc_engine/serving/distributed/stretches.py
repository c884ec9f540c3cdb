"""What travels between the processes: files in, stretches of what becomes of them out, each in one cell of a table.

A cell is JSON, which can do nothing but be read: a pickle from another machine could run whatever it names.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
from pydantic import AfterValidator, Base64UrlBytes, GetPydanticSchema, PlainSerializer, TypeAdapter

from mbc_engine import errors
from mbc_engine.bank import Record
from mbc_engine.documents import Chunk
from mbc_engine.documents.encoding import storable
from mbc_engine.errors import MBCError
from mbc_engine.serving.distributed.known import KnownParts
from mbc_engine.serving.reading import Encoded, Item

COLUMN: Final = "packed"

Table = Any  # pyarrow's, which has no types

_ERRORS: Final = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, MBCError)
}


@dataclass(frozen=True)
class _Encoded:
    """What is `Encoded`, as JSON has it."""

    record: Record
    chunks: list[Chunk]
    codes: Base64UrlBytes
    shape: tuple[int, int, int]
    size: int

    @classmethod
    def of(cls, item: Encoded) -> "_Encoded":
        return cls(item.record, item.chunks, item.codes.astype("<u2").tobytes(), item.codes.shape, item.size)

    def restored(self) -> Encoded:
        codes = np.frombuffer(self.codes, "<u2").reshape(self.shape)
        return Encoded(self.record, self.chunks, codes, self.size)


@dataclass(frozen=True)
class _Error:
    """What is an error of ours, as JSON has it."""

    kind: str
    message: str
    hint: str | None

    @classmethod
    def of(cls, error: MBCError) -> "_Error":
        kind = type(error).__name__
        return cls(kind, storable(error.message), None if error.hint is None else storable(error.hint))

    def restored(self) -> MBCError:
        return _ERRORS.get(self.kind, MBCError)(self.message, hint=self.hint)


def _as(written: Any) -> GetPydanticSchema:
    """Written as a type that JSON can hold, which makes itself `of` the value, and is `restored` to it."""
    form = Annotated[written, AfterValidator(written.restored), PlainSerializer(written.of, return_type=written)]
    return GetPydanticSchema(lambda _, schema_of: schema_of(form))


@dataclass(frozen=True)
class Files:
    """Files that one process reads in one go.

    Attributes:
        number: how many such came before, from 0.
        paths: absolute, as bytes of the file system.
        known: what the bank knows of each; None in a bank without sources.
    """

    number: int
    paths: tuple[Base64UrlBytes, ...]
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
    items: tuple[Item | Annotated[Encoded, _as(_Encoded)], ...]
    encoding: float = 0.0
    error: Annotated[MBCError, _as(_Error)] | None = None


_JSON: Final[TypeAdapter[Files | Stretch]] = TypeAdapter(Files | Stretch)


def packed(value: Files | Stretch) -> dict[str, list[bytes]]:
    """A row of the table."""
    return {COLUMN: [_JSON.dump_json(value)]}


def unpacked(table: Table) -> Iterator[Any]:
    """The values of the rows."""
    return (_JSON.validate_json(cell.as_py()) for cell in table.column(COLUMN))


def told(error: Exception) -> MBCError:
    """An error on its way to another process, which may not know its type."""
    return error if isinstance(error, MBCError) else MBCError(f"{type(error).__name__}: {error}")
