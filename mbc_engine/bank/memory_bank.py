"""The memory bank: one SQLite file in WAL mode that holds every document's codes and texts, their origins, and counts.
Several of one model can be read as one, without copying: counts add up, and each bank may be weighted.

Every change is one transaction, so a process killed at any moment leaves the bank as it was before or after. Readers in
other processes can continue beside one writer.
"""

import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from mbc_engine.bank import database
from mbc_engine.bank.block import Block
from mbc_engine.bank.block_table import BlockTable, Name, by_block
from mbc_engine.bank.readable import ReadableBank
from mbc_engine.bank.records import (
    BankHeader,
    BankSizes,
    CodeShape,
    EncodedText,
    ModelSignature,
    Origin,
    Outline,
    StoredDocument,
    TextState,
)
from mbc_engine.bank.text_codec import LM_BATCH, OpenTextModel, decode_chunk, encode_chunk, recoded
from mbc_engine.bank.upgrades import open_current
from mbc_engine.bank.word_index import words_of
from mbc_engine.errors import BankBusy, BankError, ConfigError, ModelMismatch
from mbc_engine.text import Document

if TYPE_CHECKING:
    from mbc_engine.events import TextsRecoded

_T = TypeVar("_T")
# Recoding work that a killed process may lose.
_COMMIT_SECONDS: Final = 3.0


