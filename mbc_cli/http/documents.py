"""The texts that clients send, kept as files that the engine's reader takes: a line of JSON each, in a folder of ours.

What was written and synced survives any end of the process; what is only in the bank could not be read again.

What a server tells of its banks and documents, read beside the thread that works.

What requests and replies look like, but for chat completions and what is listed.
"""

import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from heapq import nsmallest
from pathlib import Path
from typing import Annotated, Final, Literal, Self

import fastapi
from filelock import Timeout
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from mbc_engine.atomic_write import PRIVATE_FOLDER, atomic_write, make_private_folder
from mbc_engine.bank import Banks, MemoryBank, Origin, StoredDocument
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.runs.event_log import work_lock
from mbc_engine.text.chunks import named_whole
from mbc_engine.text.decoding import LINE_CHARACTERS, storable
from mbc_engine.text.document import day_of
from mbc_engine.text.formats.rows import is_row_name

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
        with atomic_write(self.file(document.id), is_private=True) as file:
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


# What is only in the bank has its digest as its id.
ELSEWHERE: Final = "bank-"


class Sizes(BaseModel):
    """Bytes."""

    codes: int = Field(description="The packed codes of all chunks.")
    texts: int = Field(description="The compressed texts of all chunks; 0 in a bank without text.")
    codebook: int = Field(description="The model's codebook, which is not part of the bank file.")
    file: int = Field(description="The bank files.")


class BankShape(BaseModel):
    """What the banks hold together."""

    object: Literal["bank"] = "bank"
    paths: list[str]
    model: str
    fingerprint: str
    documents: int
    origins: int
    chunks: int
    sizes: Sizes


class DocumentShape(BaseModel):
    """A document of the bank."""

    id: str
    object: Literal["document"] = "document"
    name: str | None = Field(description="What its client called it; null for what no client sent.")
    date: str | None
    chunks: int | None = Field(description="How many chunks the bank has of it; null while it is not memorised.")
    state: Literal["memorised", "waiting"]
    kept: bool = Field(description="Whether a client sent it, so that clients may replace and remove it.")
    sources: list[str] = Field(description="The files it was read from, unless a client sent it.")


class WholeDocument(DocumentShape):
    """A document with its text, where the server keeps that."""

    text: str | None


class DocumentPage(BaseModel):
    """Documents in the order of their ids, those of clients first."""

    object: Literal["list"] = "list"
    data: list[DocumentShape]
    has_more: bool


def figures(paths: Sequence[Path]) -> BankShape:
    """What the banks hold and weigh.

    Raises:
        BankError: one of them cannot be read.
    """
    with Banks.open(paths) as banks, banks.snapshot():
        signature = banks.headers[0].signature
        return BankShape(
            paths=[str(path) for path in paths],
            model=signature.name,
            fingerprint=signature.fingerprint,
            **asdict(banks.totals()),
            sizes=Sizes(**asdict(banks.sizes())),
        )


def page(bank: Path, folder: DocumentFolder, limit: int, after: str) -> DocumentPage:
    """Some documents, behind the one with the id `after`.

    Raises:
        BankError: the bank cannot be read.
    """
    with MemoryBank.open(bank, read_only=True) as memory:
        ids = [] if after.startswith(ELSEWHERE) else [id for id in folder.ids() if id > after][: limit + 1]
        found = kept(memory, folder, ids)
        if len(ids) <= limit:
            digest = after.removeprefix(ELSEWHERE) if after.startswith(ELSEWHERE) else ""
            others = _first_elsewhere(memory, folder, limit + 1 - len(found), digest)
            found += [_elsewhere(own, folder) for own in others]
    return DocumentPage(data=found[:limit], has_more=len(found) > limit)


def document(bank: Path, folder: DocumentFolder, id: str) -> WholeDocument | None:
    """A document, or None where there is none of this id.

    Raises:
        BankError: the bank cannot be read.
    """
    with MemoryBank.open(bank, read_only=True) as memory:
        if not id.startswith(ELSEWHERE):
            text = folder.read(id)
            found = next(iter(kept(memory, folder, [id])), None) if text else None
            return WholeDocument(**found.model_dump(), text=text.text) if found and text else None
        digest = id.removeprefix(ELSEWHERE)
        is_digest = re.fullmatch("[0-9a-f]*", digest) and len(digest) == 2 * memory.header.digest_bytes
        for stored, _ in memory.lookup([], [digest] if is_digest else []):
            if _is_elsewhere(stored, folder):
                return WholeDocument(**_elsewhere(stored, folder).model_dump(), text=None)
    return None


