"""Whether files are still what was memorised of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from mbc_engine.bank import Origin
from mbc_engine.documents import Document, Skipped, read_file

State = Literal["unchanged", "changed", "gone", "unreadable", "unknown"]


class Files:
    """Reads files for comparison: each once, however many of its parts are asked for, and no further than needed."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, str]] = {}
        self._unread: dict[str, Iterator[Document | Skipped]] = {}
        self._unreadable: set[str] = set()

    def state(self, origin: Origin, digest: str) -> State:
        """How an origin's part of its file compares with a digest, or with the first digits of one.

        `unknown` is what never was a file.
        """
        path = Path(origin.source)
        if not path.is_absolute():
            return "unknown"
        found = self._digest(origin.source, origin.part)
        if found is not None:
            return "unchanged" if found.startswith(digest) else "changed"
        if not path.exists():
            return "gone"
        if origin.source in self._unreadable:
            return "unreadable"
        return "gone" if origin.part else "changed"

    def _digest(self, source: str, part: str) -> str | None:
        """The digest that a part of a source has now."""
        items = self._unread.setdefault(source, read_file(Path(source)))
        seen = self._seen.setdefault(source, {})
        while part not in seen and (item := next(items, None)):
            if isinstance(item, Document):
                seen[item.part] = item.digest
            elif item.source == source:
                self._unreadable.add(source)
        if not part:
            self._unread[source] = iter(())  # there is no other; closes the file
        return seen.get(part)