class MemoryBank(ReadableBank):
    """The codes of every document (paper, section 3.2), their origins, and how often each code occurs.

    Documents are identified by content: one read from several places is stored once, until the last of these origins is
    removed. Any change may alter the stored order of chunks. A bank may be passed between threads but not used by two
    at a time. Use it as a context manager, or `close` it.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path | None) -> None:
        self.path = path
        self._connection = connection
        with database.closed_on_error(connection), database.wrap_sqlite_errors(self.name):
            self.header = database.read_header(connection, self.name)
            self._identity = database.identity(path, connection) if path else None
            self._blocks = BlockTable(connection, self.header, self.name)
            self._parts = (self._blocks,)
            self._version: int | None = None
            self._is_changing = self._ends_undo = False
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")  # removed data is overwritten

    @classmethod
    def create(
        cls,
        path: Path | None,
        signature: ModelSignature,
        shape: CodeShape,
        dim: int,
        *,
        keeps_origins: bool = True,
        keeps_text: bool = False,
        context_tokens: int = 0,
    ) -> Self:
        """Create an empty bank in a new file, or in memory if `path` is None; see `BankHeader`.

        Without origins, sizes and dates are not stored either, and a changed file becomes a new document. Raises
        BankError if `path` is taken or cannot be written.
        """
        return cls._create(path, BankHeader(signature, shape, dim, keeps_origins, keeps_text, context_tokens))

    @classmethod
    def _create(cls, path: Path | None, header: BankHeader) -> Self:
        header = replace(header, created=datetime.now(UTC).isoformat(timespec="seconds"))
        return cls(database.make_in_memory(header) if path is None else database.make_file(path, header), path)

    @classmethod
    def open(cls, path: Path | None, *, read_only: bool = False, create: BankHeader | None = None) -> Self:
        """Open a bank, upgrading an older one, or `create` one with this model and these settings if there is none.

        Without a path, a new bank is created in memory. Raises BankError if there is none to open, or it is damaged, not
        a bank, or of a newer version; ModelMismatch if `create` is for another model.
        """
        if create and (path is None or not database.bytes_at(path)):
            try:
                return cls._create(path, create)
            except BankError:
                if path is None or not database.bytes_at(path):  # otherwise another process was first
                    raise
        assert path is not None, "a bank in memory is created"
        try:
            bank = cls(open_current(path, read_only=read_only), path)
        except BankError:
            if not create or database.bytes_at(path):  # otherwise opening has rolled back an interrupted creation
                raise
            return cls._create(path, create)
        if create:
            with database.closed_on_error(bank._connection):
                bank.require(create.signature, bank.header.shape)
        return bank

    @property
    def name(self) -> str:
        return str(self.path) if self.path else "The bank in memory"

    def is_file(self, path: Path) -> bool:
        """Whether this is the bank's file, or one that is kept beside it."""
        if self.path is None or self._real_path is None:
            return False
        # By name first: resolving the path of every file of a folder would take most of a walk's time.
        if not path.name.startswith((self.path.name, self._real_path.name)):
            return False
        real = self._real_path
        banks = real, database.beside(real, "reencoding"), database.beside(real, "removed")
        return os.path.realpath(path) in {f"{bank}{end}" for bank in banks for end in ("", "-wal", "-shm", "-journal")}

    @cached_property
    def _real_path(self) -> Path | None:
        return self.path and Path(os.path.realpath(self.path))

    def require(self, signature: ModelSignature, shape: CodeShape) -> None:
        writer = self.header.signature
        if writer != signature:
            raise ModelMismatch(
                f"{self.name} was written by model {writer.name} ({writer.fingerprint}), "
                f"not {signature.name} ({signature.fingerprint}).",
                hint="Name its model with --model, another bank with --bank, or rebuild it with `mbc bank reencode`.",
            )
        if shape != self.header.shape:
            raise database.damaged(self.name)

    def put(self, documents: Sequence[StoredDocument]) -> list[int]:
        """Store documents in one transaction; all or, on any error, none.

        For content that the bank already has, only the origins are added; what was read from the same source and part
        before is replaced. Returns the indices of documents without codes whose content the bank lacks: they are still
        to be encoded. Raises ValueError if a document has no chunks, its codes do not fit the bank, a bank that keeps
        text does not get one for each chunk, or a name is not valid Unicode.
        """
        if not documents:
            return []
        prepared = [self._prepared(document) for document in documents]  # before other writers have to wait
        with self.changing():
            return self._blocks.put(prepared)

    def remove(self, names: Collection[Name], digests: Collection[str] = (), *, is_undoable: bool = False) -> int:
        """Remove origins, by source and part, documents left without any, and documents by digest; returns how many.

        They are also removed from a re-encoding of the bank that is not finished. What earlier removals kept for an undo
        is deleted, and replaced if this one `is_undoable`: see `exchange.remove_undoably`.
        """
        if not names and not digests:
            return 0
        with self.changing():
            removed = self._blocks.remove(names, set(self.header.shortened(digests)))
            self._ends_undo = True
            if self.path and not is_undoable:
                database.delete(database.beside(self.path, "removed.new"))  # left by an interrupted removal
        if self.path and (unfinished := database.beside(self.path, "reencoding")).is_file():
            with suppress(BankError), MemoryBank.open(unfinished) as bank:  # `remove_with_proof` sees if it stays
                bank.remove(names, digests)
        return removed

    def compact(self) -> None:
        """Refill blocks that removals left partly empty, return unused pages to the disk, and end the last undo."""
        with self.changing():
            self._blocks.compact()
        with database.wrap_sqlite_errors(self.name):
            self._connection.execute("VACUUM")
        self.checkpoint()
        if self.path:
            database.end_undo(self.path)

    def recode_texts(
        self, open_model: OpenTextModel, *, to_lm: bool, stop: threading.Event | None = None
    ) -> "Iterator[TextsRecoded]":
        """Recode all texts with a language model, where that takes fewer bytes, or back to zstd, until `stop` is set.

        The first event gives their number, before the model is opened; if there are none, it is not opened. Others can
        write between commits, which are a few seconds apart; another call continues from the last one. Raises
        ModelError if there is no model, BankError if texts are coded with another one or damaged.
        """
        from mbc_engine.events import TextsRecoded

        began = committed = time.monotonic()
        texts, codec = self._blocks.texts, "lm" if to_lm else "zstd"
        with self.snapshot():
            state = texts.state
            total = sum(1 for _ in texts.following(state.lm_tried_before, are_lm=False)) if to_lm else state.lm_texts
        if not total or (stop and stop.is_set()):
            return
        done = before = after = 0
        yield TextsRecoded(0, total, 0, 0, 0.0, codec)
        model = open_model(state.lm if state.lm_texts else "")
        with self.changing():
            texts.require(model.fingerprint)
            position = tried_before = texts.state.lm_tried_before if to_lm else 0
        pending: dict[int, EncodedText | None] = {}
        batch: list[tuple[int, EncodedText]] | None = None
        while batch != []:
            with self.snapshot():
                batch = list(islice(texts.following(position, are_lm=not to_lm), LM_BATCH))
            if stop and stop.is_set():
                batch = []
            with database.wrap_invalid_data(self.name):
                new = recoded([text for _, text in batch], model, to_lm=to_lm)
            for (number, text), recoded_text in zip(batch, new, strict=True):
                pending[number] = recoded_text
                before, after = before + len(text.payload), after + len(recoded_text.payload)
                position, done = number + 1, done + 1
            if not batch or time.monotonic() - committed >= _COMMIT_SECONDS:
                with suppress(BankBusy) if batch else nullcontext():
                    with self.changing():
                        texts.require(model.fingerprint)
                        position = min(position, texts.change(pending))
                        if texts.state.lm_tried_before < tried_before:  # another writer has reused the last numbers
                            position = min(position, texts.state.lm_tried_before)
                        tried_before = max(position, texts.state.lm_tried_before) if to_lm else 0
                        texts.mark_tried(tried_before)
                    pending, committed = {}, time.monotonic()
            if batch:
                yield TextsRecoded(done, max(done, total), before, after, round(time.monotonic() - began, 3), codec)

    def checkpoint(self) -> None:
        """Merge the write-ahead log into the file, as far as readers allow."""
        if not self._connection.in_transaction:
            with database.wrap_sqlite_errors(self.name):
                database.checkpoint(self._connection)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Inside, all changes form one transaction, rolled back on any error; what is read sees those made so far."""
        if self._is_changing:
            with self._writing_state():
                yield
            return
        if self._connection.in_transaction:
            raise RuntimeError("a bank cannot be changed inside its own snapshot")
        with database.wrap_sqlite_errors(self.name):
            try:
                with ExitStack() as committing, database.transaction(self._connection, "IMMEDIATE"):
                    self._refresh()
                    self._blocks.counts = self._blocks.state()[0]
                    self._is_changing = True
                    with self._writing_state():
                        yield
                    if self._ends_undo and self.path:
                        committing.enter_context(database.ending_undo(self.path))
            except BaseException:
                self._blocks.forget()
                raise
            finally:
                self._is_changing = self._ends_undo = False

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Inside, every read sees the bank as it was at the first one; this `MemoryBank` must not write."""
        with database.wrap_sqlite_errors(self.name):
            if self._connection.in_transaction:
                yield
                return
            with database.transaction(self._connection, "DEFERRED"):
                self._refresh()
                yield

    def knows(self, document: Document) -> bool:
        """Whether storing the document would change nothing but its date."""
        if not self.header.keeps_origins:
            return self.has_content(document.digest)
        with self.snapshot():
            locations = self._blocks.find_origins([(document.source, document.part)])
            return self.header.shortened([document.digest]) == [
                self._blocks.digest_at(location) for location in locations.values()
            ]

    def has_content(self, digest: str) -> bool:
        with self.snapshot():
            return bool(self._blocks.find_digests(self.header.shortened([digest])))

    def lookup(
        self, names: Collection[Name], digests: Collection[str] = (), *, with_texts: bool = False
    ) -> list[StoredDocument]:
        """The documents with these origins, given as source and part, or these digests, each once, with their codes."""
        with self.snapshot():
            by_digest = self._blocks.find_digests(set(self.header.shortened(digests)))
            rows_of = by_block(
                (location, None) for location in (*self._blocks.find_origins(names).values(), *by_digest.values())
            )
            blocks = (self._blocks.documents(block, rows_of[block], with_texts=with_texts) for block in sorted(rows_of))
            return [document for documents in blocks for document in documents]

    def documents(self, *, whole: bool = False) -> Iterator[StoredDocument]:
        """All documents in stored order; `whole` adds codes and texts. The bank may be changed meanwhile."""
        if whole:
            yield from chain.from_iterable(self._by_block(lambda number: list(self._blocks.documents(number))))
        else:
            yield from chain.from_iterable(block.documents() for block in self.document_blocks())

    def document_blocks(self) -> Iterator[Block]:
        """All documents in stored order, a few thousand at a time, without codes. The bank may be changed meanwhile."""
        return (replace(block, codes=None) for block in self._by_block(self._blocks.find) if block is not None)

    def _by_block(self, read: Callable[[int], _T]) -> Iterator[_T]:
        with self.snapshot():
            numbers = self._blocks.numbers()
        for number in numbers:
            with self.snapshot():
                result = read(number)
            yield result

    def origins(self) -> Iterator[Origin]:
        """All origins, in no particular order; faster than `documents`. The bank may be changed meanwhile."""
        return (origin for block in self.document_blocks() for origins in block.origins for origin in origins)

    def sizes(self) -> BankSizes:
        """Sizes in bytes, without the write-ahead log, which a writer empties when it is done."""
        file = self._row("PRAGMA page_count")[0] * self._row("PRAGMA page_size")[0]
        codes, words = (
            self._row(f"SELECT coalesce(sum(length(data)), 0) FROM {table}")[0]  # noqa: S608 - constant table name
            for table in ("codes", "words")
        )
        return BankSizes(codes, words, self.text_state().bytes, self.header.codebook_bytes, file)

    def mean_size(self) -> float | None:
        """The mean number of bytes that the first thousand documents were read from; None if unknown."""
        sizes = [document.size for document in islice(self.documents(), 1000) if document.size is not None]
        return fmean(sizes) if sizes else None

    def text_state(self) -> TextState:
        """The size of all texts, and how many of them are coded with which language model."""
        with self.snapshot():
            return self._blocks.state()[1]

    def version(self) -> tuple[int, int]:
        return int(self._row("PRAGMA data_version")[0]), self._connection.total_changes

    def is_replaced(self) -> bool:
        if self.path is None:
            return False
        with database.wrap_sqlite_errors(self.name):
            return (
                database.identity(self.path, self._connection) != self._identity
                or database.read_header(self._connection, self.name) != self.header
            )

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _writing_state(self) -> Iterator[None]:
        """Write counts and totals if something is changed inside."""
        before = self._connection.total_changes, self._blocks.texts.state
        yield
        if (self._connection.total_changes, texts := self._blocks.texts.state) != before:
            database.write_state(self._connection, self._blocks.counts, self._blocks.totals(), texts)

    def _prepared(self, document: StoredDocument) -> StoredDocument:
        outline = document.outline if self.header.context_tokens else Outline()
        document = replace(document, outline=outline)
        if not self.header.keeps_text or document.codes is None:
            return document
        if document.texts is None or len(document.texts) != len(document.codes):
            raise ValueError("a bank that keeps text needs a text for each chunk")
        words = document.words
        if words is None:
            plain = [(decode_chunk(text) if isinstance(text, EncodedText) else text).text for text in document.texts]
            words = words_of(plain, document.contexts(self.header))
        texts = [text if isinstance(text, EncodedText) else encode_chunk(text) for text in document.texts]
        return replace(document, texts=texts, words=words)

    def _refresh(self) -> None:
        version = self._row("PRAGMA data_version")[0]
        if version == self._version:
            return
        self._blocks.forget()
        if database.read_header(self._connection, self.name) != self.header:
            raise BankError(f"{self.name} was replaced by another bank.", hint="Open it again.")
        self._blocks.require_totals()
        self._version = version

    def _row(self, query: str) -> Any:
        with database.wrap_sqlite_errors(self.name):
            row = self._connection.execute(query).fetchone()
        if row is None:
            raise database.damaged(self.name)
        return row


