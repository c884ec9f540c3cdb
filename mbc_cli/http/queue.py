"""Work for the thread that has the model, in a bounded queue with batches, and what that thread does with the memory."""

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request

from mbc_cli.http.documents import ID_LENGTH, DocumentFolder, NewDocument, client_document
from mbc_cli.http.server import ApiError
from mbc_cli.render.answer import NOT_IN_MEMORY, answer_json
from mbc_engine.bank import MemoryBank
from mbc_engine.bank.database import bytes_at, identity
from mbc_engine.errors import BankError, ConfigError
from mbc_engine.question import AskOptions

if TYPE_CHECKING:
    from mbc_engine.memory import Memory

# Characters that are memorised in one batch: what a question behind them may have to wait for.
BATCH_CHARACTERS: Final = 100_000
_ENDING: Final = "The server is shutting down."


@dataclass(eq=False)
class _QueuedWork:
    key: Hashable
    work: Any
    size: float
    future: "asyncio.Future[Any]"


class BatchQueue:
    """A bounded queue of work for one thread, done in batches of one key, the oldest first.

    Args:
        process: does the work in the thread; returns a result for each, or the error to raise.
        batch: the most items in a batch; their sizes add up to 1 at most.
        capacity: how many may wait.
    """

    def __init__(self, process: Callable[[Hashable, list[Any]], Sequence[Any]], *, batch: int, capacity: int) -> None:
        self._process, self._batch, self._capacity = process, batch, capacity
        self._waiting: list[_QueuedWork] = []
        self._changed = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._worker: asyncio.Task[None] | None = None
        self.is_open = False

    def start(self) -> None:
        self.is_open = True
        self._worker = asyncio.create_task(self._run())

    def submit(self, key: Hashable, work: Any, size: float = 0.0) -> "asyncio.Future[Any]":
        """Queue work; cancelling it before its turn drops it. Raises ApiError if the queue is full or closed."""
        if not self.is_open:
            raise ApiError(503, _ENDING, "unavailable")
        self._waiting = [job for job in self._waiting if not job.future.cancelled()]
        if len(self._waiting) >= self._capacity:
            raise ApiError(429, "Too many requests are waiting for the model; try again.", "queue_full")
        added = _QueuedWork(key, work, size, asyncio.get_running_loop().create_future())
        self._waiting.append(added)
        self._changed.set()
        return added.future

    async def close(self, last: Callable[[], object], seconds: float) -> bool:
        """Finish what is waiting, then do something last in the thread. False if that takes longer, and goes on."""
        self.is_open = False
        self._changed.set()
        try:
            async with asyncio.timeout(seconds):
                if self._worker is not None:
                    await self._worker
                await asyncio.get_running_loop().run_in_executor(self._thread, last)
        except TimeoutError:
            return False
        finally:
            self._thread.shutdown(wait=False)
        return True

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting or self.is_open:
            if not (batch := self._next_batch()):
                self._changed.clear()
                await self._changed.wait()
                continue
            works = [job.work for job in batch]
            try:
                results = await loop.run_in_executor(self._thread, self._process, batch[0].key, works)
            except Exception as error:  # noqa: BLE001  # carried to who asked; the next batch may still succeed
                results = [error] * len(batch)
            for job, result in zip(batch, results, strict=True):
                if job.future.cancelled():
                    continue
                if isinstance(result, Exception):
                    job.future.set_exception(result)
                else:
                    job.future.set_result(result)

    def _next_batch(self) -> list[_QueuedWork]:
        """The oldest job and those that fit with it; a later one does not overtake another of its key."""
        self._waiting = [job for job in self._waiting if not job.future.cancelled()]
        batch: list[_QueuedWork] = []
        for job in self._waiting:
            if not batch or job.key == batch[0].key:
                if batch and (len(batch) == self._batch or sum(other.size for other in (*batch, job)) > 1):
                    break
                batch.append(job)
        self._waiting = [job for job in self._waiting if job not in batch]
        return batch


