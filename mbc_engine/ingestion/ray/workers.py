"""What a bank knows of files, looked up beforehand: those who read them elsewhere have no bank.

What travels between the processes: files in, stretches of what becomes of them out, each in one cell of a table.

A process that holds the model and turns chunks into codes.

Reading files and cutting them into chunks on Ray: a task for some files, in a process without a bank or torch.
"""

import os
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
from pydantic import AfterValidator, Base64UrlBytes, GetPydanticSchema, PlainSerializer, TypeAdapter

from mbc_engine import errors
from mbc_engine.bank import MemoryBank, ModelSignature
from mbc_engine.errors import MBCError, ModelMismatch
from mbc_engine.ingestion.reading import Chunked, Encoded, Item, read_chunks
from mbc_engine.text import Chunk, Document
from mbc_engine.text.chunks import Chunker
from mbc_engine.text.decoding import storable

if TYPE_CHECKING:
    from ray import ObjectRef

    from mbc_engine.load import Model


@dataclass(frozen=True)
class KnownParts:
    """What a bank knows of one source.

    Attributes:
        digests: as much as the bank keeps of the content hash of each part, hexadecimal.
    """

    digests: dict[str, str] = field(default_factory=dict)

    def knows(self, document: Document) -> bool:
        """See `MemoryBank.knows`; the document is of this source."""
        known = self.digests.get(document.part)
        return known is not None and document.digest.startswith(known)

    def parts_of(self, source: str) -> set[str]:
        """See `MemoryBank.parts_of`."""
        return set(self.digests)


@dataclass(frozen=True)
class KnownContents:
    """What a bank without sources knows.

    Attributes:
        digests: as much as it keeps of every content hash.
        width: bytes of each.
    """

    digests: frozenset[bytes]
    width: int

    def knows(self, document: Document) -> bool:
        """See `MemoryBank.knows`."""
        return bytes.fromhex(document.digest)[: self.width] in self.digests

    def parts_of(self, source: str) -> set[str]:
        """Nothing: it is not known what was read where."""
        return set()


def known_parts(bank: MemoryBank, sources: Collection[str]) -> dict[str, KnownParts]:
    """What a bank knows of each of these sources that it has read, in one pass over its documents."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for document in bank.documents():
        for origin in document.origins:
            if origin.source in sources:
                found[origin.source][origin.part] = document.digest
    return {source: KnownParts(digests) for source, digests in found.items()}


def known_contents(bank: MemoryBank) -> KnownContents:
    """All contents of a bank without sources."""
    digests = frozenset(digest for block in bank.document_blocks() for digest in block.digests)
    return KnownContents(digests, bank.header.digest_bytes)


COLUMN: Final = "packed"

Table = Any  # pyarrow's, which has no types

_ERRORS: Final = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, MBCError)
}


@dataclass(frozen=True)
class _Encoded:
    """What is `Encoded`, as JSON has it."""

    document: Document
    chunks: list[Chunk]
    codes: Base64UrlBytes
    shape: tuple[int, int, int]
    size: int

    @classmethod
    def of(cls, item: Encoded) -> "_Encoded":
        return cls(item.document, item.chunks, item.codes.astype("<u2").tobytes(), item.codes.shape, item.size)

    def restored(self) -> Encoded:
        codes = np.frombuffer(self.codes, "<u2").reshape(self.shape)
        return Encoded(self.document, self.chunks, codes, self.size)


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


class ChunkEncoder:
    """An actor that makes the codes of stretches. What keeps it from that, such as another model, comes back in one.

    The model is loaded for the first chunks: where all files are unchanged, nobody waits for it.

    Args:
        model: its name or folder.
        expected: whose codes the bank holds.
        device: where it runs.
        threads: of torch, on a CPU.
    """

    def __init__(self, model: str, expected: ModelSignature, device: str, threads: int) -> None:
        self._name, self._expected, self._device, self._threads = model, expected, device, threads
        self._model: Model | None = None

    def __call__(self, table: Table) -> dict[str, list[bytes]]:
        """A table of one `Stretch` to a row of the same, encoded."""
        (stretch,) = unpacked(table)
        try:
            return packed(self._encoded(stretch))
        except Exception as error:  # noqa: BLE001 - Ray would tell it as its own, with a traceback
            return packed(replace(stretch, items=(), error=told(error)))

    def _encoded(self, stretch: Stretch) -> Stretch:
        waiting = [item for item in stretch.items if isinstance(item, Chunked)]
        if not waiting:
            return stretch
        if self._model is None:
            self._model = self._loaded()
        began = time.monotonic()
        codes = self._model.memorise([chunk.text for item in waiting for chunk in item.chunks])
        ends = np.cumsum([len(item.chunks) for item in waiting])
        own = iter(np.split(codes, ends[:-1]))

        def encoded(item: Item | Encoded) -> Item | Encoded:
            return Encoded(item.document, item.chunks, next(own), item.size) if isinstance(item, Chunked) else item

        return replace(stretch, items=tuple(map(encoded, stretch.items)), encoding=time.monotonic() - began)

    def _loaded(self) -> "Model":
        """Raises ModelMismatch if the model of this name is another one on this machine."""
        import torch

        from mbc_engine.lm.coding import signature
        from mbc_engine.load import load_model

        torch.set_num_threads(self._threads)
        model = load_model(self._name, device=self._device)
        own = signature(model)
        if own != self._expected:
            raise ModelMismatch(
                f"For a process on Ray, the model {self._name} is another one ({own.fingerprint}) than here "
                f"({self._expected.fingerprint}).",
                hint="Bring the same model to every machine, or name a folder on a disk that all of them share.",
            )
        return model


# What cuts the texts, what the bank knows if it keeps no sources, and the `text_column` of `read_file`.
Needed = tuple[Chunker, KnownContents | None, str | None]
# Items of a stretch that leave the encoder nothing to do: files that are unchanged, by the thousand.
_MOST_ITEMS: Final = 1024


def read_files(needed: "ObjectRef[Needed]", chunks: int, table: Table) -> Iterator[dict[str, list[bytes]]]:
    """Tables of `Files` to rows of `Stretch`es.

    Args:
        needed: where Ray keeps it.
        chunks: a stretch is done when it has so many; documents are not divided.
        table: the files.
    """
    for files in unpacked(table):
        yield from map(packed, stretches(files, _kept(needed), chunks))


def stretches(files: Files, needed: Needed, chunks: int) -> Iterator[Stretch]:
    """What becomes of files; an error is the last of it."""
    place, items, waiting = 0, list[Item](), 0
    try:
        for item in _items(files, *needed):
            items.append(item)
            waiting += len(item.chunks) if isinstance(item, Chunked) else 0
            if waiting >= chunks or len(items) >= _MOST_ITEMS:
                yield Stretch(files.number, place, False, tuple(items))
                place, items, waiting = place + 1, [], 0
        yield Stretch(files.number, place, True, tuple(items))
    except Exception as error:  # noqa: BLE001 - Ray would tell it as its own, with a traceback
        yield Stretch(files.number, place, True, (), error=told(error))


@lru_cache(maxsize=1)
def _kept(needed: "ObjectRef[Needed]") -> Needed:
    """What a process needs for one task after another."""
    import ray

    found: Needed = ray.get(needed)
    return found


def _items(files: Files, chunker: Chunker, contents: KnownContents | None, text_column: str | None) -> Iterator[Item]:
    for path, parts in zip(files.paths, files.known, strict=True):
        known = parts or contents
        assert known is not None, "a bank knows sources or contents"
        yield from read_chunks(Path(os.fsdecode(path)), known, chunker, text_column)
