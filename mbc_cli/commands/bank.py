"""`mbc bank`: inspect a bank and check it, remove documents, copy and convert what it holds."""

import hashlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, astuple
from difflib import get_close_matches
from operator import sub
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from unicodedata import normalize

from rich.text import Text

import mbc_engine
from mbc_cli.command_line import interrupt_message, stop_on_interrupt, stopped
from mbc_cli.formatting import display_path, format_size, pluralise, sanitise
from mbc_cli.options import BankOption, DeviceOption, JsonOption, ModelOption, WorkersOption, argument, option
from mbc_cli.paths import activity_log
from mbc_cli.render import bank as render
from mbc_cli.render.terminal import ProgressView, notes, out, print_facts, print_json, status_spinner
from mbc_engine.atomic_write import atomic_write
from mbc_engine.errors import BankError, ConfigError, DataError
from mbc_engine.events import BankVerified, DamageFound, Progressed
from mbc_engine.sources import text_model
from mbc_engine.text import printable_path

if TYPE_CHECKING:
    from mbc_engine.bank import BankTotals, MemoryBank, StoredDocument
    from mbc_engine.bank.exchange import Proof

_STANDARD: Final = Path("-")
# Far longer than any exported line; an endless line would exhaust memory.
_MAX_LINE_BYTES: Final = 1 << 28
_NAMED: Final = 5
_DIGEST: Final = re.compile("[0-9a-fA-F]{6,64}")
# A file, the `.mbcignore` that excludes it, and the pattern added there; None if it was excluded already.
_Rule = tuple[Path, Path, str | None]
_Names = set[tuple[str, str]]
_CODEC = "Also recode all texts: with the language model (lm, smaller) or with zstd (faster to read)."
_DEEP = "Also decode the texts that are compressed with the language model; slow."


def info(*, bank: BankOption, json: JsonOption = False) -> None:
    """Show what a bank holds, its size and the model that wrote it.

    Examples:
      mbc bank info
      mbc bank info --bank work.mbc --json
    """
    with mbc_engine.MemoryBank.open(bank, read_only=True) as memory, memory.snapshot():
        (render.print_info_json if json else render.show_info)(memory)


def list_documents(*, bank: BankOption, json: JsonOption = False) -> None:
    """List a bank's documents: chunks, bytes, date and source; tab-separated in a pipe.

    A document found in several files has a line for each. A bank without sources lists digests instead. With --json,
    each document is one line of JSON, with its digest and all its origins.

    Examples:
      mbc bank list
      mbc bank list | cut -f4
      mbc bank list --json | jq -r .digest
    """
    with mbc_engine.MemoryBank.open(bank, read_only=True) as memory:
        render.show_list(memory.documents(), as_json=json)


def show(
    source: Annotated[str, argument("SOURCE", "A path or its end, path#part, or the start of a digest.")],
    *,
    bank: BankOption,
    codes: Annotated[bool, option("Show the codes of every chunk.", "--codes")] = False,
    json: JsonOption = False,
) -> None:
    """Show everything a bank stores about a document, its text included, and whether its file has changed.

    A path, or its end if no other file ends so, selects all documents of its file or folder, and path#part one of them.
    Six or more hexadecimal digits select all documents whose digest starts with them. What could not be kept of a file
    is shown as long as it is unchanged. With --json, each document is one line of JSON, codes included.

    Examples:
      mbc bank show notes/ada.txt
      mbc bank show articles.jsonl#17 --codes
      mbc bank show 3f9a02c1
    """
    with mbc_engine.MemoryBank.open(bank, read_only=True) as memory:
        documents = _documents(memory, source)
        if json:
            render.documents_json(documents, memory)
        else:
            render.show_documents(documents, memory, with_codes=codes)


