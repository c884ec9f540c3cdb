"""A bounded work queue for the thread that owns the model, and what that thread does with the memory."""

import asyncio
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request

from mbc_cli.engine import IDLE_SECONDS
from mbc_cli.http.documents import ID_LENGTH, DocumentFolder, NewDocument, client_document
from mbc_cli.http.server import CLIENT_LEFT, SHUTTING_DOWN, ApiError
from mbc_cli.render.answer import NOT_IN_MEMORY, answer_json, passage_json
from mbc_engine.answer import AskOptions
from mbc_engine.bank import MemoryBank
from mbc_engine.bank.database import bytes_at, identity
from mbc_engine.errors import BankError, ConfigError

if TYPE_CHECKING:
    from mbc_engine.memory import Memory

# Characters memorised per batch, which the next question waits for.
BATCH_CHARACTERS: Final = 100_000


@dataclass(eq=False)
class _QueuedWork:
    key: Hashable
    work: Any
    size: float
    future: "Future[Any]" = field(default_factory=Future)


class BatchQueue:
    """Work for one thread, oldest first, in batches of one key whose sizes add up to at most 1.

    `process` runs a batch in the thread and returns each result, or the error to raise. `on_idle` runs in the thread
    after a long time without work.
    """

    def __init__(
        self,
        process: Callable[[Hashable, list[Any]], Sequence[Any]],
        *,
        batch: int,
        capacity: int,
        on_idle: Callable[[], object] = lambda: None,
    ) -> None:
        self._process, self._batch, self._capacity = process, batch, capacity
        self._waiting: list[_QueuedWork] = []
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._on_idle = on_idle
        self._idle_timer: asyncio.TimerHandle | None = None
        self.is_open = True

    def submit(self, key: Hashable, work: Any, size: float = 0.0) -> "asyncio.Future[Any]":
        """Queue work; cancelling it before its turn drops it. Raises ApiError if the queue is full or closed."""
        if not self.is_open:
            raise ApiError(503, SHUTTING_DOWN, "unavailable")
        added = _QueuedWork(key, work, size)
        with self._lock:
            self._waiting = [job for job in self._waiting if not job.future.cancelled()]
            if len(self._waiting) >= self._capacity:
                raise ApiError(429, "Too many requests are waiting for the model; try again.", "queue_full")
            self._waiting.append(added)
        self._thread.submit(self._work)
        self.restart_idle_timer()
        return asyncio.wrap_future(added.future)

    def restart_idle_timer(self) -> None:
        """Restart the idle timer."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._thread.submit, self._on_idle)

    async def close(self, last: Callable[[], object], seconds: float) -> bool:
        """Finish waiting work, then run `last` in the thread. False if that takes longer; the thread keeps running.

        Raises what `last` raises.
        """
        self.is_open = False
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        closed = self._thread.submit(last)
        self._thread.shutdown(wait=False)
        done, _ = await asyncio.wait([asyncio.wrap_future(closed)], timeout=seconds)
        for future in done:
            future.result()
        return bool(done)

    def _work(self) -> None:
        batch = self._next_batch()
        if not batch:
            return
        try:
            results = self._process(batch[0].key, [job.work for job in batch])
        except Exception as error:  # noqa: BLE001  # raised where each result is awaited
            results = [error] * len(batch)
        for job, result in zip(batch, results, strict=True):
            if isinstance(result, Exception):
                job.future.set_exception(result)
            else:
                job.future.set_result(result)

    def _next_batch(self) -> list[_QueuedWork]:
        """The oldest job and later ones of its key, in order, while they fit."""
        batch: list[_QueuedWork] = []
        with self._lock:
            for job in [job for job in self._waiting if not job.future.cancelled()]:
                if batch and job.key != batch[0].key:
                    continue
                if batch and (len(batch) == self._batch or sum(other.size for other in (*batch, job)) > 1):
                    break
                if job.future.set_running_or_notify_cancel():
                    batch.append(job)
            self._waiting = [job for job in self._waiting if not (job.future.running() or job.future.done())]
        return batch


async def until_disconnected(request: Request, wanted: "asyncio.Future[Any]", work: "asyncio.Future[Any]") -> Any:
    """Wait for a result; `work` that has not begun is dropped if the client disconnects."""
    leaving = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({wanted, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            raise ApiError(499, CLIENT_LEFT)
        return wanted.result()
    except asyncio.CancelledError:
        raise ApiError(503, SHUTTING_DOWN, "unavailable") from None
    finally:
        leaving.cancel()
        if not wanted.done():
            work.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class MemoryService:
    """Answers questions from a memory, and adds clients' documents to `folder`, then to the bank."""

    def __init__(
        self, memory: "Memory", name: str, folder: DocumentFolder, *, batch: int = 16, capacity: int = 64
    ) -> None:
        self.memory, self.name, self.folder, self.created = memory, name, folder, int(time.time())
        self.queue = BatchQueue(self._process, batch=batch, capacity=capacity, on_idle=memory.unload)
        self._is_behind = True  # the bank may not match the folder
        self._bank_file: tuple[int, int] | None = None

    @property
    def bank(self) -> Path:
        return self.memory.paths[0]

    def sync_bank(self) -> None:
        """Create the bank if needed, and sync it with the folder."""
        from mbc_engine.model import open_bank

        with open_bank(self.memory.model, self.bank) as bank:
            keeps_origins = bank.header.keeps_origins
        if keeps_origins:
            self._update_bank()

    def _process(self, key: Hashable, works: list[Any]) -> Sequence[Any]:
        if isinstance(key, tuple):
            found = self.memory.search(works, key[0], top=key[1])
            return [[passage_json(query, own) for own in each] for query, each in zip(works, found, strict=True)]
        return self._answer(key, works) if isinstance(key, AskOptions) else self._change(works)

    def _answer(self, options: AskOptions, works: list[tuple[str, str, Callable[[str], None] | None]]) -> list[Any]:
        """Answers as fields of a completion, `content` being the message; questions are asked in completed form."""
        questions = [question for question, _, _ in works]
        on_token = works[0][2] if len(works) == 1 and self.memory.can_stream(options) else None
        found = self.memory.ask([completed for _, completed, _ in works], options, on_token=on_token)
        answers = [answer.with_question(question) for answer, question in zip(found, questions, strict=True)]
        contents = [NOT_IN_MEMORY if answer.text is None else answer.text or "(no answer)" for answer in answers]
        count = self.memory.model.chunker.token_counts
        fields = []
        for answer, content, prompt, reply in zip(answers, contents, count(questions), count(contents), strict=True):
            details = answer_json(answer, self.memory.paths, self.memory.loading)
            sources = details.pop("sources")
            usage = {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}
            details["together"] = len(works)
            fields.append({"content": content, "usage": usage, "sources": sources, "mbc": details})
        return fields

    def _change(self, changes: list[list[NewDocument] | str]) -> list[Any]:
        """Add documents or remove one by id, first in the folder, then in the bank.

        Returns each change's documents, whether one was removed, or an error.
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
                hint="Check the permissions and the free space of the documents folder.",
            )
        return None

    def _added(self, documents: Any, bank: MemoryBank, skipped: dict[str, str]) -> Any:
        for document in documents:
            if document.id in skipped:
                return BankError(
                    f"The document {skipped[document.id]}.", hint="It is tried again with the next change."
                )
        # A later change in the batch may have removed it again.
        return [client_document(bank, self.folder, new.id) or new.reply() for new in documents]

    def _update_bank(self, ids: Sequence[str] = ()) -> dict[str, str]:
        """Sync the bank with these documents' files, or with all; returns why some were skipped, by id."""
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
