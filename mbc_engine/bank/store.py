"""The memory bank: one SQLite file in WAL mode that holds every document's codes and texts, their origins, and counts.

Every change is one transaction, so a process killed at any moment leaves the bank as it was before or after. Readers in
other processes go on beside one writer.
"""

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.block import write_counts
from mbc_engine.bank.change import Change, Item
from mbc_engine.bank.codes import CodeShape
from mbc_engine.bank.database import (
    bytes_at,
    closed_on_error,
    explained,
    make_file,
    make_in_memory,
    now,
    open_current,
    patience,
    state_checksum,
    transaction,
)
from mbc_engine.bank.records import BankHeader, DocumentRecord, ModelSignature
from mbc_engine.bank.stored import StoredBank
from mbc_engine.bank.text_codec import encode_chunk
from mbc_engine.errors import BankError
from mbc_engine.text import Chunk

Codes = NDArray[np.integer[Any]]
Texts = Sequence[Chunk] | Sequence[bytes]


class MemoryBank(StoredBank):
    """The codes of every document (paper, section 3.2), with where they came from and how often each code occurs.

    A document is a content: read from several places, it is stored once, and stays until the last of these origins is
    removed. A bank may pass from thread to thread but serves one at a time. Use it as a context manager, or `close` it.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path | None) -> None:
        """Not for callers: use `create`, `open`, `open_or_create` or `in_memory`."""
        super().__init__(connection, path)
        with closed_on_error(connection), explained(self.name):
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")  # what was removed leaves no byte
        self._changing: Change | None = None

    @classmethod
    def create(
        cls,
        path: Path,
        signature: ModelSignature,
        shape: CodeShape,
        dim: int,
        *,
        keeps_origins: bool = True,
        keeps_text: bool = False,
    ) -> Self:
        """Make an empty bank; its folder is made too.

        Args:
            path: a file that does not exist yet, or an empty one.
            signature: the model that will write the bank.
            shape: the shape of its codes.
            dim: the width of a codebook vector.
            keeps_origins: False for a bank that knows its documents by a short content hash only. It leaves out where
                they were read, their sizes and dates, and a changed file is one more document.
            keeps_text: keep the exact text of every chunk too.

        Raises:
            BankError: something stands at `path` already, or nothing can be written there.
        """
        header = BankHeader(signature, shape, dim, keeps_origins, keeps_text, now())
        return cls(make_file(path, header), path)

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> Self:
        """Open a bank.

        Raises:
            BankError: there is none, it is something else (which stays untouched), it is damaged, or another version
                of mbc wrote it.
        """
        return cls(open_current(path, read_only=read_only), path)

    @classmethod
    def open_or_create(
        cls,
        path: Path,
        signature: ModelSignature,
        shape: CodeShape,
        dim: int,
        *,
        keeps_origins: bool = True,
        keeps_text: bool = False,
    ) -> Self:
        """Open the bank at `path` for this model, or make it as `create` does; one that exists keeps what it keeps.

        Raises:
            BankError: as `open` and `create`.
            ModelMismatch: the bank belongs to another model.
        """
        create = partial(cls.create, path, signature, shape, dim, keeps_origins=keeps_origins, keeps_text=keeps_text)
        if not bytes_at(path):
            try:
                return create()
            except BankError:
                if not bytes_at(path):  # otherwise another process was first
                    raise
        try:
            bank = cls.open(path)
        except BankError:
            if bytes_at(path):  # otherwise the making of it was interrupted, which opening has undone
                raise
            return create()
        with ExitStack() as stack:
            stack.enter_context(bank)
            bank.require(signature)
            stack.pop_all()  # it stays open
        return bank

    @classmethod
    def in_memory(
        cls,
        signature: ModelSignature,
        shape: CodeShape,
        dim: int,
        *,
        keeps_origins: bool = True,
        keeps_text: bool = False,
    ) -> Self:
        """An empty bank that goes when it is closed."""
        return cls(make_in_memory(BankHeader(signature, shape, dim, keeps_origins, keeps_text, now())), None)

    def add(self, items: Sequence[tuple[DocumentRecord, Codes] | tuple[DocumentRecord, Codes, Texts | None]]) -> None:
        """Add documents with their codes [chunks, tokens, levels]; all or, on any error, none.

        A bank that keeps text needs the chunks of each document as well, as many as it has codes: its texts, or what
        `stored_items` gave of another bank. A bank that does not keep text takes no notice of them.

        What was read from the same source and part before is replaced. Of a content that the bank has already, only
        the origin is added.

        Raises:
            BankError: the bank cannot be written.
            ValueError: a document has no chunks, its codes or texts do not fit the bank, or its name is not Unicode.
        """
        if items:
            encoded = [self._encoded(*item) for item in items]  # before other writers have to wait for it
            with self._change() as change:
                change.add(encoded)

    def adopt(self, documents: Sequence[DocumentRecord]) -> list[int]:
        """Let contents that the bank has be known as these documents, so that they need not be encoded again.

        Returns:
            The places of the documents whose contents it does not have, which are to be added.

        Raises:
            BankError: the bank cannot be written.
        """
        with self._change() as change:
            return change.adopt(documents)

    def remove(self, names: Collection[tuple[str, str]]) -> int:
        """Remove origins, given as source and part, and the documents left without one. Returns how many there were.

        Raises:
            BankError: the bank cannot be written.
        """
        with self._change() as change:
            return change.remove(names)

    def remove_documents(self, digests: Collection[str]) -> int:
        """Remove documents wherever they were read, by their digests. Returns how many there were.

        Raises:
            BankError: the bank cannot be written.
        """
        with self._change() as change:
            return change.remove_documents(set(self.header.shortened(digests)))

    def compact(self) -> None:
        """Fill the blocks that removals left half empty, and give the file's unused pages back to the disk.

        Raises:
            BankError: the bank cannot be written, or the disk has no room for the copy this needs.
        """
        with self.changing():
            extents = self._blocks.extents()
            if len(extents) > -(-int(extents[:, 1].sum()) // self.header.block_chunks):
                for block in extents[:, 0].tolist():
                    content = self._blocks.get(block)
                    self._blocks.put(block, content.without(range(len(content))))
                    self._blocks.append(content)
        with explained(self.name):
            self._connection.execute("VACUUM")
        self.settle()

    def settle(self) -> None:
        """Merge the log of changes into the file and empty it, as far as no reader is in the way for half a second."""
        if self._connection.in_transaction:
            return
        with explained(self.name), patience(self._connection, 0.5):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Inside, all changes are one: on any error none of them stays.

        Raises:
            BankError: the bank cannot be written, or another process did not finish writing within 10 s.
        """
        with self._change():
            yield

    def _encoded(self, document: DocumentRecord, codes: Codes, texts: Texts | None = None) -> Item:
        if not self.header.keeps_text:
            return document, codes, None
        if texts is None or len(texts) != len(codes):
            raise ValueError("a bank that keeps text needs a text for each chunk")
        return document, codes, [text if isinstance(text, bytes) else encode_chunk(text) for text in texts]

    @contextmanager
    def _change(self) -> Iterator[Change]:
        """The change under way, or a new one in a transaction of its own."""
        if self._changing is not None:
            yield self._changing
            return
        if self._connection.in_transaction:
            raise RuntimeError("a bank cannot be changed inside its own snapshot")
        with explained(self.name):
            try:
                with transaction(self._connection, "IMMEDIATE"):
                    self._refresh()
                    self._changing = Change(self._blocks, self.header, *self._state())
                    yield self._changing
                    counts, text_bytes = write_counts(self._changing.counts), self._changing.text_bytes
                    self._connection.execute(
                        "UPDATE bank SET counts = ?, text_bytes = ?, state_crc = ?",
                        (counts, text_bytes, state_checksum(counts, text_bytes)),
                    )
            except BaseException:
                self._blocks.forget()
                raise
            finally:
                self._changing = None
