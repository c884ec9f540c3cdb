"""`mbc bank info`, `list`, `show`, `verify`, `remove` and `undo`: inspect a bank, check it, and remove documents."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

import mbc_engine
from mbc_cli.config import activity_log
from mbc_cli.options import BankOption, JsonOption, option
from mbc_cli.program import interrupt_message
from mbc_cli.render.bank import content_summary, documents_json, print_info_json, show_documents, show_info, show_list
from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import notes, out, print_facts, print_json
from mbc_cli.text import display_path, pluralise, sanitise
from mbc_engine.errors import BankError, ConfigError
from mbc_engine.events import BankVerified, DamageFound, Progressed
from mbc_engine.sources import text_model
from mbc_engine.text import printable_path

if TYPE_CHECKING:
    from mbc_engine.bank import BankTotals, MemoryBank, StoredDocument
    from mbc_engine.bank.exchange import Proof

_NAMED: Final = 5
_DIGEST: Final = re.compile("[0-9a-fA-F]{6,64}")
# A file, the `.mbcignore` that excludes it, and the pattern added there; None if it was excluded already.
_Rule = tuple[Path, Path, str | None]
_Names = set[tuple[str, str]]


def info(*, bank: BankOption, json: JsonOption = False) -> None:
    """Show what a bank holds, its size and the model that wrote it.

    Examples:
      mbc bank info
      mbc bank info --bank work.mbc --json
    """
    with mbc_engine.MemoryBank.open(bank, read_only=True) as memory, memory.snapshot():
        (print_info_json if json else show_info)(memory)


def list_documents(*, bank: BankOption, json: JsonOption = False) -> None:
    """List a bank's documents: chunks, bytes, date and source; tab-separated in a pipe.

    A document found in several files has a line for each. A bank without sources lists digests instead. With --json
    each document is one line of JSON, with its digest and all its origins.

    Examples:
      mbc bank list
      mbc bank list | cut -f4
      mbc bank list --json | jq -r .digest
    """
    with mbc_engine.MemoryBank.open(bank, read_only=True) as memory:
        show_list(memory.documents(), as_json=json)


def show(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A path or its end, path#part, or the start of a digest.")
    ],
    *,
    bank: BankOption,
    codes: Annotated[bool, option("Show the codes of every chunk.", "--codes")] = False,
    json: JsonOption = False,
) -> None:
    """Show everything a bank stores about a document, its text included, and whether its file has changed.

    A path, or as much of its end as no other file has, selects all documents of its file or folder, path#part one of
    them; six or more hexadecimal digits select all documents whose digest starts with them. What could not be kept of
    a file is shown as long as it is unchanged. With --json each document is one line of JSON, codes included.

    Examples:
      mbc bank show notes/ada.txt
      mbc bank show articles.jsonl#17 --codes
      mbc bank show 3f9a02c1
    """
    with mbc_engine.MemoryBank.open(bank, read_only=True) as memory:
        documents = _documents(memory, source)
        if json:
            documents_json(documents, memory)
        else:
            show_documents(documents, memory, with_codes=codes)


def verify(
    *,
    bank: BankOption,
    deep: Annotated[
        bool, option("Also decode the texts that are compressed with the language model; slow.", "--deep")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Check a bank for corruption. The exit code is 5 if there is any.

    Examples:
      mbc bank verify
      mbc bank verify --deep
      mbc bank verify --bank work.mbc --json
    """
    from mbc_engine.bank.database import damaged
    from mbc_engine.bank.verification import verify as check

    damages, done = list[DamageFound](), None
    with ProgressView() as view:
        for event in check(bank, text_model if deep else None):
            match event:
                case Progressed():
                    name = "Decoding texts" if event.work == "decode texts" else "Verifying blocks"
                    view.bar(name, event.total, completed=event.done)
                case DamageFound():
                    damages.append(event)
                    if not json:
                        out.print(Text(sanitise(f"{event.where}: {event.what}"), "red"))
                case BankVerified():
                    done = event
    assert done is not None, "it is the last event"
    if json:
        counts = {"documents": done.documents, "chunks": done.chunks}
        print_json({"path": str(bank), "ok": not done.damages, **counts, "findings": damages})
    elif not done.damages:
        holds = f"{pluralise(done.documents, 'document')}, {pluralise(done.chunks, 'chunk')}"
        out.print(sanitise(f"{bank} is intact: {holds}."))
    if done.damages:
        raise damaged(str(bank), done.damages)


