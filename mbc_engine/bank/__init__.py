"""The memory bank: the codes and texts of every document in one file. Needs no model and no torch."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from mbc_engine.bank.database import delete
from mbc_engine.bank.memory_bank import MemoryBank, delete_if_unused
from mbc_engine.bank.multi_bank import Banks
from mbc_engine.bank.reader import ReadableBank
from mbc_engine.bank.records import (
    BankHeader,
    BankSizes,
    BankTotals,
    CodeMap,
    Codes,
    CodeShape,
    EncodedText,
    ModelSignature,
    Origin,
    Outline,
    StoredChunk,
    StoredDocument,
    TextState,
    count,
    digest_arrays,
    fingerprint,
    origin_name,
    pack,
    perplexity,
    spread,
    unpack,
)
from mbc_engine.bank.search import CodeUse, code_uses, find_documents
from mbc_engine.bank.selection import Selection
from mbc_engine.bank.text_codec import OpenTextModel, decode_chunk, decode_texts, text_checksum

if TYPE_CHECKING:
    from mbc_engine.bank.exchange import (
        Proof,
        RemovedDocuments,
        export,
        import_lines,
        merge,
        remove_restorable,
        remove_undoably,
        remove_with_proof,
        replace_content,
        restore,
        undo_removal,
    )
    from mbc_engine.bank.verification import verify

# What a question needs nothing of, nor of the events it imports, is imported on first use.
_EXCHANGE: Final = (
    *("Proof", "RemovedDocuments", "export", "import_lines", "merge", "remove_restorable", "remove_undoably"),
    *("remove_with_proof", "replace_content", "restore", "undo_removal"),
)
_HOMES: Final = dict.fromkeys(_EXCHANGE, "mbc_engine.bank.exchange") | {"verify": "mbc_engine.bank.verification"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
