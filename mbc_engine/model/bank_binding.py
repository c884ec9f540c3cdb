"""What binds a bank to the model that wrote it: fingerprints of all that its codes depend on."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank import MemoryBank, ModelSignature, StoredDocument, fingerprint, upgrade
from mbc_engine.documents import Chunk
from mbc_engine.model.code_memory import shape_of
from mbc_engine.model.digest import state_digest
from mbc_engine.model.mbc import MBC
from mbc_engine.model.weights import unpacked_state


def fingerprints(model: MBC) -> tuple[str, str]:
    """SHA-256 prefixes of the document side, frozen parts included, and of the codebook; a bank is bound to both.

    Packed weights count by what they were made from, so that a bank goes from one kind of processor to another.
    """
    packed_from = model.documents.packed_from
    details = [str(model.settings.documents.window), *([] if packed_from is None else [packed_from])]
    return (
        state_digest(unpacked_state(model.documents) | model.coding_state(), *details)[:16],
        fingerprint(_books(model)),
    )


def open_bank(model: MBC, path: Path, *, keeps_origins: bool = True, keeps_text: bool | None = None) -> MemoryBank:
    """The bank at `path` for this model to write to; made when it is not there yet.

    Args:
        model: the bank's own.
        path: the file.
        keeps_origins: False makes a bank that knows its documents by a short content hash only.
        keeps_text: whether a new bank keeps the exact text of every chunk; None for what the model asks for.

    Raises:
        ModelMismatch: another model wrote it.
        ModelError: the model makes no codes.
        BankError: it cannot be opened or made.
    """
    codebook = model.require_codebook()
    if keeps_text is None:
        keeps_text = bool(getattr(model, "keeps_text", False))
    return MemoryBank.open_or_create(
        path,
        signature(model),
        shape_of(codebook),
        codebook.books.shape[-1],
        keeps_origins=keeps_origins,
        keeps_text=keeps_text,
    )


def upgrade_bank(
    model: MBC, path: Path, texts_of: Callable[[StoredDocument], Sequence[Chunk] | None] | None = None
) -> bool:
    """Bring a bank of an earlier format to the present one as `bank.upgrade` does; False if it has that already.

    Raises:
        ModelMismatch: another model wrote it.
        BankError: it cannot be read or written; the old one stays as it was.
    """
    return upgrade(path, signature(model), texts_of)


def signature(model: MBC) -> ModelSignature:
    """What a bank remembers of the model that wrote it.

    Raises:
        ModelError: the model makes no codes.
    """
    amortizer, codebook = fingerprints(model)
    return ModelSignature(model.name, amortizer, codebook)


def _books(model: MBC) -> NDArray[np.float32]:
    return model.require_codebook().books.detach().float().cpu().numpy()