async def until_disconnected(request: Request, wanted: "asyncio.Future[Any]", work: "asyncio.Future[Any]") -> Any:
    """Wait for the result; if the client disconnects, work that has not begun is dropped."""
    leaving = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({wanted, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            raise ApiError(499, "The client has left.")
        return wanted.result()
    except asyncio.CancelledError:
        raise ApiError(503, _ENDING, "unavailable") from None
    finally:
        leaving.cancel()
        if not wanted.done():
            work.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class MemoryService:
    """Answers questions from a memory and keeps clients' documents in it, first as files in `folder`."""

    def __init__(
        self, memory: "Memory", name: str, folder: DocumentFolder, *, batch: int = 16, capacity: int = 64
    ) -> None:
        self.memory, self.name, self.folder, self.created = memory, name, folder, int(time.time())
        self.queue = BatchQueue(self._process, batch=batch, capacity=capacity)
        self._is_behind = True  # the bank may not have just what the folder has
        self._bank_file: tuple[int, int] | None = None

    @property
    def bank(self) -> Path:
        return self.memory.paths[0]

    def catch_up(self) -> None:
        """Create the bank if needed, and bring it in line with the folder."""
        from mbc_engine.lm.coding import open_bank

        with open_bank(self.memory.model, self.bank) as bank:
            keeps_origins = bank.header.keeps_origins
        if keeps_origins:
            self._update_bank()

    def _process(self, key: Hashable, works: list[Any]) -> Sequence[Any]:
        return self._answer(key, works) if isinstance(key, AskOptions) else self._change(works)

    def _answer(self, options: AskOptions, asked: list[tuple[str, Callable[[str], None] | None]]) -> list[Any]:
        """Answers as the fields of a completion; `content` is the message."""
        questions = [question for question, _ in asked]
        on_token = asked[0][1] if len(asked) == 1 and self.memory.can_stream(options) else None
        answers = self.memory.ask(questions, options, on_token=on_token)
        contents = [NOT_IN_MEMORY if answer.text is None else answer.text or "(no answer)" for answer in answers]
        token_counts = self.memory.model.chunker.token_counts
        fields = []
        for answer, content, *counts in zip(
            answers, contents, token_counts(questions), token_counts(contents), strict=True
        ):
            details = answer_json(answer, self.memory.paths, self.memory.loading)
            names = ("prompt_tokens", "completion_tokens", "total_tokens")
            usage = dict(zip(names, (*counts, sum(counts)), strict=True))
            sources = details.pop("sources")
            details["together"] = len(asked)
            fields.append({"content": content, "usage": usage, "sources": sources, "mbc": details})
        return fields

    def _change(self, changes: list[list[NewDocument] | str]) -> list[Any]:
        """Add documents, or remove those given by id: first in the folder, in order, then in the bank.

        Returns:
            For each change its documents, whether one was removed, or an error.
        """
        if bytes_at(self.bank):
            with MemoryBank.open(self.bank, read_only=True) as bank:
                if not bank.header.keeps_origins:
                    raise ConfigError(
                        f"{bank.name} keeps no sources: clients cannot add or remove documents.",
                        hint="Serve another bank with --bank.",
                    )
        is_behind, self._is_behind = self._is_behind or self._bank_file != identity(self.bank), True
        results = [self._change_folder(change) for change in changes]
        ids = {id for change in changes for id in ([change] if isinstance(change, str) else [new.id for new in change])}
        skipped = self._update_bank(() if is_behind else sorted(ids))
        with MemoryBank.open(self.bank, read_only=True) as bank:
            for number, change in enumerate(changes):
                if results[number] is None:
                    results[number] = self._added(change, bank, skipped)
        return results

    def _change_folder(self, change: list[NewDocument] | str) -> Any:
        try:
            if isinstance(change, str):
                return self.folder.remove(change)
            self.folder.write(change)
        except OSError as error:
            return BankError(
                f"The document cannot be written to the disk: {error.strerror or error}.",
                hint="Make sure that the documents folder has room and can be written.",
            )
        return None

    def _added(self, documents: Any, bank: MemoryBank, skipped: dict[str, str]) -> Any:
        for document in documents:
            if document.id in skipped:
                return BankError(f"The document {skipped[document.id]}.", hint="The next change tries it again.")
        # What a later change has removed already was there for a moment.
        return [client_document(bank, self.folder, new.id) or new.reply() for new in documents]

    def _update_bank(self, ids: Sequence[str] = ()) -> dict[str, str]:
        """Bring these documents, or all, into the bank; returns why some cannot be read, by id."""
        from mbc_engine.events import FileSkipped

        files = [self.folder.file(id) for id in ids]
        there = [file for file in files if file.exists()] if ids else [self.folder.path]
        skipped: dict[str, str] = {}
        for event in self.memory.add(there, prune=not ids) if there else ():
            if isinstance(event, FileSkipped):
                skipped[Path(event.source).name[:ID_LENGTH]] = event.reason
        if gone := [str(file) for file in files if file not in there]:
            self.memory.remove(gone)
        self._is_behind, self._bank_file = bool(skipped), identity(self.bank)
        return skipped