def verify(
    *, bank: BankOption, deep: Annotated[bool, option(_DEEP, "--deep")] = False, json: JsonOption = False
) -> None:
    """Check a bank for corruption. The exit code is 5 if there is any.

    Examples:
      mbc bank verify
      mbc bank verify --deep
      mbc bank verify --bank work.mbc --json
    """
    from mbc_engine.bank.database import damaged
    from mbc_engine.bank.verification import verify as check

    damages = list[DamageFound]()
    with ProgressView() as view:
        for done in check(bank, text_model if deep else None):
            if isinstance(done, Progressed):
                name = "Decoding texts" if done.work == "decode texts" else "Verifying blocks"
                view.bar(name, done.total, completed=done.done)
            elif isinstance(done, DamageFound):
                damages.append(done)
                if not json:
                    out.print(Text(sanitise(f"{done.where}: {done.what}"), "red"))
    assert isinstance(done, BankVerified), "it is the last event"
    if json:
        counts = {"documents": done.documents, "chunks": done.chunks}
        print_json({"path": bank, "ok": not done.damages, **counts, "findings": damages})
    elif not done.damages:
        holds = f"{pluralise(done.documents, 'document')}, {pluralise(done.chunks, 'chunk')}"
        out.print(sanitise(f"{bank} is intact: {holds}."))
    if done.damages:
        raise damaged(str(bank), done.damages)


