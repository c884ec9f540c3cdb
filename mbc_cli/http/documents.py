"""The documents of a served memory: clients' documents, kept as files in a folder, and the others in the bank."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import Annotated, Final, Generic, Literal, Self, TypeVar

from filelock import Timeout
from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from mbc_engine.atomic_write import PRIVATE_FOLDER, atomic_write, make_private_folder
from mbc_engine.bank import MemoryBank, StoredDocument
from mbc_engine.errors import ConfigError
from mbc_engine.runs.event_log import work_lock
from mbc_engine.text.decoding import LINE_CHARACTERS, storable
from mbc_engine.text.document import day_of
from mbc_engine.text.formats import is_row_name

MAX_NAME_LENGTH: Final = 200
ID_LENGTH: Final = 32
# Prefix of the id of a document that no client sent; its digest follows.
INGESTED: Final = "bank-"
_ID: Final = re.compile(rf"[0-9a-f]{{{ID_LENGTH}}}")
_SUFFIX: Final = ".jsonl"
_MAX_TEXT_LENGTH: Final = LINE_CHARACTERS // 16  # JSON may escape one character as twelve
_Item = TypeVar("_Item")


def _text(text: str) -> str:
    text = storable(text).strip()
    if not text:
        raise ValueError("the text is empty")
    if len(text) > _MAX_TEXT_LENGTH:
        raise ValueError("the text is too long for one document; send it in parts")
    return text


def _name(name: str) -> str:
    if not is_row_name(name):
        raise ValueError('a name must be valid Unicode and not look like "row 12" or "x, part 2"')
    return name


def _date(date: str) -> str:
    day = day_of(date)
    if day is None:
        raise ValueError("the date is not valid; write 2024-05-31, for example")
    return day


class DocumentReply(BaseModel):
    """A document of the memory."""

    id: str
    object: Literal["document"] = "document"
    name: str | None = Field(None, description="The name its client gave it; null if no client sent it.")
    date: str | None
    chunks: int | None = Field(None, description="How many chunks of it the bank holds; null until it is memorised.")
    state: Literal["memorised", "waiting"] = "waiting"
    kept: bool = Field(True, description="Whether a client sent it; clients may replace and remove only these.")
    sources: list[str] = Field([], description="The files it was read from, if no client sent it.")
    text: str | None = Field(None, description="The text its client sent; only when a single document is requested.")


class NewDocument(BaseModel):
    """A document to memorise; it replaces an earlier one of the same name."""

    model_config = ConfigDict(strict=True, extra="forbid")

    text: Annotated[str, AfterValidator(_text)] = Field(description="What to memorise.")
    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH), AfterValidator(_name)] | None = Field(
        None, description="Its name. Without one, its text identifies it, so that sending it again adds nothing."
    )
    date: Annotated[str, Field(max_length=100), AfterValidator(_date)] | None = Field(
        None, description="The day it was written, such as 2024-05-31."
    )

    def model_post_init(self, _: object) -> None:
        if self.name is None:
            self.name = _digest(self.text)

    @property
    def id(self) -> str:
        return _digest(self.name or "")

    def reply(self, chunks: int = 0) -> DocumentReply:
        state: Literal["memorised", "waiting"] = "memorised" if chunks else "waiting"
        return DocumentReply(
            id=self.id, name=self.name, date=self.date, chunks=chunks or None, state=state, text=self.text
        )


# Discriminated by shape, so that an error is about the intended variant.
NewDocuments = Annotated[
    Annotated[NewDocument, Tag("one")]
    | Annotated[list[NewDocument], Field(min_length=1, max_length=100), Tag("several")],
    Discriminator(lambda given: "several" if isinstance(given, list) else "one"),
]


class ListReply(BaseModel, Generic[_Item]):
    """A list, or a page of one."""

    object: Literal["list"] = "list"
    data: list[_Item]
    has_more: bool = False


class DocumentFolder:
    """A folder of clients' documents, each a line of JSON in a file ID.jsonl, synced to disk. One process uses it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def opened(self) -> Iterator[Self]:
        """Create the folder if needed, accessible only to its owner, and lock it.

        Raises ConfigError if it cannot be created, holds other files or is locked by another server.
        """
        hint = "Name another folder with --documents."
        try:
            is_new = not self.path.exists()
            make_private_folder(self.path)
            self.path = self.path.resolve()
            if any(not path.name.startswith(".") and not _is_own(path.name) for path in self.path.iterdir()):
                raise ConfigError(f"{self.path} contains files other than a server's documents.", hint=hint)
            self.path.chmod(PRIVATE_FOLDER)
            if is_new:
                _sync(self.path.parent)
            lock = work_lock(self.path / ".lock")
            lock.acquire()
        except Timeout as error:
            raise ConfigError(f"Another mbc serve is using the folder {self.path}.", hint=hint) from error
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be used: {error.strerror or error}.", hint=hint) from error
        try:
            for partial in self.path.glob(".*.partial"):
                partial.unlink()
            yield self
        finally:
            lock.release()

    def file(self, id: str) -> Path:
        return self.path / f"{id}{_SUFFIX}"

    def has(self, source: str) -> bool:
        return source.startswith(f"{self.path}{os.sep}")

    def ids(self) -> list[str]:
        return sorted(path.stem for path in self.path.iterdir() if _is_own(path.name))

    def read(self, id: str) -> NewDocument | None:
        if _ID.fullmatch(id) is None:
            return None
        try:
            row = json.loads(self.file(id).read_text("ascii"))
            return NewDocument(name=row["id"], date=row["date"], text=row["text"])
        except (FileNotFoundError, ValueError, KeyError, TypeError, ValidationError):
            return None

    def write(self, documents: Sequence[NewDocument]) -> None:
        for document in documents:
            row = {"id": document.name, "date": document.date, "text": document.text}
            with atomic_write(self.file(document.id), is_private=True) as file:
                file.write(f"{json.dumps(row)}\n".encode("ascii"))
        _sync(self.path)

    def remove(self, id: str) -> bool:
        if _ID.fullmatch(id) is None or not self.file(id).exists():
            return False
        self.file(id).unlink()
        _sync(self.path)
        return True


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _is_own(name: str) -> bool:
    return name.endswith(_SUFFIX) and _ID.fullmatch(name.removesuffix(_SUFFIX)) is not None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]


