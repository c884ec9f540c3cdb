"""Whether files are still what was memorised of them."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mbc_engine.bank import Origin
from mbc_engine.documents import Document, Part, Skipped, read_document, reread_file
from mbc_engine.documents.pieces import named_whole
from mbc_engine.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

State = Literal["unchanged", "changed", "gone", "unreadable", "unknown"]


@dataclass(frozen=True)
class Look:
    """What has become of a document where it was read, and the document itself if it is unchanged."""

    state: State
    document: Document | None = None


class Files:
    """Looks into files for what was memorised of them; parts that are looked for in order need a single reading."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}
        self._last: dict[str, Part] = {}
        self._unread: dict[str, Iterator[Part | Skipped]] = {}
        self._unreadable: set[str] = set()

    def look(self, origin: Origin, digest: str) -> Look:
        """How an origin's part of its file compares with a digest, or with the first digits of one.

        `unknown` is what never was a file.
        """
        if not Path(origin.source).is_absolute():
            return Look("unknown")
        found = self._find(origin.source, origin.part, digest)
        if found is not None:
            return Look("unchanged", found) if found.digest.startswith(digest) else Look("changed")
        if not Path(origin.source).exists():
            return Look("gone")
        if origin.source in self._unreadable:
            return Look("unreadable")
        return Look("gone" if origin.part else "changed")

    def _find(self, source: str, part: str, digest: str) -> Document | None:
        """A part of a source as it is now: the document of this digest, where it can be read as that."""
        if source in self._last and self._last[source].may_hold(part):
            return self._last[source].find(part, digest)
        if self._seen.get(source, set()) & {part, named_whole(part)}:  # passed by already
            with suppress(DataError):
                return read_document(source, part, digest)
            return None
        items = self._unread.setdefault(source, reread_file(Path(source)))
        seen = self._seen.setdefault(source, set())
        for item in items:
            if isinstance(item, Skipped):
                if item.source == source:
                    self._unreadable.add(source)
                continue
            seen.add(item.name)
            self._last[source] = item
            if item.may_hold(part):
                return item.find(part, digest)
        return None