def remove(
    sources: Annotated[list[str], argument("SOURCE", "Paths, path#part, or digests.")],
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
        after = memory.totals()
    forget_names(activity_log(bank))
    rules = [(path, *ignore_path(path)) for path in files] if ignore else []
    gone = _difference(before, after)
    if json:
        print_json(
            {
                "removed": gone,
                "bank": {"path": memory.name, **asdict(after)},
                "ignored": [{"path": path, "file": file, "added": added} for path, file, added in rules],
                "proof": proof and {**asdict(proof), "holds": proof.holds},
            }
        )
    else:
        _show_removal(gone, after, rules, proof)
        if (gone.documents or gone.origins) and not prove:
            notes.print("`mbc bank undo` restores it; `mbc bank compact` or --prove deletes what is kept for that.")
    if files and not ignore:
        exist, them = f"{display_path(files[0])} still exists", "it"
        if len(files) > 1:
            exist, them = f"{len(files):,} files still exist", "them"
        back = f"the next ingest of the folder will bring {them} back. Use --ignore to keep {them} out."
        notes.print(Text(f"{exist}: {back}"))
    if proof and not proof.holds:
        hint = "Close all other programs that use the bank, then run `mbc bank compact`."
        if beside := [file for file in proof.files if file != bank.name]:
            hint = f"Delete {', '.join(map(sanitise, beside))} in the bank's folder if it is not needed."
        raise BankError(f"Could not prove that no trace is left in {memory.name}.", hint=hint)


def undo(*, bank: BankOption, json: JsonOption = False) -> None:
    """Restore what `mbc bank remove`, --prune or the dashboard removed last, except for what has been ingested again since.

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
        out.print(f"Restored {_described(restored)}; the bank holds {render.content_summary(after)}.")


def _difference(more: "BankTotals", fewer: "BankTotals") -> "BankTotals":
    return type(more)(*map(sub, astuple(more), astuple(fewer)))


def _resolve_sources(bank: "MemoryBank", sources: list[str], *, ignore: bool) -> tuple[_Names, set[str], list[Path]]:
    """Names and digests to remove, and their files that still exist. With `ignore`, a file need not be in the bank."""
    found = {typed: _names_of(bank, typed) for typed in sources}
    unknown = [typed for typed in found if not found[typed]]
    absent = [typed for typed in unknown if ignore and os.path.isfile(typed)]
    names, digests = _Names().union(*found.values()), set[str]()
    for typed, like in _digests(bank, [typed for typed in unknown if typed not in absent]).items():
        if len(like) > 1:
            hint = "Give more digits; `mbc bank list --json` shows full digests."
            raise BankError(f"The digests of {len(like):,} documents of {bank.name} begin with {typed}.", hint=hint)
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
    # Paths and parts may both contain the separator.
    divided = ((text[: sign.start()], text[sign.end() :]) for sign in re.finditer("#", text))
    for path, wanted in ((text, None), *divided):
        # A bank stores real paths; a typed relative path or symlink can mean the same file.
        for source in (path, _real(path)):
            if names := [(source, part) for part in bank.parts_of(source) if wanted in (None, part)]:
                return names
    folder = _real(text).rstrip(os.sep) + os.sep
    if below := [origin[:2] for origin in bank.origins() if text and origin.source.startswith(folder)]:
        return below
    shown = _shown(_real(text))
    names = [origin[:2] for origin in bank.origins() if shown in (_shown(origin.source), _shown(origin.name))]
    return names if len({source for source, _ in names}) == 1 else []


def _shown(name: str) -> str:
    """A name as lists show it: names may have control characters, and from macOS accents as characters of their own."""
    return normalize("NFC", sanitise(name))


def _real(typed: str) -> str:
    return os.path.realpath(os.path.expanduser(typed))  # noqa: PTH111 - "~nobody" stays


def _names_ending(bank: "MemoryBank", typed: str) -> list[tuple[str, str]]:
    """The documents of the only file whose path ends with this. Raises BankError if there are several files."""
    end = _shown(os.sep + os.path.normpath(printable_path(typed)).lstrip(os.sep))
    named = ((one[:2], (_shown(one.source), _shown(one.name))) for one in bank.origins())
    names = [name for name, ways in named if any(way.endswith(end) for way in ways)]
    sources = sorted({source for source, _ in names})
    if len(sources) > 1:
        hint = f"Give more of one: {', '.join(sources[:_NAMED])}{', …' if len(sources) > _NAMED else ''}"
        raise BankError(f"The paths of {len(sources):,} files of {bank.name} end with {typed}.", hint=hint)
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
        raise BankError(f"{bank.name} does not hold {missing[0]!r}.", hint=hint)
    return digests


def _described(changed: "BankTotals") -> str:
    if changed.origins and not changed.documents:
        return f"{pluralise(changed.origins, 'origin')} of documents that are found elsewhere too"
    what = pluralise(changed.documents, "document")
    if changed.origins not in (0, changed.documents):
        return f"{pluralise(changed.origins, 'origin')} and the {what} found nowhere else"
    return what


def _show_removal(gone: "BankTotals", after: "BankTotals", rules: Sequence[_Rule], proof: "Proof | None") -> None:
    out.print(f"Removed {_described(gone)}; the bank holds {render.content_summary(after)}.")
    for path, file, added in rules:
        if added is None:
            out.print(Text(f"{display_path(file)} already leaves out {sanitise(path.name)}."))
        else:
            out.print(Text(f"Added {sanitise(added)} to {display_path(file)}."))
    if proof:
        files = ", ".join(proof.files) or "the file and those beside it"
        print_facts(
            ("never seen", f"{proof.never_seen}  export of a bank rebuilt from everything else, SHA-256"),
            ("found", f"{proof.found}  export of this bank, SHA-256"),
            ("traces", f"{proof.traces:,} of {pluralise(proof.removed, 'removed digest')} found in {files}"),
            ("proof", "passed" if proof.holds else "FAILED"),
        )


def merge(
    banks: Annotated[list[Path], argument("BANK", "The banks to copy from.")],
    *,
    bank: BankOption,
    json: JsonOption = False,
) -> None:
    """Copy other banks' documents into --bank, creating it if needed; on any error, none are copied.

    All must belong to one model, and keep text if --bank does. Duplicate documents are stored once; where two banks
    have read the same source, the later one wins. The other banks do not change.

    Examples:
      mbc bank merge shard-1.mbc shard-2.mbc --bank all.mbc
    """
    from mbc_engine.bank import deleting_if_unused
    from mbc_engine.bank.database import bytes_at
    from mbc_engine.bank.exchange import merge as copy

    header, total, done = None, 0, 0
    for path in banks:  # report a bank that cannot be opened before creating anything
        with mbc_engine.MemoryBank.open(path, read_only=True) as other:
            header, total = header or other.header, total + other.totals().documents
    if bytes_at(bank) and any(other.samefile(bank) for other in banks):
        raise ConfigError(f"{bank} cannot be merged into itself.", hint="Name the other banks only, or another --bank.")
    with (
        interrupt_message("No bank was changed; run the same command to start over."),
        deleting_if_unused(bank, may_be_empty=True),
        mbc_engine.MemoryBank.open(bank, create=header) as memory,
    ):
        with ProgressView() as view, memory.changing():
            for path in banks:
                before = done
                with mbc_engine.MemoryBank.open(path, read_only=True) as other:
                    for event in copy(memory, other):
                        assert isinstance(event, Progressed)
                        done = before + event.done
                        view.bar("Merging", total, completed=done)
        memory.checkpoint()
        render.print_bank_summary(memory, {} if json else None)


def compact(
    *,
    bank: BankOption,
    codec: Annotated[Literal["lm", "zstd"] | None, option(_CODEC, show_default="texts stay as they are")] = None,
    json: JsonOption = False,
) -> None:
    """Free the disk space that removed documents left behind. What the bank holds does not change.

    With --codec, texts are recoded first. After Ctrl-C, run the same command again to continue. The next `mbc ingest`
    recodes texts with the language model again, unless it is given --codec zstd too.

    Examples:
      mbc bank compact
      mbc bank compact --codec lm --bank work.mbc
    """
    with mbc_engine.MemoryBank.open(bank) as memory:
        before = memory.sizes()
        if codec:
            _recode(memory, to_lm=codec == "lm")
        with interrupt_message("The bank is intact."), status_spinner("Compacting"):
            memory.compact()
        after = memory.sizes()
    if json:
        print_json({"path": memory.name, "before": before, "after": after})
    else:
        out.print(f"{sanitise(memory.name)} now takes {format_size(after.file)}, {format_size(before.file)} before.")


def _recode(bank: "mbc_engine.MemoryBank", *, to_lm: bool) -> None:
    from mbc_cli.loading import unpack_language_model

    if not bank.header.keeps_text:
        raise ConfigError(f"{bank.name} keeps no text.", hint="Leave out --codec.")
    if to_lm:
        unpack_language_model()
    saved = "Texts recoded so far are saved; run the same command again to continue."
    with interrupt_message(saved), ProgressView() as view, stop_on_interrupt(view, "Stopping.") as stop:
        for event in bank.recode_texts(text_model, to_lm=to_lm, stop=stop):
            view.recoding_bar(event)
        if stop.is_set():
            raise stopped(view, saved)


def reencode(
    *,
    bank: BankOption,
    model: ModelOption,
    drop_missing: Annotated[bool, option("Drop documents that can no longer be read.", "--drop-missing")] = False,
    workers: WorkersOption,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Switch a bank to another model: its documents are read again and encoded with that model.

    They are read from their files or, where these are gone, from the text the bank keeps. The old bank stays in use
    until everything is done. After Ctrl-C, run the same command again to continue.

    Examples:
      mbc bank reencode --model runs/mine
      mbc bank reencode --model runs/mine --bank work.mbc --drop-missing
    """
    from mbc_cli.commands.ingest import IngestProgress
    from mbc_cli.loading import load_model
    from mbc_engine.bank.database import open_file

    open_file(bank, read_only=True).close()  # report a mistyped path now, not after loading the model
    loaded = load_model(model, device)
    with (
        interrupt_message(
            "The bank is intact, either unchanged or re-encoded; run the same command again to continue."
        ),
        IngestProgress(str(bank), as_json=json, doing="Re-encoding", done="Re-encoded") as view,
        stop_on_interrupt(view, view.stopping) as stop,
    ):
        try:
            for event in mbc_engine.reencode(loaded, bank, drop_missing=drop_missing, workers=workers, stop=stop):
                view.show(event)
        except BankError:
            view.show_skipped()
            raise
    if not view.end.is_complete:
        raise stopped(view, "The bank is unchanged; run the same command again to continue.")
    view.show_result()


def export(
    file: Annotated[Path, argument("FILE", "The file to write; - is stdout.")] = _STANDARD,
    *,
    bank: BankOption,
    force: Annotated[bool, option("Overwrite an existing file.", "--force")] = False,
    json: JsonOption = False,
) -> None:
    """Export a bank as JSON Lines, from which `mbc bank import` rebuilds it.

    Two banks with the same content export the same lines, whatever their history. On stdout there is nothing but the
    export, with or without --json.

    Examples:
      mbc bank export | sha256sum
      mbc bank export | xz > memory.jsonl.xz
      mbc bank export memory.jsonl --bank work.mbc
    """
    from mbc_engine.bank.exchange import export as lines

    is_stdout, digest = file == _STANDARD, hashlib.sha256()
    with (
        interrupt_message("The export is incomplete; run the same command to start over."),
        mbc_engine.MemoryBank.open(bank, read_only=True) as memory,
        memory.snapshot(),
        _open_output(file, force=force) as target,
        ProgressView(is_shown=not (is_stdout and out.is_terminal)) as view,
    ):
        totals = memory.totals()
        view.bar("Exporting", totals.documents)
        for line in lines(memory, text_model, lambda done: view.bar("Exporting", totals.documents, completed=done)):
            digest.update(line)
            target.write(line)
    if is_stdout:
        return
    written, sha = file.stat().st_size, digest.hexdigest()
    if json:
        counts = {"documents": totals.documents, "chunks": totals.chunks}
        print_json({"path": file, "size": written, **counts, "sha256": sha})
    else:
        described = f"{display_path(file)}, {format_size(written)}"
        print_facts(("export", described), ("holds", render.content_summary(totals)), ("SHA-256", sha))


def import_(
    file: Annotated[Path, argument("FILE", "A file that `mbc bank export` wrote; - is stdin.")],
    *,
    bank: BankOption,
    json: JsonOption = False,
) -> None:
    """Import an export into a bank, creating the bank if needed; on any error, nothing is imported.

    Examples:
      mbc bank import memory.jsonl --bank work.mbc
      xz -dc memory.jsonl.xz | mbc bank import -
      ssh elsewhere mbc bank export | mbc bank import -
    """
    from mbc_engine.bank.exchange import import_lines

    documents = 0
    with (
        interrupt_message("Nothing was imported; run the same command to start over."),
        _open_input(file) as source,
        ProgressView() as view,
    ):
        total = None if file == _STANDARD else file.stat().st_size
        for event in import_lines(iter(lambda: source.readline(_MAX_LINE_BYTES), b""), bank):
            assert isinstance(event, Progressed)
            documents = event.done
            position = 0 if total is None else source.tell()
            view.bar("Importing", total, completed=position, note=pluralise(documents, "document"), in_bytes=True)
    with mbc_engine.MemoryBank.open(bank, read_only=True) as memory, memory.snapshot():
        render.print_bank_summary(memory, {"imported": documents} if json else None)


@contextmanager
def _open_input(path: Path) -> Iterator[Any]:
    try:
        with nullcontext(sys.stdin.buffer) if path == _STANDARD else path.open("rb") as file:
            yield file
    except OSError as error:
        raise DataError(f"{path} cannot be read: {_reason(error)}.", hint="Check the path.") from error


@contextmanager
def _open_output(path: Path, *, force: bool) -> Iterator[Any]:
    """A file to write, or stdout for `-`; the file appears, complete, only if the block succeeds."""
    if path == _STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path} is not a file.", hint="Name a file, or - for stdout.")
        if os.path.lexists(path) and not force:
            raise ConfigError(f"There is already a file at {path}.", hint="Name another, or replace it with --force.")
        with atomic_write(path) as file:  # in place of a link, not of the file that it names
            yield file
    except OSError as error:
        hint = "Check the path and the free disk space."
        raise ConfigError(f"{path} cannot be written: {_reason(error)}.", hint=hint) from error


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