def client_document(bank: MemoryBank, folder: DocumentFolder, id: str) -> DocumentReply | None:
    document = folder.read(id)
    if document is None:
        return None
    source = str(folder.file(id))  # the bank holds long documents in pieces
    pieces = bank.lookup([(source, part) for part in bank.parts_of(source)])
    return document.reply(
        sum(piece.chunks * sum(origin.source == source for origin in piece.origins) for piece in pieces)
    )


def find_document(path: Path, folder: DocumentFolder, id: str) -> DocumentReply | None:
    with MemoryBank.open(path, read_only=True) as bank:
        if not id.startswith(INGESTED):
            return client_document(bank, folder, id)
        digest = id.removeprefix(INGESTED)
        is_digest = re.fullmatch("[0-9a-f]*", digest) and len(digest) == 2 * bank.header.digest_bytes
        for stored in bank.lookup([], [digest] if is_digest else []):
            if not _is_from(folder, stored):
                return _ingested(stored, folder)
    return None


def list_documents(path: Path, folder: DocumentFolder, limit: int, after: str) -> ListReply[DocumentReply]:
    with MemoryBank.open(path, read_only=True) as bank:
        is_ingested = after.startswith(INGESTED)
        ids = () if is_ingested else (id for id in folder.ids() if id > after)
        readable = (reply for id in ids if (reply := client_document(bank, folder, id)) is not None)
        found = list(islice(readable, limit + 1))
        if len(found) <= limit:
            last = after.removeprefix(INGESTED) if is_ingested else ""
            others = (other for other in bank.documents() if other.digest > last and not _is_from(folder, other))
            first = nsmallest(limit + 1 - len(found), others, key=lambda other: other.digest)
            found += [_ingested(other, folder) for other in first]
    return ListReply(data=found[:limit], has_more=len(found) > limit)


def _is_from(folder: DocumentFolder, document: StoredDocument) -> bool:
    return bool(document.origins) and all(folder.has(origin.source) for origin in document.origins)


def _ingested(document: StoredDocument, folder: DocumentFolder) -> DocumentReply:
    origins = [origin for origin in document.origins if not folder.has(origin.source)]
    return DocumentReply(
        id=f"{INGESTED}{document.digest}",
        date=origins[0].date if origins else None,
        chunks=document.chunks,
        state="memorised",
        kept=False,
        sources=[origin.name for origin in origins],
    )
