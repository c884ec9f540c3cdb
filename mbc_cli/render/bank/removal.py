"""A removal, and what proves it."""

from dataclasses import asdict
from typing import Any

from mbc_cli.render.bank.facts import holdings
from mbc_cli.render.consoles import out, print_facts
from mbc_cli.text import counted
from mbc_engine.bank import BankTotals, Proof


def show_removal(before: BankTotals, after: BankTotals) -> None:
    """What is gone and what is left."""
    documents, origins = before.documents - after.documents, before.origins - after.origins
    gone = counted(documents, "document")
    if origins not in (0, documents):
        gone = f"{counted(origins, 'origin')} and the {gone} that had no other"
    out.print(f"Removed {gone}; the bank holds {holdings(after)}.")


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


def removal_json(name: str, before: BankTotals, after: BankTotals, proof: Proof | None) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "removed": {
            "documents": before.documents - after.documents,
            "origins": before.origins - after.origins,
            "chunks": before.chunks - after.chunks,
        },
        "bank": {"path": name, **asdict(after)},
        "proof": proof and {**asdict(proof), "holds": proof.holds},
    }