def remove(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE", help="Paths, path#part, or digests.")],
    *,
    bank: BankOption,
    ignore: Annotated[bool, option("Also add the files to the .mbcignore of their folder.", "--ignore")] = False,
    prove: Annotated[bool, option("Prove that no trace of them is left.", "--prove")] = False,
    json: JsonOption = False,
) -> None:
    """Remove documents from a bank; if one is not found, none are removed. Does not delete files.

    A path selects all documents of its file or folder, which may be gone; a document that is also in other files is
    kept for those. A digest, or at least its first six hexadecimal digits, removes a document from all its files. The
    next ingest of a folder brings its files back, unless --ignore keeps them out. --prove compares the bank with one
    built from everything else, and searches the file for traces of what was removed. Without --prove, what was removed
    is kept beside the bank for `mbc bank undo`, until the next removal or `mbc bank compact`.

    Examples:
      mbc bank remove notes/old.txt
      mbc bank remove notes/draft.md --ignore
      mbc bank remove articles.jsonl#17 --prove
      mbc bank remove 3f9a02c1d5e8 --bank small.mbc
    """
    from mbc_engine.bank.exchange import remove_undoably, remove_with_proof
    from mbc_engine.runs.ingests import forget_names
    from mbc_engine.text import ignore_path

    proof = None
    with (
        interrupt_message("Either all of them were removed or none; check with `mbc bank list`."),
        mbc_engine.MemoryBank.open(bank) as memory,
    ):
        names, digests, files = _resolve_sources(memory, sources, ignore=ignore)
        before = memory.totals()
        if prove:
            proof = remove_with_proof(memory, names, digests)
        else:
            remove_undoably(memory, names, digests)
            memory.checkpoint()
        after = memory.totals()
    forget_names(activity_log(bank))
    rules = [(path, *ignore_path(path)) for path in files] if ignore else []
    gone = _difference(before, after)
    if json:
        result = {
            "removed": gone,
            "bank": {"path": memory.name, **asdict(after)},
            "ignored": [{"path": path, "file": file, "added": added} for path, file, added in rules],
            "proof": proof and {**asdict(proof), "holds": proof.holds},
        }
        print_json(result)
    else:
        _show_removal(gone, after, rules, proof)
        if (gone.documents or gone.origins) and not prove:
            notes.print("`mbc bank undo` restores it; `mbc bank compact` or --prove deletes what is kept for that.")
    if files and not ignore:
        one, them = f"{display_path(files[0])} still exists", "it"
        if len(files) > 1:
            one, them = f"{len(files):,} files still exist", "them"
        note = f"{one}: the next ingest of the folder will bring {them} back. Use --ignore to keep {them} out."
        notes.print(Text(note))
    if proof and not proof.holds:
        beside = [file for file in proof.files if file != bank.name]
        hint = "Close all other programs that use the bank, then run `mbc bank compact`."
        if beside:
            hint = f"Delete {', '.join(map(sanitise, beside))} in the bank's folder if it is not needed."
        raise BankError(f"Could not prove that no trace is left in {memory.name}.", hint=hint)


def undo(*, bank: BankOption, json: JsonOption = False) -> None:
    """Restore what the last `mbc bank remove` removed, except for what has been ingested again since.

    What `mbc bank remove --prove` removed cannot be restored. A pattern added by --ignore stays in .mbcignore.

    Examples:
      mbc bank undo
      mbc bank undo --bank work.mbc
    """
    from mbc_engine.bank.exchange import undo_removal

    with mbc_engine.MemoryBank.open(bank) as memory:
        before = memory.totals()
        undo_removal(memory)
        after = memory.totals()
    restored = _difference(after, before)
    if json:
        print_json({"restored": restored, "bank": {"path": memory.name, **asdict(after)}})
    else:
        out.print(f"Restored {_described(restored)}; the bank holds {content_summary(after)}.")


def _difference(more: "BankTotals", fewer: "BankTotals") -> "BankTotals":
    counts = asdict(fewer)
    return replace(more, **{name: count - counts[name] for name, count in asdict(more).items()})


def _files(proof: "Proof") -> str:
    return sanitise(", ".join(proof.files)) or "the file and those beside it"


def _resolve_sources(bank: "MemoryBank", sources: list[str], *, ignore: bool) -> tuple[_Names, set[str], list[Path]]:
    """Names and digests to remove, and their files that still exist. With `ignore`, a file need not be in the bank."""
    absent = [typed for typed in sources if ignore and os.path.isfile(typed) and not _names_of(bank, typed)]
    names, typed_digests = _Names(), list[str]()
    for typed in sources:
        if matches := _names_of(bank, typed):
            names.update(matches)
        elif typed not in absent:
            typed_digests.append(typed)
    digests = set[str]()
    for typed, like in _digests(bank, typed_digests).items():
        if len(like) > 1:
            raise BankError(
                f"The digests of {len(like):,} documents of {bank.name} begin with {typed}.",
                hint="Give more digits; `mbc bank list --json` shows full digests.",
            )
        digests.update(like)
    files = _files_of(bank, names, digests)
    if ignore and (partial := next((path for path, is_whole in files.items() if not is_whole), None)):
        raise ConfigError(
            f"--ignore works on whole files, but the bank also holds other parts of {partial}.",
            hint="Name the file without a part, or leave out --ignore.",
        )
    return names, digests, sorted({*files, *(Path(typed).resolve() for typed in absent)})


