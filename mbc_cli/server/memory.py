"""What a server does with its memory: answers questions, keeps documents. All of it happens in one thread."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mbc_cli.asking.asker import Asker
from mbc_cli.render.answer import NOT_IN_MEMORY
from mbc_cli.server.document_folder import DocumentFolder, Text
from mbc_cli.server.listing import DocumentShape, kept, shape
from mbc_engine.bank import MemoryBank
from mbc_engine.errors import BankError, ConfigError, MBCError
from mbc_engine.serving.ask_options import AskOptions

if TYPE_CHECKING:
    from mbc_cli.server.turns import Doing
    from mbc_engine.serving.ask import Reply

# Characters that are memorised between two commits: what a question behind them may have to wait for.
_COMMIT_CHARACTERS: Final = 100_000
_DOCUMENTS: Final = "documents"


@dataclass(frozen=True)
class Asking:
    """A question; `on_token` gets a generated answer in pieces where the question is answered alone."""

    question: str
    options: AskOptions
    on_token: Callable[[str], None] | None = field(default=None, compare=False)
    weight: float = field(default=0.0, init=False)

    @property
    def kind(self) -> Hashable:
        """Questions with the same options are answered together."""
        return self.options


@dataclass(frozen=True)
class Adding:
    """Documents to keep. The result is what they have become, as `DocumentShape`."""

    documents: tuple[Text, ...]
    kind: Hashable = field(default=_DOCUMENTS, init=False)

    @property
    def weight(self) -> float:
        """By their length."""
        return sum(len(document.text) for document in self.documents) / _COMMIT_CHARACTERS


@dataclass(frozen=True)
class Removing:
    """A document to forget. The result is whether there was one."""

    id: str
    kind: Hashable = field(default=_DOCUMENTS, init=False)
    weight: float = field(default=0.0, init=False)


@dataclass(frozen=True)
class Answered:
    """What came of a question.

    Attributes:
        reply: the answer and its sources.
        content: the answer as a message, or that there is none.
        question_tokens, content_tokens: as the model's tokenizer counts them.
        together: how many questions were answered in one batch with it.
    """

    reply: "Reply"
    content: str
    question_tokens: int
    content_tokens: int
    together: int


class Memory:
    """A model, the banks it answers from, and the documents of clients, which go into the first of the banks.

    Args:
        asker: asks the banks; its model memorises.
        folder: where documents are kept; open.
    """

    def __init__(self, asker: Asker, folder: DocumentFolder) -> None:
        self._model, self.asker, self.folder = asker.model, asker, folder
        self._bank: MemoryBank | None = None
        self._behind: set[str] = set()  # ids of what the bank may not have just as the folder does

    def catch_up(self) -> None:
        """Make the bank, if it is not there, and bring it in line with the folder, whatever ended the last server.

        Raises:
            BankError: the bank cannot be written.
            ModelMismatch: another model wrote it.
        """
        from mbc_cli.memorising import noted
        from mbc_engine.model.bank_binding import open_bank
        from mbc_engine.serving.ingest import ingest

        bank = self._bank = open_bank(self._model, self._path)
        if bank.header.keeps_origins:
            for _ in noted(ingest(self._model, bank, [self.folder.path], prune=True), bank, self._path):
                pass

    @contextmanager
    def working(self) -> "Iterator[Doing]":
        """For as long as there is work; afterwards the banks are settled and closed."""
        try:
            yield self.do
        finally:
            self.asker.close()
            self._close()

    def do(self, works: Sequence[Any]) -> Sequence[Any]:
        """Do works of one kind.

        Raises:
            MBCError: none of them can be done.
        """
        return self._change(works) if works[0].kind == _DOCUMENTS else self._answer(works)

    def _answer(self, askings: Sequence[Asking]) -> list[Answered]:
        self.asker.options = askings[0].options
        on_token = askings[0].on_token if len(askings) == 1 and self.asker.can_be_streamed else None
        replies = self.asker.ask([asking.question for asking in askings], on_token)
        contents = [content(reply) for reply in replies]
        asked = self._count([asking.question for asking in askings])
        return [
            Answered(*one, together=len(askings))
            for one in zip(replies, contents, asked, self._count(contents), strict=True)
        ]

    def _count(self, texts: list[str]) -> list[int]:
        """Tokens of each text, of the base LM or of the reader's encoder."""
        from mbc_engine.mini.model import RetrieverReader

        model = self._model
        if isinstance(model, RetrieverReader):
            # Not verbose: it would warn of texts that do not fit the encoder, which are only counted here.
            encoded = model.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
            return list(map(len, encoded))
        return list(map(len, model.base.texts.tokens(texts)))

    def _change(self, changes: "Sequence[Adding | Removing]") -> list[Any]:
        """Files first, in order and for good, and then the bank: it can be made from them, not they from it."""
        bank = self._writable()
        if not bank.header.keeps_origins:
            raise ConfigError(
                f"{bank.name} keeps no sources: documents cannot be added to it or removed by clients.",
                hint="Serve another bank with --bank.",
            )
        try:
            results = [self._write(change) for change in changes]
            self.folder.sync()
            unread = self._bring_in_line(bank)
            shapes = {found.id: found for found in kept(bank, self.folder, sorted(_added(changes)))}
            return [self._result(*one, shapes, unread) for one in zip(changes, results, strict=True)]
        except OSError as error:
            raise _unwritten(error) from error
        except BaseException:
            self._close()  # it may have become another bank, or be in the middle of something
            raise

    def _write(self, change: "Adding | Removing") -> bool | MBCError:
        """Write or take away files; False if there was nothing to take away."""
        try:
            if isinstance(change, Removing):
                if is_there := self.folder.remove(change.id):
                    self._behind.add(change.id)
                return is_there
            for document in change.documents:
                self._behind.add(document.id)
                self.folder.write(document)
        except OSError as error:
            return _unwritten(error)
        return True

    @staticmethod
    def _result(
        change: "Adding | Removing",
        is_done: bool | MBCError,
        shapes: Mapping[str, DocumentShape],
        unread: Mapping[str, str],
    ) -> Any:
        if isinstance(change, Removing) or isinstance(is_done, MBCError):
            return is_done
        for document in change.documents:
            if document.id in unread:
                return BankError(f"The document {unread[document.id]}.", hint="The next change tries it again.")
        # What a later change has removed already was there, for a moment.
        return [shapes.get(own.id) or shape(own.id, own.name, own.date, None) for own in change.documents]

    def _bring_in_line(self, bank: MemoryBank) -> dict[str, str]:
        """Bring what has changed in the folder into the bank; says why documents cannot be read, which stay behind."""
        from mbc_engine.events import FileSkipped
        from mbc_engine.serving.ingest import BATCH_CHUNKS, Run
        from mbc_engine.serving.reading_ahead import read_all

        ids = {str(self.folder.file(id)): id for id in sorted(self._behind)}
        there = [Path(source) for source, id in ids.items() if self.folder.holds(id)]
        unread: dict[str, str] = {}
        for event in Run(self._model, bank, BATCH_CHUNKS, None).memorise(read_all(there, bank, self._model.chunker)):
            if isinstance(event, FileSkipped):
                id = next(id for source, id in ids.items() if event.source.startswith(source))
                unread[id] = event.reason
        gone = [source for source, id in ids.items() if not self.folder.holds(id)]
        if lost := [(source, part) for source in gone for part in bank.parts_of(source)]:
            bank.remove(lost)
        self._behind = set(unread)
        return unread

    @property
    def _path(self) -> Path:
        return self.asker.paths[0]

    def _writable(self) -> MemoryBank:
        """The bank that is written. One opened anew may be another, with documents too few or too many."""
        from mbc_engine.model.bank_binding import open_bank

        if self._bank is not None and self._bank.is_replaced():
            self._close()
        if self._bank is None:
            bank = open_bank(self._model, self._path)
            self._behind.update(self.folder.ids())
            self._behind.update(Path(own.source).stem for own in bank.origins() if self.folder.has(own.source))
            self._bank = bank
        return self._bank

    def _close(self) -> None:
        if self._bank is not None:
            self._bank.close()
        self._bank = None


def content(reply: "Reply") -> str:
    """The answer as a message; a model may also generate nothing."""
    return NOT_IN_MEMORY if reply.answer is None else reply.answer or "(no answer)"


def _added(changes: "Sequence[Adding | Removing]") -> set[str]:
    return {document.id for change in changes if isinstance(change, Adding) for document in change.documents}


def _unwritten(error: OSError) -> MBCError:
    return BankError(
        f"The document cannot be written to the disk: {error.strerror or error}.",
        hint="See that the documents folder has room and can be written.",
    )