class Banks(ReadableBank):
    """Banks read as one that holds the documents of each, in order; they are closed with this object.

    Content that two banks hold counts twice. A bank of weight w counts as if it held each of its documents w times;
    only the ratio of weights matters.

    Raises ModelMismatch if the banks are not of one model, ConfigError if there are none, one is given twice, or the
    weights are invalid.
    """

    def __init__(self, banks: Sequence[MemoryBank], weights: Sequence[float] | None = None) -> None:
        if not banks:
            raise ConfigError("No bank is named.", hint="Name at least one with --bank.")
        if weights is not None and len(weights) != len(banks):
            raise ConfigError(
                f"The number of weights ({len(weights)}) does not match the number of banks ({len(banks)}).",
                hint="Give one --weight for each --bank, in their order, or none.",
            )
        for weight in weights or ():
            if not 0 < weight < math.inf:
                hint = "Give a number above 0, such as --weight 0.5."
                raise ConfigError(f"{weight:g} is not a valid weight.", hint=hint)
        for number, bank in enumerate(banks):
            _require_another(banks[:number], bank)
            require_one_model(banks[0], bank)
        self.banks, self.header = tuple(banks), banks[0].header
        self._parts = tuple(bank._blocks for bank in banks)  # noqa: SLF001 - of this module
        self._weights = (1.0,) * len(banks) if weights is None else tuple(weights)

    @classmethod
    def open(cls, paths: Sequence[Path], weights: Sequence[float] | None = None) -> Self:
        with ExitStack() as opened:
            banks = cls([opened.enter_context(MemoryBank.open(path, read_only=True)) for path in paths], weights)
            opened.pop_all()  # they stay open
        return banks

    @property
    def name(self) -> str:
        return " + ".join(bank.name for bank in self.banks)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with ExitStack() as stack:
            for bank in self.banks:
                stack.enter_context(bank.snapshot())
            yield

    def close(self) -> None:
        for bank in self.banks:
            bank.close()


