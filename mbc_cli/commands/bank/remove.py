"""`mbc bank remove`: documents out of a bank, and what proves it."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from mbc_cli.options import BankOption, JsonOption
from mbc_cli.render.bank import holdings
from mbc_cli.render.terminal import notes, out, print_facts
from mbc_cli.text import counted, near, plain
from mbc_engine.bank import BankTotals, Proof

# A file, the `.mbcignore` that leaves it out, and the pattern that was added to that; None where it did so already.
_Rule = tuple[Path, Path, str | None]

if TYPE_CHECKING:
    from mbc_engine.bank import MemoryBank


def remove(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE", help="Paths, path#part, or digests.")],
    *,
    bank: BankOption,
    ignore: Annotated[
        bool, typer.Option("--ignore", help="Also add the files to the .mbcignore of their folder.")
    ] = False,
    prove: Annotated[bool, typer.Option("--prove", help="Prove that no trace of them is left.")] = False,
    json: JsonOption = False,
) -> None:
    """Remove documents from a bank: all of them or, if one is not found, none. The files themselves stay.

    A path selects all documents of its file; a document that is also in other files is kept for those. A digest, or at
    least its first six digits, removes a document from all its files. The next ingest of a folder brings its files
    back, unless --ignore keeps them out. --prove compares the bank with one built from everything else, and searches
    the file for traces of what was removed.

    Examples:
      mbc bank remove notes/old.txt
      mbc bank remove notes/draft.md --ignore
      mbc bank remove articles.jsonl#17 --prove
      mbc bank remove 3f9a02c1d5e8 --bank small.mbc
    """
    from mbc_cli.program import ending_with
    from mbc_cli.render.terminal import print_json
    from mbc_engine.bank import MemoryBank, remove_with_proof
    from mbc_engine.errors import BankError
    from mbc_engine.text import ignore_path

    proof = None
    with (
        ending_with("Either all of them were removed or none; check with `mbc bank list`."),
        MemoryBank.open(bank) as memory,
    ):
        names, digests, files = _meant(memory, sources, ignore=ignore)
        before = memory.totals()
        if prove:
            proof = remove_with_proof(memory, names, digests)
        else:
            memory.remove(names, digests)
            memory.checkpoint()
        after = memory.totals()
    rules = [(path, *ignore_path(path)) for path in files] if ignore else []
    counts = asdict(before)
    gone = BankTotals(**{name: counts[name] - count for name, count in asdict(after).items()})
    if json:
        result = {
            "removed": asdict(gone),
            "bank": {"path": memory.name, **asdict(after)},
            "ignored": [{"path": str(path), "file": str(file), "added": added} for path, file, added in rules],
            "proof": proof and {**asdict(proof), "holds": proof.holds},
        }
        print_json(result)
    else:
        _show_removal(gone, after, rules, proof)
    if files and not ignore:
        one, them = f"{near(files[0])} still exists", "it"
        if len(files) > 1:
            one, them = f"{len(files):,} files still exist", "them"
        note = f"{one}: the next ingest of the folder will bring {them} back. Use --ignore to keep {them} out."
        notes.print(Text(note))
    if proof and not proof.holds:
        raise BankError(
            f"It is not proved that nothing is left in {memory.name}.",
            hint="Close what else has the bank open or writes to it, and run `mbc bank compact`.",
        )


def _meant(
    bank: "MemoryBank", sources: list[str], *, ignore: bool
) -> "tuple[set[tuple[str, str]], set[str], list[Path]]":
    """What is to be removed, and its files that are still there. With `ignore`, what is gone already may be named."""
    from mbc_cli.commands.bank.look import files_of, find, names_of
    from mbc_engine.errors import ConfigError

    absent = [typed for typed in sources if ignore and Path(typed).is_file() and not names_of(bank, typed)]
    names, digests = find(bank, [typed for typed in sources if typed not in absent])
    files = files_of(bank, names, digests)
    if ignore and (partial := next((path for path, is_whole in files.items() if not is_whole), None)):
        raise ConfigError(
            f"--ignore works on whole files, and the bank holds more of {partial}.",
            hint="Name the file without a part, or leave out --ignore.",
        )
    return names, digests, sorted({*files, *(Path(typed).resolve() for typed in absent)})


def _show_removal(gone: BankTotals, after: BankTotals, rules: Sequence[_Rule], proof: Proof | None) -> None:
    what = counted(gone.documents, "document")
    if gone.origins not in (0, gone.documents):
        what = f"{counted(gone.origins, 'origin')} and the {what} that had no other"
    out.print(f"Removed {what}; the bank holds {holdings(after)}.")
    for path, file, added in rules:
        if added is None:
            out.print(Text(f"{near(file)} already leaves out {plain(path.name)}."))
        else:
            out.print(Text(f"Added {plain(added)} to {near(file)}."))
    if proof:
        print_facts(
            [
                ("never seen", f"{proof.never_seen}  export of a bank rebuilt from everything else, SHA-256"),
                ("found", f"{proof.found}  export of this bank, SHA-256"),
                ("traces", f"{proof.traces:,} of {counted(proof.removed, 'removed digest')} found in the file"),
                ("proof", "holds" if proof.holds else "FAILS"),
            ]
        )
