"""The memory bank: the codes and texts of every document in one file. Needs no model and no torch."""

from mbc_engine.bank.counts import count, perplexity, unused
from mbc_engine.bank.database import delete
from mbc_engine.bank.exchange import export, import_lines
from mbc_engine.bank.finding import Finding, FoundDocument, find_documents
from mbc_engine.bank.format import Codes, CodeShape, pack, unpack
from mbc_engine.bank.merging import merge
from mbc_engine.bank.proof import Proof, remove_with_proof
from mbc_engine.bank.readable import ReadableBank
from mbc_engine.bank.records import (
    BankHeader,
    BankSizes,
    BankTotals,
    DocumentRecord,
    ModelSignature,
    Origin,
    Record,
    StoredChunk,
    StoredDocument,
    fingerprint,
    origin_name,
)
from mbc_engine.bank.replace import replace_content
from mbc_engine.bank.selection import Selection
from mbc_engine.bank.store import MemoryBank
from mbc_engine.bank.together import Banks
from mbc_engine.bank.undo import Taken, restore, take
from mbc_engine.bank.upgrading import upgrade
from mbc_engine.bank.usage import CodeUse, documents_with_code
from mbc_engine.bank.verification import verify

__all__ = [
    "BankHeader",
    "BankSizes",
    "BankTotals",
    "Banks",
    "CodeShape",
    "CodeUse",
    "Codes",
    "DocumentRecord",
    "Finding",
    "FoundDocument",
    "MemoryBank",
    "ModelSignature",
    "Origin",
    "Proof",
    "ReadableBank",
    "Record",
    "Selection",
    "StoredChunk",
    "StoredDocument",
    "Taken",
    "count",
    "delete",
    "documents_with_code",
    "export",
    "find_documents",
    "fingerprint",
    "import_lines",
    "merge",
    "origin_name",
    "pack",
    "perplexity",
    "remove_with_proof",
    "replace_content",
    "restore",
    "take",
    "unpack",
    "unused",
    "upgrade",
    "verify",
]
