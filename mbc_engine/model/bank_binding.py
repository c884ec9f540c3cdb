"""What binds a bank to the model that wrote it: fingerprints of all that its codes depend on."""

from pathlib import Path
from typing import Protocol

from torch import Tensor

from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature, upgrade


class CodingModel(Protocol):
    """A model that makes codes: one of the paper's method, or a retriever-reader.

    Attributes:
        name: how it is called in messages.
    """

    name: str

    @property
    def keeps_text(self) -> bool:
        """Whether its banks keep the text of their chunks unless told otherwise."""

    @property
    def code_shape(self) -> CodeShape:
        """What the codes of a chunk look like. Raises ModelError if it makes none."""

    @property
    def books(self) -> Tensor:
        """The vectors that codes stand for, [levels, positions, num_codes, dim]."""

    def fingerprints(self) -> tuple[str, str]:
        """SHA-256 prefixes of all that codes depend on, and of the codebooks."""


def open_bank(
    model: CodingModel, path: Path, *, keeps_origins: bool = True, keeps_text: bool | None = None
) -> MemoryBank:
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
    return MemoryBank.open_or_create(
        path,
        signature(model),
        model.code_shape,
        model.books.shape[-1],
        keeps_origins=keeps_origins,
        keeps_text=model.keeps_text if keeps_text is None else keeps_text,
    )


def upgrade_bank(model: CodingModel, path: Path) -> bool:
    """Bring a bank of an earlier format to the present one as `bank.upgrade` does; False if it has that already.

    Raises:
        ModelMismatch: another model wrote it.
        BankError: it cannot be read or written; the old one stays as it was.
    """
    return upgrade(path, signature(model))


def signature(model: CodingModel) -> ModelSignature:
    """What a bank remembers of the model that wrote it.

    Raises:
        ModelError: the model makes no codes.
    """
    amortizer, codebook = model.fingerprints()
    return ModelSignature(model.name, amortizer, codebook)
