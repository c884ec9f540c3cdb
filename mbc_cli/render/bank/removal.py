"""A removal, and what proves it."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.text import Text

from mbc_cli.render.bank.facts import holdings
from mbc_cli.render.consoles import notes, out, print_facts
from mbc_cli.text import counted, near, plain
from mbc_engine.bank import BankTotals, Proof
from mbc_engine.documents import Rule


def show_removal(before: BankTotals, after: BankTotals) -> None:
    """What is gone and what is left."""
    documents, origins = before.documents - after.documents, before.origins - after.origins
    gone = counted(documents, "document")
    if origins not in (0, documents):
        gone = f"{counted(origins, 'origin')} and the {gone} that had no other"
    out.print(f"Removed {gone}; the bank holds {holdings(after)}.")


def show_return(files: Sequence[Path]) -> None:
    """A note that files which are still there will be read again."""
    one, them = (
        (f"{near(files[0])} still exists", "it") if len(files) == 1 else (f"{len(files):,} files still exist", "them")
    )
    notes.print(Text(f"{one}: the next ingest of the folder will bring {them} back. Use --ignore to keep {them} out."))


def show_rules(rules: Sequence[Rule]) -> None:
    """What was written to which file, so that no ingest of a folder brings a document back."""
    for rule in rules:
        if rule.pattern is None:
            out.print(Text(f"{near(rule.ignore_file)} already leaves out {plain(rule.path.name)}."))
        else:
            out.print(Text(f"Added {plain(rule.pattern)} to {near(rule.ignore_file)}."))


def show_proof(proof: Proof) -> None:
    """The two hashes that must be the same, and the traces that must be none."""
    print_facts(
        [
            ("never seen", f"{proof.never_seen}  export of a bank made anew from all else, SHA-256"),
            ("found", f"{proof.found}  export of this bank, SHA-256"),
            ("traces", f"{proof.traces:,} of {counted(proof.removed, 'removed digest')} found in the file"),
            ("proof", "holds" if proof.holds else "FAILS"),
        ]
    )


def removal_json(
    name: str, before: BankTotals, after: BankTotals, proof: Proof | None, rules: Sequence[Rule]
) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "removed": {
            "documents": before.documents - after.documents,
            "origins": before.origins - after.origins,
            "chunks": before.chunks - after.chunks,
        },
        "bank": {"path": name, **asdict(after)},
        "ignored": [{"path": str(rule.path), "file": str(rule.ignore_file), "added": rule.pattern} for rule in rules],
        "proof": proof and {**asdict(proof), "holds": proof.holds},
    }
