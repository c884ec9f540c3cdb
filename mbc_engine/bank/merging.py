"""Banks of one model put together: the banks of shards ingested side by side become the bank of them all."""

from collections.abc import Iterable, Iterator

from mbc_engine.bank.records import Origin, Record, StoredDocument, StoredItem
from mbc_engine.bank.store import MemoryBank
from mbc_engine.errors import BankError, ModelMismatch
from mbc_engine.events import DocumentsCopied, Event

_BATCH = 10_000


def merge(bank: MemoryBank, other: MemoryBank) -> Iterator[Event]:
    """Add the documents of another bank; all of them or, on any error, none.

    The result is what ingesting the other's documents after the bank's own would have given: a content both have is
    kept once, with the origins of both; where both read the same source and part, the other's content stays.

    Raises:
        ModelMismatch: the banks have different codebooks or amortizers.
        BankError: the bank cannot be written, or keeps origins or text that the other lacks.
    """
    own, others = bank.header.signature, other.header.signature
    if own != others:
        raise ModelMismatch(
            f"{bank.name} has codebook {own.codebook} of amortizer {own.amortizer}, "
            f"{other.name} has codebook {others.codebook} of amortizer {others.amortizer}.",
            hint="Only banks of one model go together; `mbc bank reencode` brings a bank to another model.",
        )
    require_origins(bank, other.header.keeps_origins, other.name)
    require_text(bank, other.header.keeps_text, other.name)
    with other.snapshot(), bank.changing():
        done, total = 0, other.totals().documents
        waiting: list[StoredItem] = []
        for item in other.stored_items():
            waiting.append(item)
            if len(waiting) == _BATCH:
                copy(waiting, bank)
                done, waiting = done + len(waiting), []
                yield DocumentsCopied(done, total)
        copy(waiting, bank)
    yield DocumentsCopied(total, total)


def copy(items: Iterable[StoredItem], bank: MemoryBank) -> None:
    """Add documents of another bank with all their origins."""
    bank.add([(record, codes, texts) for document, codes, texts in items for record in _records(document)])


def require_origins(bank: MemoryBank, are_given: bool, giver: str) -> None:
    """Raises BankError if the bank keeps origins and the giver has none."""
    if bank.header.keeps_origins and not are_given:
        raise BankError(
            f"{giver} does not know where its documents came from, as {bank.name} does of its own.",
            hint="Put it into a bank made with --no-sources.",
        )


def require_text(bank: MemoryBank, is_given: bool, giver: str) -> None:
    """Raises BankError if the bank keeps text and the giver has none."""
    if bank.header.keeps_text and not is_given:
        raise BankError(
            f"{giver} does not keep the text of its documents, as {bank.name} does.",
            hint="Put it into a bank that keeps no text, or ingest its documents again.",
        )


def _records(document: StoredDocument) -> list[Record]:
    origins = document.origins or (Origin("", "", None),)
    return [Record(origin.source, origin.part, document.digest, document.size or 0, origin.date) for origin in origins]
