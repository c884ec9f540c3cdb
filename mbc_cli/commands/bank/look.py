"""`mbc bank info`, `list`, `show` and `verify`: what a bank holds, and whether it is intact."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from mbc_cli.options import BankOption, JsonOption
from mbc_engine.bank import MemoryBank, StoredDocument
from mbc_engine.errors import BankError


def list_documents(*, bank: BankOption, json: JsonOption = False) -> None:
    """List a bank's documents: chunks, bytes, date and source; tab-separated in a pipe.

    A document found in several files has a line for each. A bank without sources lists digests instead. With --json
    each document is one line of JSON, with its digest and all its origins.

    Examples:
      mbc bank list
      mbc bank list | cut -f4
      mbc bank list --json | jq -r .digest
    """
    from mbc_cli.render.bank import show_list
    from mbc_engine.bank import MemoryBank

    with MemoryBank.open(bank, read_only=True) as memory:
        show_list(memory.documents(), as_json=json)


def show(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A path, path#part, or the start of a digest.")],
    *,
    bank: BankOption,
    codes: Annotated[bool, typer.Option("--codes", help="Show the codes of every chunk.")] = False,
    json: JsonOption = False,
) -> None:
    """Show everything a bank stores about a document, and whether its file has changed.

    A path selects all documents of its file, path#part one of them; six or more digits select all documents whose
    digest starts with them. With --json each document is one line of JSON, codes included.

    Examples:
      mbc bank show notes/ada.txt
      mbc bank show articles.jsonl#17 --codes
      mbc bank show 3f9a02c1
    """
    from mbc_cli.render.bank import documents_json, show_documents
    from mbc_engine.bank import MemoryBank

    with MemoryBank.open(bank, read_only=True) as memory:
        found, shape = documents(memory, source), memory.header.shape
        if json:
            documents_json(found, shape)
        else:
            show_documents(found, shape, with_codes=codes)


_DIGEST: Final = re.compile("[0-9a-fA-F]{6,64}")


def find(bank: MemoryBank, typed: Sequence[str]) -> tuple[set[tuple[str, str]], set[str]]:
    """Origins, as source and part, and digests of documents: what is meant by paths, path#part and digests.

    Raises BankError if something is not in the bank, or a digest fits several documents.
    """
    names: set[tuple[str, str]] = set()
    digests: list[str] = []
    for text in typed:
        if found := names_of(bank, text):
            names.update(found)
        elif _DIGEST.fullmatch(text):
            digests.append(text)
        else:
            raise _unknown(bank, text)
    return names, set(_whole(bank, digests))


def files_of(bank: MemoryBank, names: set[tuple[str, str]], digests: set[str]) -> dict[Path, bool]:
    """The files, still there, of documents, each with whether these are all that the bank has of it."""
    parts: dict[str, set[str]] = {}
    found = (origin for document in bank.lookup((), digests) for origin in document.origins)
    for source, part in (*names, *((origin.source, origin.part) for origin in found)):
        parts.setdefault(source, set()).add(part)
    there = (path for path in map(Path, sorted(parts)) if path.is_absolute() and path.is_file())
    return {path: parts[str(path)] >= bank.parts_of(str(path)) for path in there}


def documents(bank: MemoryBank, typed: str) -> Iterator[StoredDocument]:
    """The documents that are meant, with their codes; a digest may stand for several. Raises BankError if none is."""
    if names := names_of(bank, typed):
        # By length first: that puts numbers in order.
        for name in sorted(names, key=lambda name: (len(name[1]), name)):
            yield from bank.lookup([name])
        return
    digest = typed.lower()
    every = bank.documents() if _DIGEST.fullmatch(typed) else ()
    like = [own.digest for own in every if digest.startswith(own.digest[: len(digest)])]
    if not like:
        raise _unknown(bank, typed)
    yield from bank.lookup((), like)


def names_of(bank: MemoryBank, typed: str) -> list[tuple[str, str]]:
    """The origins of what was typed, if it names a source or a part of one."""
    text = os.fsencode(typed).decode("utf-8", "backslashreplace")
    for source in _sources(text):
        if parts := bank.parts_of(source):
            return [(source, part) for part in parts]
    # Paths and parts may both hold the sign that stands between them.
    for sign in re.finditer("#", text):
        part = text[sign.end() :]
        for source in _sources(text[: sign.start()]):
            if part in bank.parts_of(source):
                return [(source, part)]
    return []


def _sources(typed: str) -> tuple[str, str]:
    """A bank knows real paths. One that was typed relative, or through a link, means the same file."""
    return typed, os.path.realpath(typed)


def _whole(bank: MemoryBank, typed: Sequence[str]) -> Iterator[str]:
    """The whole digests of those typed, all found in one pass through the bank."""
    if not typed:
        return
    width = 2 * bank.header.digest_bytes
    starts = [text.lower()[:width] for text in typed]
    found: dict[str, list[str]] = {start: [] for start in starts}
    for document in bank.documents():
        for start, own in found.items():
            if document.digest.startswith(start):
                own.append(document.digest)
    for text, start in zip(typed, starts, strict=True):
        if not found[start]:
            raise _unknown(bank, text)
        if len(found[start]) > 1:
            raise BankError(
                f"The digests of {len(found[start]):,} documents of {bank.name} begin with {text}.",
                hint="Give more of it; `mbc bank list --json` shows digests whole.",
            )
        yield found[start][0]


def _unknown(bank: MemoryBank, typed: str) -> BankError:
    if bank.header.keeps_origins:
        hint = "`mbc bank list` shows what it holds."
    else:
        hint = "It keeps no sources: name documents by their digests, which `mbc bank list` shows."
    return BankError(f"{bank.name} does not hold {typed}.", hint=hint)


def info(*, bank: BankOption, json: JsonOption = False) -> None:
    """Show what a bank holds, its size and the model that wrote it.

    Examples:
      mbc bank info
      mbc bank info --bank work.mbc --json
    """
    from mbc_cli.render.bank import print_info_json, show_info
    from mbc_engine.bank import MemoryBank

    with MemoryBank.open(bank, read_only=True) as memory, memory.snapshot():
        totals, sizes = memory.totals(), memory.sizes()
    show = print_info_json if json else show_info
    show(memory.name, memory.header, totals, sizes)


def verify(*, bank: BankOption, json: JsonOption = False) -> None:
    """Check a bank for corruption. The exit code is 5 if there is any.

    Examples:
      mbc bank verify
      mbc bank verify --bank work.mbc --json
    """
    from dataclasses import asdict

    from rich.text import Text

    from mbc_cli.render.progress import ProgressView
    from mbc_cli.render.terminal import out, print_json
    from mbc_cli.text import counted, plain
    from mbc_engine.bank import verify as check
    from mbc_engine.events import BankVerified, DamageFound, Progressed

    found, done = list[DamageFound](), None
    with ProgressView() as view:
        for event in check(bank):
            match event:
                case Progressed():
                    view.bar("Verifying blocks", event.total, completed=event.done)
                case DamageFound():
                    found.append(event)
                    if not json:
                        out.print(Text(plain(f"{event.where}: {event.what}"), "red"))
                case BankVerified():
                    done = event
    assert done is not None, "it is the last event"
    if json:
        counts = {"documents": done.documents, "chunks": done.chunks}
        print_json({"path": str(bank), "ok": not done.damages, **counts, "findings": list(map(asdict, found))})
    elif not done.damages:
        holds = f"{counted(done.documents, 'document')}, {counted(done.chunks, 'chunk')}"
        out.print(plain(f"{bank} is intact: {holds}."))
    if done.damages:
        raise BankError(
            f"{bank} is damaged in {counted(done.damages, 'place')}.",
            hint="Restore it from a backup, or build it again from the documents with `mbc ingest`, in another file.",
        )
