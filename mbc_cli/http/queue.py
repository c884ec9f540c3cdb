"""Work that waits for the one thread that has the model: bounded, in order of arrival, what is alike done together.

Requests that wait for the thread that has the model, for as long as their clients do.

What a server does with its memory: answers questions, keeps documents. All of it happens in one thread.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from starlette.requests import Request

from mbc_cli.asking import Asker
from mbc_cli.http.documents import DocumentFolder, DocumentShape, Text, kept, shape
from mbc_cli.http.security import ended, overloaded
from mbc_cli.render.answer import NOT_IN_MEMORY
from mbc_engine.bank import MemoryBank
from mbc_engine.errors import BankError, ConfigError, MBCError
from mbc_engine.question import AskOptions

if TYPE_CHECKING:
    from mbc_engine.question import Answer


class Work(Protocol):
    """Something to do."""

    @property
    def kind(self) -> Hashable:
        """Works of equal kinds can be done together."""
        ...

    @property
    def weight(self) -> float:
        """How much of one go it takes; those of works done together are at most 1."""
        ...


@dataclass(eq=False)
class Turn:
    """A work and what will come of it. Cancelling the future before the work begins drops it."""

    work: Any
    future: "Future[Any]" = field(default_factory=Future)


# Does works of one kind, and gives each a result, or the error to raise.
Doing = Callable[[Sequence[Any]], Sequence[Any]]


class QueueFull(Exception):
    """So much work waits that no more is taken."""


class Ended(Exception):
    """No more work is done."""


class Turns:
    """A thread that does work, the oldest first, and with it what else of its kind waits.

    Nothing waits for ever: the oldest is always among what is done next.

    Args:
        doing: entered in the thread for as long as it works; gives what does the work.
        most: works done together.
        room: works that may wait.
        crashed: is told of errors that nobody expected; what was being done then fails with them.
    """

    def __init__(
        self,
        doing: AbstractContextManager[Doing],
        *,
        most: int,
        room: int,
        crashed: Callable[[BaseException], object],
    ) -> None:
        self._doing, self._most, self._room, self._crashed = doing, most, room, crashed
        self._waiting: deque[Turn] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether work is done."""
        return self._thread.is_alive()

    def submit(self, work: Work) -> "Future[Any]":
        """Let work wait for its turn.

        Raises:
            QueueFull: too much waits already.
            Ended: nobody works any more.
        """
        with self._changed:
            if self._is_closing or not self._thread.is_alive():
                raise Ended
            if len(self._waiting) >= self._room:
                self._waiting = deque(turn for turn in self._waiting if not turn.future.cancelled())
            if len(self._waiting) >= self._room:
                raise QueueFull
            turn = Turn(work)
            self._waiting.append(turn)
            self._changed.notify()
            return turn.future

    def close(self, timeout: float) -> bool:
        """Finish what waits and end. False if that takes longer than `timeout` seconds, and goes on."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with self._doing as do:
                while turns := self._next():
                    self._take(do, [turn for turn in turns if turn.future.set_running_or_notify_cancel()])
        except BaseException as error:  # noqa: BLE001  # it would end just this thread, and nobody would know
            self._crashed(error)
        finally:
            with self._changed:
                self._is_closing = True
                for turn in self._waiting:
                    if turn.future.set_running_or_notify_cancel():
                        turn.future.set_exception(Ended())
                self._waiting.clear()

    def _take(self, do: Doing, turns: list[Turn]) -> None:
        if not turns:
            return
        try:
            results = do([turn.work for turn in turns])
        except Exception as error:  # noqa: BLE001  # carried to who asked; the next turns may still be done
            if not isinstance(error, MBCError):
                self._crashed(error)
            results = [error] * len(turns)
        except BaseException:
            for turn in turns:
                turn.future.set_exception(Ended())
            raise
        for turn, result in zip(turns, results, strict=True):
            if isinstance(result, BaseException):
                turn.future.set_exception(result)
            else:
                turn.future.set_result(result)

    def _next(self) -> list[Turn]:
        """The oldest that waits and what fits to it; nothing at the end."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting or self._is_closing)
                self._waiting = deque(turn for turn in self._waiting if not turn.future.cancelled())
                if self._waiting:
                    together = self._together()
                    self._waiting = deque(turn for turn in self._waiting if turn not in together)
                    return together
                if self._is_closing:
                    return []

    def _together(self) -> list[Turn]:
        together: list[Turn] = []
        kind, weight = self._waiting[0].work.kind, 0.0
        for turn in self._waiting:
            if turn.work.kind != kind:
                continue
            weight += turn.work.weight
            if together and (len(together) == self._most or weight > 1):
                break  # what came later does not overtake it
            together.append(turn)
        return together


def begun(turns: Turns, work: Work) -> "asyncio.Future[Any]":
    """What will come of work, which waits for its turn from now on.

    Raises:
        Refusal: too much waits, or no more is done.
    """
    try:
        future = turns.submit(work)
    except QueueFull as error:
        raise overloaded() from error
    except Ended as error:
        raise ended() from error
    return asyncio.wrap_future(future)


class Gone(Exception):
    """The client does not wait any more."""


async def while_there(request: Request, wanted: "asyncio.Future[Any]", work: "asyncio.Future[Any]") -> Any:
    """What is waited for, as long as the client is there; else work that has not begun is dropped."""
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({wanted, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            raise Gone
        return wanted.result()
    except asyncio.CancelledError:
        raise Ended from None  # the server waits no longer for what is still at work
    finally:
        leaving.cancel()
        if not wanted.done():
            work.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


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

    reply: "Answer"
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
        from mbc_engine.ingestion.run import ingest
        from mbc_engine.paper.checkpoint import open_bank

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
        from mbc_engine.ingestion.reading import read_all
        from mbc_engine.ingestion.run import BATCH_CHUNKS, Run

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
        from mbc_engine.paper.checkpoint import open_bank

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


def content(reply: "Answer") -> str:
    """The answer as a message; a model may also generate nothing."""
    return NOT_IN_MEMORY if reply.text is None else reply.text or "(no answer)"


def _added(changes: "Sequence[Adding | Removing]") -> set[str]:
    return {document.id for change in changes if isinstance(change, Adding) for document in change.documents}


def _unwritten(error: OSError) -> MBCError:
    return BankError(
        f"The document cannot be written to the disk: {error.strerror or error}.",
        hint="See that the documents folder has room and can be written.",
    )
