"""The documents of a served memory: those that clients send, kept as files in a folder, and the others in the bank."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, Generic, Literal, Self, TypeVar

from filelock import Timeout
from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from mbc_engine.atomic_write import PRIVATE_FOLDER, atomic_write, make_private_folder
from mbc_engine.bank import MemoryBank, StoredDocument
from mbc_engine.bank.database import bytes_at, identity
from mbc_engine.errors import BankError, ConfigError
from mbc_engine.events import FileSkipped
from mbc_engine.memory import Memory
from mbc_engine.runs.event_log import work_lock
from mbc_engine.text.decoding import LINE_CHARACTERS, storable
from mbc_engine.text.document import day_of
from mbc_engine.text.formats.rows import is_row_name

# Characters memorised per batch, which the next question waits for.
BATCH_CHARACTERS: Final = 100_000
MAX_NAME_LENGTH: Final = 200
ID_LENGTH: Final = 32
# Prefix of the id of a document that no client sent; its digest follows.
INGESTED: Final = "bank-"
_ID: Final = re.compile(rf"[0-9a-f]{{{ID_LENGTH}}}")
_SUFFIX: Final = ".jsonl"
_MAX_TEXT_LENGTH: Final = LINE_CHARACTERS // 16  # JSON may escape one character as twelve
_Item = TypeVar("_Item")


def _text(text: str) -> str:
    if not (text := storable(text).strip()):
        raise ValueError("the text is empty")
    if len(text) > _MAX_TEXT_LENGTH:
        raise ValueError("the text is too long for one document; send it in parts")
    return text


def _name(name: str) -> str:
    if not is_row_name(name):
        raise ValueError('a name must be valid Unicode and not look like "row 12" or "x, part 2"')
    return name


def _date(date: str) -> str:
    if (day := day_of(date)) is None:
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
        how: Any = {"chunks": chunks, "state": "memorised"} if chunks else {"chunks": None}
        return DocumentReply(id=self.id, name=self.name, date=self.date, text=self.text, **how)


# Discriminated by shape, so that an error is about the intended variant.
NewDocuments = Annotated[
    Annotated[NewDocument, Tag("one")] | Annotated[list[NewDocument], Field(min_length=1, max_length=100), Tag("list")],
    Discriminator(lambda body: "list" if isinstance(body, list) else "one"),
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
            if any(not path.name.startswith(".") and not _is_document(path.name) for path in self.path.iterdir()):
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
        return sorted(path.stem for path in self.path.iterdir() if _is_document(path.name))

    def read(self, id: str) -> NewDocument | None:
        if _ID.fullmatch(id) is None:
            return None
        try:
            row = json.loads(self.file(id).read_text("ascii"))
            return NewDocument(name=row["id"], date=row["date"], text=row["text"])
        except (FileNotFoundError, ValueError, KeyError, TypeError, ValidationError):
            return None

    def write(self, documents: Sequence[NewDocument]) -> Sequence[NewDocument]:
        for document in documents:
            row = {"id": document.name, "date": document.date, "text": document.text}
            with atomic_write(self.file(document.id), is_private=True) as file:
                file.write(f"{json.dumps(row)}\n".encode("ascii"))
        _sync(self.path)
        return documents

    def remove(self, id: str) -> bool:
        if _ID.fullmatch(id) is None or not self.file(id).exists():
            return False
        self.file(id).unlink()
        _sync(self.path)
        return True


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_document(name: str) -> bool:
    return name.endswith(_SUFFIX) and _ID.fullmatch(name.removesuffix(_SUFFIX)) is not None


def document_file(name: str) -> str:
    """The file, in the folder, of the client's document with this name."""
    return f"{_digest(name)}{_SUFFIX}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]


