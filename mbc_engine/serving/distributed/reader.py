"""Reading files and cutting them into chunks on Ray: a task for some files, in a process without a bank or torch."""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mbc_engine.model.chunker import Chunker
from mbc_engine.serving.distributed.known import KnownContents
from mbc_engine.serving.distributed.stretches import Files, Stretch, Table, packed, told, unpacked
from mbc_engine.serving.reading import Chunked, Item, read_chunks

if TYPE_CHECKING:
    from ray import ObjectRef

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
