"""The texts that clients send, kept as files that the engine's reader takes: a line of JSON each, in a folder of ours.

What was written and synced survives any end of the process; what is only in the bank could not be read again.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from filelock import Timeout

from mbc_engine.documents.dates import day_of
from mbc_engine.documents.encoding import LINE_CHARACTERS, storable
from mbc_engine.documents.formats.rows import is_row_name
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.whole_file import PRIVATE_FOLDER, make_private_folder, whole_file
from mbc_engine.work.lock import work_lock

LONGEST_NAME: Final = 200
_ID: Final = re.compile(r"[0-9a-f]{32}")
_SUFFIX: Final = ".jsonl"
# Hidden: a walk of the folder passes them by.
_LOCK, _PARTIAL = ".lock", ".partial"


@dataclass(frozen=True)
class Text:
    """A document as a client means it.

    Attributes:
        name: what it is called; foreign text, never part of a path.
        text: never blank.
        date: when it was written, ISO 8601; None where nobody said.
    """

    name: str
    text: str
    date: str | None

    @classmethod
    def of(cls, text: str, name: str | None, date: str | None) -> Self:
        """What a client sent. A text without a name is called by what it says, so that sending it again adds nothing.

        Raises:
            DataError: it cannot be kept so.
        """
        text = storable(text).strip()
        if not text:
            raise DataError("The text is empty.", hint="Send one that says something.")
        if len(text) > LINE_CHARACTERS // 16:  # JSON may take twelve characters for one
            raise DataError("The text is too long for one document.", hint="Send it in parts.")
        day = None if date is None else day_of(date)
        if date is not None and day is None:
            raise DataError("The date is no day.", hint="Days are such as 2024-05-31.")
        if name is not None and not is_row_name(name):
            raise DataError(
                "The name cannot be used.",
                hint=f'Names have 1 to {LONGEST_NAME} characters of valid Unicode, and do not read like "row 12" or "x, part 2".',
            )
        return cls(_digest(text) if name is None else name, text, day)

    @property
    def id(self) -> str:
        """Stands for the name in paths and addresses."""
        return _digest(self.name)


class DocumentFolder:
    """A folder of documents, each in a file called by its id. It belongs to one process at a time.

    Args:
        path: the folder, which need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def opened(self) -> Iterator[Self]:
        """Make the folder if it is not there, for its owner alone, and keep other servers out meanwhile.

        Raises:
            ConfigError: it cannot be made, holds other files, or another server has it.
        """
        try:
            is_new = not self.path.exists()
            make_private_folder(self.path)
            self.path = self.path.resolve()
            if any(not name.startswith(".") and not _is_own(name) for name in self._names()):
                raise ConfigError(
                    f"{self.path} holds other files than a server's documents.",
                    hint="Name a folder of its own with --documents.",
                )
            self.path.chmod(PRIVATE_FOLDER)
            if is_new:
                _sync(self.path.parent)
            lock = work_lock(self.path / _LOCK)
            lock.acquire()
        except Timeout as error:
            raise ConfigError(
                f"Another mbc serve keeps its documents in {self.path}.", hint="Name another folder with --documents."
            ) from error
        except OSError as error:
            raise ConfigError(
                f"The folder {self.path} cannot be used: {error.strerror or error}.",
                hint="Name another with --documents.",
            ) from error
        try:
            for partial in self.path.glob(f".*{_PARTIAL}"):
                partial.unlink()
            yield self
        finally:
            lock.release()

    def file(self, id: str) -> Path:
        """Where a document is, or would be."""
        return self.path / f"{id}{_SUFFIX}"

    def has(self, source: str) -> bool:
        """Whether a source is a file of this folder."""
        return source.startswith(f"{self.path}{os.sep}")

    def holds(self, id: str) -> bool:
        """Whether there is such a document; of what is no id, there is none."""
        return _ID.fullmatch(id) is not None and self.file(id).exists()

    def ids(self) -> list[str]:
        """Of all documents, sorted."""
        return sorted(name.removesuffix(_SUFFIX) for name in self._names() if _is_own(name))

    def read(self, id: str) -> Text | None:
        """A document, or None where there is none of this id."""
        if _ID.fullmatch(id) is None:
            return None
        try:
            row = json.loads(self.file(id).read_text("ascii"))
            found = Text(row["id"], row["text"], row["date"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
        return found if isinstance(found.name, str) and isinstance(found.text, str) else None

    def write(self, document: Text) -> None:
        """Keep a document in the place of what has its name; certain to last after `sync`.

        Raises:
            OSError: it cannot be written; what was there stays.
        """
        row = {"id": document.name, "date": document.date, "text": document.text}
        with whole_file(self.file(document.id), is_private=True) as file:
            file.write(f"{json.dumps(row)}\n".encode("ascii"))  # so that nobody has to find out its encoding

    def remove(self, id: str) -> bool:
        """Take a document away, for good after `sync`; False where there is none.

        Raises:
            OSError: it cannot be taken away.
        """
        if not self.holds(id):
            return False
        self.file(id).unlink()
        return True

    def sync(self) -> None:
        """Bring what was written and removed to the disk.

        Raises:
            OSError: the disk does not take it.
        """
        _sync(self.path)

    def _names(self) -> Iterator[str]:
        return (path.name for path in self.path.iterdir())


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _is_own(name: str) -> bool:
    return name.endswith(_SUFFIX) and _ID.fullmatch(name.removesuffix(_SUFFIX)) is not None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
