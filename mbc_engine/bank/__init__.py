"""The memory bank: the codes and texts of every document in one file. Needs no model and no torch."""

from mbc_engine.bank.block import count, perplexity, unused
from mbc_engine.bank.codes import Codes, CodeShape, pack, unpack
from mbc_engine.bank.database import delete
from mbc_engine.bank.exchange import export, import_lines, merge, replace_content
from mbc_engine.bank.lookup import CodeUse, Finding, FoundDocument, documents_with_code, find_documents
from mbc_engine.bank.multi_bank import Banks
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
from mbc_engine.bank.removal import Proof, Taken, remove_with_proof, restore, take
from mbc_engine.bank.selection import ReadableBank, Selection
from mbc_engine.bank.store import MemoryBank
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
    "verify",
]
