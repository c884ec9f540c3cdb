"""Removals that can be undone: what is taken out of a bank is kept, codes and all, and can be put back."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from mbc_engine.bank.merging import copy, require_text
from mbc_engine.bank.records import ModelSignature, StoredItem
from mbc_engine.bank.store import MemoryBank


@dataclass(frozen=True)
class Taken:
    """What was removed, held in memory.

    Attributes:
        signature: the model of the bank it was in.
        items: the documents with their codes and texts as `MemoryBank.stored_items` has them; origins are those
            removed, though the document may have others still.
    """

    signature: ModelSignature
    items: tuple[StoredItem, ...]


def take(bank: MemoryBank, names: Collection[tuple[str, str]], digests: Collection[str] = ()) -> Taken:
    """Remove origins, given as source and part, and documents, given by their digests, and return them.

    Raises:
        BankError: the bank cannot be written.
    """
    sought, whole = set(names), {digest[: 2 * bank.header.digest_bytes] for digest in digests}
    with bank.changing():
        items = []
        for document, codes, texts in bank.stored_lookup(sought, digests):
            gone = tuple(own for own in document.origins if document.digest in whole or own[:2] in sought)
            items.append((replace(document, origins=gone), codes.copy(), texts))
        bank.remove(sought)
        bank.remove_documents(digests)
    return Taken(bank.header.signature, tuple(items))


def restore(bank: MemoryBank, taken: Taken) -> int:
    """Put back what was taken, at any later time; returns how many origins, or without origins how many documents.

    What has been read again since under the name it had stays as it is now.

    Raises:
        BankError: the bank cannot be written, or has become one that keeps text, which was not taken.
        ModelMismatch: the bank belongs to another model by now.
    """
    with bank.changing():
        bank.require(taken.signature)
        require_text(bank, all(texts is not None for _, _, texts in taken.items), "What was removed")
        if bank.header.keeps_origins:
            items = _not_read_again(bank, taken)
        else:
            known = {document.digest for document, _ in bank.lookup((), [own.digest for own, *_ in taken.items])}
            items = [item for item in taken.items if item[0].digest not in known]
        copy(items, bank)
    return sum(max(1, len(document.origins)) for document, *_ in items)


def _not_read_again(bank: MemoryBank, taken: Taken) -> list[StoredItem]:
    """The documents with those origins under whose names the bank holds nothing."""
    names = {own[:2] for document, *_ in taken.items for own in document.origins}
    held = {own[:2] for document, _ in bank.lookup(names) for own in document.origins}
    left = [
        (replace(document, origins=tuple(own for own in document.origins if own[:2] not in held)), codes, texts)
        for document, codes, texts in taken.items
    ]
    return [item for item in left if item[0].origins]