def _require_another(banks: Sequence[MemoryBank], bank: MemoryBank) -> None:
    for other in banks:
        if other is bank or (
            other.path and bank.path and database.identity(other.path) == database.identity(bank.path)
        ):
            is_same = other.name == bank.name
            raise ConfigError(
                f"{bank.name} is named twice." if is_same else f"{other.name} and {bank.name} are the same file.",
                hint="Name it once; with a larger --weight than the others it counts more.",
            )


def require_one_model(one: MemoryBank, other: MemoryBank) -> None:
    """Raises ModelMismatch if two banks were written by different models."""
    signature, other_signature = one.header.signature, other.header.signature
    if signature != other_signature:
        raise ModelMismatch(
            f"{one.name} was written by model {signature.name} ({signature.fingerprint}), "
            f"{other.name} by model {other_signature.name} ({other_signature.fingerprint}).",
            hint="`mbc bank reencode` rebuilds a bank with another model.",
        )
    other.require(signature, one.header.shape)


@contextmanager
def deleting_if_unused(path: Path, *, may_be_empty: bool = False) -> Iterator[None]:
    """Delete a bank that is created inside if it then holds no document, unless another process is using it.

    One that `may_be_empty` is deleted after an error only.
    """
    is_new, is_done = not database.bytes_at(path), False
    try:
        yield
        is_done = may_be_empty
    finally:
        if is_new and not is_done:
            is_empty = False
            with suppress(BankError), MemoryBank.open(path, read_only=True) as bank:
                is_empty = not bank.totals().documents
            # The WAL is still there while another process has the bank open, and may be filling it.
            if is_empty and not database.wal_of(path).exists():
                database.delete(path)