def kept(bank: MemoryBank, folder: DocumentFolder, ids: Sequence[str]) -> list[DocumentShape]:
    """Documents of clients, as far as they are there; the bank has long ones in pieces."""
    sources = {str(folder.file(id)): id for id in ids}
    names = [(source, part) for source in sources for part in bank.parts_of(source)]
    pieces: defaultdict[str, dict[str, tuple[Origin, int]]] = defaultdict(dict)
    for own, _ in bank.lookup(names):
        for origin in own.origins:
            if origin.source in sources:
                pieces[sources[origin.source]][origin.part] = (origin, own.chunks)
    shapes: list[DocumentShape] = []
    for id in ids:
        if id in pieces:
            origin, _ = next(iter(pieces[id].values()))
            chunks = sum(count for _, count in pieces[id].values())
            shapes.append(shape(id, named_whole(origin.part), origin.date, chunks))
        elif (text := folder.read(id)) is not None:
            shapes.append(shape(id, text.name, text.date, None))
    return shapes


def shape(id: str, name: str, date: str | None, chunks: int | None) -> DocumentShape:
    """A document of a client; `chunks` is None while it is not memorised."""
    state: Literal["memorised", "waiting"] = "waiting" if chunks is None else "memorised"
    return DocumentShape(id=id, name=name, date=date, chunks=chunks, state=state, kept=True, sources=[])


def _first_elsewhere(bank: MemoryBank, folder: DocumentFolder, most: int, after: str) -> list[StoredDocument]:
    """The documents that no client sent, in the order of their digests; objects are made of the first alone."""
    first: list[StoredDocument] = []
    for found in bank.listings():
        sources = found.origins.sources
        rows = zip(found.origins.rows(), sources, strict=True) if sources else ((row, "") for row in range(len(found)))
        here = {row for row, source in rows if not folder.has(source)}
        keys = ((digest, row) for row in here if (digest := found.digests[row].hex()) > after)
        first += [found.document(row) for _, row in nsmallest(most, keys)]
        first = nsmallest(most, first, key=lambda own: own.digest)
    return first


def _is_elsewhere(document: StoredDocument, folder: DocumentFolder) -> bool:
    """Whether a document was read in other places than the folder of clients' documents, or nobody knows where."""
    return not document.origins or any(not folder.has(origin.source) for origin in document.origins)


def _elsewhere(document: StoredDocument, folder: DocumentFolder) -> DocumentShape:
    origins = [origin for origin in document.origins if not folder.has(origin.source)]
    return DocumentShape(
        id=f"{ELSEWHERE}{document.digest}",
        name=None,
        date=origins[0].date if origins else None,
        chunks=document.chunks,
        state="memorised",
        kept=False,
        sources=[origin.name for origin in origins],
    )


MOST_DOCUMENTS: Final = 100
_PAGE: Final = 20
_MOST_SHOWN: Final = 100


class DocumentGiven(BaseModel):
    """A document to memorise; the same name again takes its place."""

    model_config = ConfigDict(strict=True, extra="forbid")

    text: str = Field(min_length=1, description="What to memorise.", json_schema_extra={"pattern": r"\S"})
    name: str | None = Field(None, min_length=1, max_length=LONGEST_NAME, description="What it is called.")
    date: Annotated[str, Field(max_length=100, json_schema_extra={"format": "date"})] | None = Field(
        None, description="The day it was written, such as 2024-05-31."
    )


class PageWanted(BaseModel):
    """Which documents to list."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(_PAGE, ge=1, le=_MOST_SHOWN)
    after: str = Field("", max_length=LONGEST_NAME, description="The last id of the page before.")


class DocumentsAdded(BaseModel):
    """Documents that the bank has, in the order in which they were sent."""

    object: Literal["list"] = "list"
    data: list[DocumentShape]


class DocumentRemoved(BaseModel):
    """A document that is gone."""

    id: str
    object: Literal["document.deleted"] = "document.deleted"
    deleted: Literal[True] = True


class ModelShape(BaseModel):
    """The model that is served."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["mbc"] = "mbc"


class ModelList(BaseModel):
    """All models that are served: one."""

    object: Literal["list"] = "list"
    data: list[ModelShape]


class Health(BaseModel):
    """Whether questions are answered."""

    status: Literal["ok", "unavailable"]


# Told apart by their shape, so that what is wrong is told of the one that is meant.
_ONE, _SEVERAL = "one", "several"
Given = Annotated[
    Annotated[DocumentGiven, Tag(_ONE)]
    | Annotated[list[DocumentGiven], Field(min_length=1, max_length=MOST_DOCUMENTS), Tag(_SEVERAL)],
    Discriminator(lambda given: _SEVERAL if isinstance(given, list) else _ONE),
]
# What pydantic adds to the place of a mistake, and nobody has sent.
BRANCHES: Final = (_ONE, _SEVERAL, "str")
Id = Annotated[str, fastapi.Path(max_length=LONGEST_NAME)]