class ClientDocuments:
    """The documents of a memory, of which clients change those in a folder: first the file, then the first bank.

    `sync`, `current_memory` and `change` run in the memory's thread, `find` and `page` in any.
    """

    def __init__(self, memory: Memory, folder: DocumentFolder) -> None:
        self.memory, self.folder, self.bank = memory, folder, memory.paths[0]
        self._is_behind = True  # the bank may not match the folder
        self._bank_file: tuple[int, ...] | None = None

    def sync(self) -> None:
        """Create the bank if needed, and bring it in line with the folder."""
        from mbc_engine.model import open_bank

        with open_bank(self.memory.model, self.bank) as bank:
            keeps_origins = bank.header.keeps_origins
        if keeps_origins:
            self._update_bank()
        self._bank_file = identity(self.bank)

    def current_memory(self) -> Memory:
        """The memory, whose bank is synced first if another file has taken its place."""
        if self._bank_file is not None and identity(self.bank) not in (None, self._bank_file):
            self.sync()
        return self.memory

    def change(self, changes: Sequence[list[NewDocument] | str]) -> list[Any]:
        """Add documents, or remove one by id, with each change.

        Returns each change's documents, whether one was removed, or an error.
        """
        if bytes_at(self.bank):
            with self._open_bank() as bank:
                if not bank.header.keeps_origins:
                    message = f"{bank.name} keeps no sources: clients cannot add or remove documents."
                    raise ConfigError(message, hint="Serve another bank with --bank.")
        is_behind, self._is_behind = self._is_behind or self._bank_file != identity(self.bank), True
        results: list[Any] = []
        for change in changes:
            try:
                results.append(self.folder.remove(change) if isinstance(change, str) else self.folder.write(change))
            except OSError as error:
                message = f"The document cannot be written to the disk: {error.strerror or error}."
                hint = "Check the permissions and the free space of the documents folder."
                results.append(BankError(message, hint=hint))
        ids = {id for change in changes for id in ([change] if isinstance(change, str) else [new.id for new in change])}
        skipped = self._update_bank(() if is_behind else sorted(ids))
        with self._open_bank() as bank:
            return [self._added(result, bank, skipped) if isinstance(result, list) else result for result in results]

    def find(self, id: str) -> DocumentReply | None:
        with self._open_bank() as bank:
            if not id.startswith(INGESTED):
                return self._from_client(bank, id)
            digest = id.removeprefix(INGESTED)
            is_digest = re.fullmatch("[0-9a-f]*", digest) and len(digest) == 2 * bank.header.digest_bytes
            for document in bank.lookup([], [digest] if is_digest else []):
                if not self._is_from_clients(document):
                    return self._ingested(document)
        return None

    def page(self, limit: int, after: str) -> ListReply[DocumentReply]:
        """The next documents after an id, clients' documents first."""
        with self._open_bank() as bank:
            is_ingested = after.startswith(INGESTED)
            ids = () if is_ingested else (id for id in self.folder.ids() if id > after)
            readable = (reply for id in ids if (reply := self._from_client(bank, id)) is not None)
            replies = list(islice(readable, limit + 1))
            if len(replies) <= limit:
                last = after.removeprefix(INGESTED) if is_ingested else ""
                others = (item for item in bank.documents() if item.digest > last and not self._is_from_clients(item))
                first = nsmallest(limit + 1 - len(replies), others, key=lambda document: document.digest)
                replies += map(self._ingested, first)
        return ListReply(data=replies[:limit], has_more=len(replies) > limit)

    def _open_bank(self) -> MemoryBank:
        return MemoryBank.open(self.bank, read_only=True)

    def _update_bank(self, ids: Sequence[str] = ()) -> dict[str, str]:
        """Sync the bank with these documents' files, or with all; returns why some were skipped, by id."""
        files = [self.folder.file(id) for id in ids]
        existing = [file for file in files if file.exists()] if ids else [self.folder.path]
        skipped: dict[str, str] = {}
        for event in self.memory.add(existing, is_choosy=False) if existing else ():
            if isinstance(event, FileSkipped):
                skipped[Path(event.source).name[:ID_LENGTH]] = event.reason
        gone = [str(file) for file in files if file not in existing]
        if not ids:  # not by pruning, which keeps what it removes for an undo
            with self._open_bank() as bank:
                stored = {origin.source for origin in bank.origins() if self.folder.has(origin.source)}
            gone = sorted(source for source in stored if not Path(source).exists())
        if gone:
            self.memory.remove(gone)
        self._is_behind, self._bank_file = bool(skipped), identity(self.bank)
        return skipped

    def _added(self, documents: list[NewDocument], bank: MemoryBank, skipped: dict[str, str]) -> Any:
        for document in documents:
            if (reason := skipped.get(document.id)) is not None:
                return BankError(f"The document {reason}.", hint="It is tried again with the next change.")
        # A later change in the batch may have removed it again.
        return [self._from_client(bank, document.id) or document.reply() for document in documents]

    def _from_client(self, bank: MemoryBank, id: str) -> DocumentReply | None:
        if (document := self.folder.read(id)) is None:
            return None
        source = str(self.folder.file(id))  # the bank holds long documents in pieces
        pieces = bank.lookup([(source, part) for part in bank.parts_of(source)])
        chunks = (piece.chunks for piece in pieces for origin in piece.origins if origin.source == source)
        return document.reply(sum(chunks))

    def _is_from_clients(self, document: StoredDocument) -> bool:
        return bool(document.origins) and all(self.folder.has(origin.source) for origin in document.origins)

    def _ingested(self, document: StoredDocument) -> DocumentReply:
        origins = [origin for origin in document.origins if not self.folder.has(origin.source)]
        return DocumentReply(
            id=f"{INGESTED}{document.digest}",
            date=origins[0].date if origins else None,
            chunks=document.chunks,
            state="memorised",
            kept=False,
            sources=[origin.name for origin in origins],
        )
