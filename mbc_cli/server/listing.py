"""What a server tells of its banks and documents, read beside the thread that works."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from heapq import nsmallest
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, Field

from mbc_cli.server.document_folder import DocumentFolder
from mbc_engine.bank import Banks, MemoryBank, Origin, StoredDocument
from mbc_engine.documents.pieces import named_whole

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