def _files_of(bank: "MemoryBank", names: _Names, digests: set[str]) -> dict[Path, bool]:
    """The documents' files that still exist, each with whether these documents are all the bank holds of it."""
    parts: dict[str, set[str]] = {}
    origins = (origin for document in bank.lookup((), digests) for origin in document.origins)
    for source, part in (*names, *((origin.source, origin.part) for origin in origins)):
        parts.setdefault(source, set()).add(part)
    there = (path for path in map(Path, sorted(parts)) if path.is_absolute() and os.path.isfile(path))
    return {path: parts[str(path)] >= bank.parts_of(str(path)) for path in there}


def _documents(bank: "MemoryBank", typed: str) -> "Iterator[StoredDocument]":
    if names := _names_of(bank, typed) or _names_ending(bank, typed):
        # The length first sorts numbers numerically.
        for name in sorted(names, key=lambda name: (name[0], len(name[1]), name[1])):
            yield from bank.lookup([name], with_texts=True)
    else:
        yield from bank.lookup((), _digests(bank, [typed])[typed], with_texts=True)


def _names_of(bank: "MemoryBank", typed: str) -> list[tuple[str, str]]:
    text = printable_path(typed)
    # A bank stores real paths; a typed relative path or symlink can mean the same file.
    for source in (text, _real(text)):
        if parts := bank.parts_of(source):
            return [(source, part) for part in parts]
    # Paths and parts may both contain the separator.
    for sign in re.finditer("#", text):
        path, part = text[: sign.start()], text[sign.end() :]
        for source in (path, _real(path)):
            if part in bank.parts_of(source):
                return [(source, part)]
    folder = _real(text).rstrip(os.sep) + os.sep
    return [origin[:2] for origin in bank.origins() if text and origin.source.startswith(folder)]


def _real(typed: str) -> str:
    with suppress(RuntimeError):  # ~NOBODY
        return os.path.realpath(Path(typed).expanduser())
    return os.path.realpath(typed)


def _names_ending(bank: "MemoryBank", typed: str) -> list[tuple[str, str]]:
    """The documents of the only file whose path ends with this. Raises BankError if there are several files."""
    end = os.sep + os.path.normpath(printable_path(typed)).lstrip(os.sep)
    names = [origin[:2] for origin in bank.origins() if f"\n{origin.source}\n{origin.name}\n".count(f"{end}\n")]
    sources = sorted({source for source, _ in names})
    if len(sources) > 1:
        raise BankError(
            f"The paths of {len(sources):,} files of {bank.name} end with {typed}.",
            hint=f"Give more of one: {', '.join(sources[:_NAMED])}{', …' if len(sources) > _NAMED else ''}",
        )
    return names


def _digests(bank: "MemoryBank", typed: Sequence[str]) -> dict[str, list[str]]:
    """The digests that start with each typed prefix, found in one pass. Raises BankError if a prefix matches none."""
    digests: dict[str, list[str]] = {text: [] for text in typed if _DIGEST.fullmatch(text)}
    for document in bank.documents() if digests else ():
        for text, like in digests.items():
            if document.digest.startswith(text.lower()[: 2 * bank.header.digest_bytes]):
                like.append(document.digest)
    if missing := [text for text in typed if not digests.get(text)]:
        hint = "It keeps no sources: name documents by their digests, which `mbc bank list` shows."
        if bank.header.keeps_origins:
            names = {name: source for source, *_ in bank.origins() for name in (source, Path(source).name)}
            near = dict.fromkeys(names[name] for name in get_close_matches(missing[0], names, 3))
            hint = f"Did you mean {' or '.join(map(display_path, near))}? " if near else ""
            hint += "`mbc bank list` shows what it holds."
        raise BankError(f"{bank.name} does not hold {missing[0]}.", hint=hint)
    return digests


def _described(changed: "BankTotals") -> str:
    if changed.origins and not changed.documents:
        return f"{pluralise(changed.origins, 'origin')} of documents that are found elsewhere too"
    what = pluralise(changed.documents, "document")
    if changed.origins not in (0, changed.documents):
        return f"{pluralise(changed.origins, 'origin')} and the {what} found nowhere else"
    return what


def _show_removal(gone: "BankTotals", after: "BankTotals", rules: Sequence[_Rule], proof: "Proof | None") -> None:
    out.print(f"Removed {_described(gone)}; the bank holds {content_summary(after)}.")
    for path, file, added in rules:
        if added is None:
            out.print(Text(f"{display_path(file)} already leaves out {sanitise(path.name)}."))
        else:
            out.print(Text(f"Added {sanitise(added)} to {display_path(file)}."))
    if proof:
        print_facts(
            [
                ("never seen", f"{proof.never_seen}  export of a bank rebuilt from everything else, SHA-256"),
                ("found", f"{proof.found}  export of this bank, SHA-256"),
                (
                    "traces",
                    f"{proof.traces:,} of {pluralise(proof.removed, 'removed digest')} found in {_files(proof)}",
                ),
                ("proof", "passed" if proof.holds else "FAILED"),
            ]
        )
