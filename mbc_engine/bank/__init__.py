"""The memory bank: the codes and texts of every document in one file. Needs no model and no torch.

Removal, merging, export and undo are in `exchange`, checks in `verification`: no question needs them.
"""

from mbc_engine.bank.database import delete
from mbc_engine.bank.inspection import CodeUse, code_uses, find_documents
from mbc_engine.bank.memory_bank import Banks, MemoryBank, deleting_if_unused
from mbc_engine.bank.readable import ReadableBank
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
)
from mbc_engine.bank.selection import Selection
from mbc_engine.bank.text_codec import OpenTextModel
