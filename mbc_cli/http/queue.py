"""Work for the thread that has the model, in a bounded queue with batches, and what that thread does with the memory."""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request

from mbc_cli.http.documents import ID_LENGTH, DocumentFolder, NewDocument, client_document
from mbc_cli.http.server import client_left, queue_full, shutting_down
from mbc_cli.render.answer import NOT_IN_MEMORY, answer_json
from mbc_engine.bank import MemoryBank
from mbc_engine.bank.database import bytes_at, identity
from mbc_engine.errors import BankError, ConfigError, MBCError
from mbc_engine.question import AskOptions

if TYPE_CHECKING:
    from mbc_engine.memory import Memory

# Characters that are memorised in one batch: what a question behind them may have to wait for.
BATCH_CHARACTERS: Final = 100_000


@dataclass(eq=False)
class _Job:
    key: Hashable
    work: Any
    size: float
    future: "asyncio.Future[Any]"


class BatchQueue:
    """A bounded queue of work for one thread, the oldest first, together with others of its key.

    Args:
        process: does works of one key, in the thread; returns a result for each, or the error to raise.
        batch: the most works in one batch; their sizes add up to 1 at most.
        capacity: how many may wait.
        crashed: gets unexpected errors; the batch fails with them.
    """

    def __init__(
        self,
        process: Callable[[Hashable, list[Any]], Sequence[Any]],
        *,
        batch: int,
        capacity: int,
        crashed: Callable[[BaseException], object],
    ) -> None:
        self._process, self._batch, self._capacity, self._crashed = process, batch, capacity, crashed
        self._waiting: deque[_Job] = deque()
        self._changed = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._worker: asyncio.Task[None] | None = None
        self._is_closing = False

    def start(self) -> None:
        """Begin to work, in the running loop."""
        self._worker = asyncio.create_task(self._run())

    @property
    def is_open(self) -> bool:
        """Whether work is taken."""
        return self._worker is not None and not self._worker.done() and not self._is_closing

    def submit(self, key: Hashable, work: Any, size: float = 0.0) -> "asyncio.Future[Any]":
        """Let work wait for its turn. Cancelling it before that drops it.

        Raises:
            ApiError: too much is waiting, or no more is done.
        """
        if not self.is_open:
            raise shutting_down()
        self._drop_cancelled()
        if len(self._waiting) >= self._capacity:
            raise queue_full()
        job = _Job(key, work, size, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._changed.set()
        return job.future

    async def close(self, last: Callable[[], object], seconds: float) -> bool:
        """Finish what is waiting, then do something last in the thread. False if that takes longer, and goes on."""
        self._is_closing = True
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
        while self._waiting or not self._is_closing:
            if jobs := self._next_batch():
                await self._do(jobs)
            else:
                self._changed.clear()
                await self._changed.wait()

    async def _do(self, jobs: list[_Job]) -> None:
        works = [job.work for job in jobs]
        running = asyncio.get_running_loop().run_in_executor(self._thread, self._process, jobs[0].key, works)
        try:
            results = await running
        except Exception as error:  # noqa: BLE001  # carried to who asked; the next batch may still succeed
            if not isinstance(error, MBCError):
                self._crashed(error)
            results = [error] * len(jobs)
        for job, result in zip(jobs, results, strict=True):
            if job.future.cancelled():
                continue
            if isinstance(result, Exception):
                job.future.set_exception(result)
            else:
                job.future.set_result(result)

    def _drop_cancelled(self) -> None:
        self._waiting = deque(job for job in self._waiting if not job.future.cancelled())

    def _next_batch(self) -> list[_Job]:
        """The oldest job and those that fit to it; a later one does not overtake one of its key."""
        self._drop_cancelled()
        batch: list[_Job] = []
        size = 0.0
        for job in self._waiting:
            if batch and job.key != batch[0].key:
                continue
            size += job.size
            if batch and (len(batch) == self._batch or size > 1):
                break
            batch.append(job)
        self._waiting = deque(job for job in self._waiting if job not in batch)
        return batch


async def until_disconnected(request: Request, wanted: "asyncio.Future[Any]", work: "asyncio.Future[Any]") -> Any:
    """What is waited for; if the client leaves before, work that has not begun is dropped.

    Raises:
        ApiError: the client has left, or the server waits no longer.
    """
    leaving = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({wanted, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            raise client_left()
        return wanted.result()
    except asyncio.CancelledError:
        raise shutting_down() from None
    finally:
        leaving.cancel()
        if not wanted.done():
            work.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class MemoryService:
    """Answers questions from a memory and keeps clients' documents in it: as files first, which it can be made from.

    Args:
        memory: its first bank takes the documents.
        name: the model's, as clients call it.
        folder: where documents are kept; open.
    """

    def __init__(self, memory: "Memory", name: str, folder: DocumentFolder) -> None:
        self.memory, self.name, self.folder = memory, name, folder
        self._is_behind = True  # the bank may not have just what the folder has
        self._bank_file: tuple[int, int] | None = None

    @property
    def bank(self) -> Path:
        """The bank that documents go into."""
        return self.memory.paths[0]

    def catch_up(self) -> None:
        """Make the bank, if it is not there, and bring it in line with the folder, whatever ended the last server.

        Raises:
            BankError: the bank cannot be written.
            ModelMismatch: another model wrote it.
        """
        from mbc_engine.paper.checkpoint import open_bank

        with open_bank(self.memory.model, self.bank) as bank:
            keeps_origins = bank.header.keeps_origins
        if keeps_origins:
            self._update_bank(())

    def process(self, key: Hashable, works: list[Any]) -> Sequence[Any]:
        """Answer questions with the options `key`, or change documents.

        Raises:
            MBCError: none of it can be done.
        """
        return self._answer(key, works) if isinstance(key, AskOptions) else self._change(works)

    def _answer(
        self, options: AskOptions, asked: Sequence[tuple[str, Callable[[str], None] | None]]
    ) -> list[dict[str, Any]]:
        """Answers as the fields of a completion; `content` is the message."""
        questions = [question for question, _ in asked]
        on_token = asked[0][1] if len(asked) == 1 and self.memory.can_stream(options) else None
        answers = self.memory.ask(questions, options, on_token=on_token)
        contents = [NOT_IN_MEMORY if own.text is None else own.text or "(no answer)" for own in answers]
        counts = zip(self._count_tokens(questions), self._count_tokens(contents), strict=True)
        fields = []
        for answer, content, (prompt, completion) in zip(answers, contents, counts, strict=True):
            told = answer_json(answer, self.memory.paths, self.memory.loading)
            usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
            sources = told.pop("sources")
            fields.append(
                {"content": content, "usage": usage, "sources": sources, "mbc": {**told, "together": len(asked)}}
            )
        return fields

    def _count_tokens(self, texts: list[str]) -> list[int]:
        """Of the base LM or of the reader's encoder."""
        from mbc_engine.mini.model import RetrieverReader

        model = self.memory.model
        if isinstance(model, RetrieverReader):
            # Not verbose: it would warn of texts that do not fit the encoder, which are only counted here.
            encoded = model.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
            return list(map(len, encoded))
        return list(map(len, model.base.texts.tokens(texts)))

    def _change(self, changes: Sequence[list[NewDocument] | str]) -> list[Any]:
        """Add documents, and remove the ones named by their ids: in the folder, in order and for good, then in the bank.

        Returns:
            For each change the documents as they are now, or whether there was one to remove, or what went wrong.
        """
        if bytes_at(self.bank):
            with MemoryBank.open(self.bank, read_only=True) as bank:
                if not bank.header.keeps_origins:
                    raise ConfigError(
                        f"{bank.name} keeps no sources: clients cannot add or remove documents.",
                        hint="Serve another bank with --bank.",
                    )
        is_behind, self._is_behind = self._is_behind or self._bank_file != identity(self.bank), True
        results = [self._write(change) for change in changes]
        self.folder.sync()
        ids = {id for change in changes for id in ([change] if isinstance(change, str) else [own.id for own in change])}
        skipped = self._update_bank(() if is_behind else sorted(ids))
        with MemoryBank.open(self.bank, read_only=True) as bank:
            return [
                result
                if isinstance(change, str) or isinstance(result, MBCError)
                else self._added(change, bank, skipped)
                for change, result in zip(changes, results, strict=True)
            ]

    def _write(self, change: list[NewDocument] | str) -> bool | MBCError:
        try:
            if isinstance(change, str):
                return self.folder.remove(change)
            for document in change:
                self.folder.write(document)
        except OSError as error:
            return BankError(
                f"The document cannot be written to the disk: {error.strerror or error}.",
                hint="Make sure that the documents folder has room and can be written.",
            )
        return True

    def _added(self, documents: list[NewDocument], bank: MemoryBank, skipped: dict[str, str]) -> Any:
        for document in documents:
            if document.id in skipped:
                return BankError(f"The document {skipped[document.id]}.", hint="The next change tries it again.")
        # What a later change has removed already was there for a moment.
        return [client_document(bank, self.folder, own.id) or own.record() for own in documents]

    def _update_bank(self, ids: Sequence[str]) -> dict[str, str]:
        """Bring documents with these ids, or all of them, into the bank as the folder has them.

        Returns:
            Why documents cannot be read, by their ids.
        """
        from mbc_engine.events import FileSkipped

        files = [self.folder.file(id) for id in ids]
        there = [file for file in files if file.exists()] if ids else [self.folder.path]
        skipped: dict[str, str] = {}
        if there:
            for event in self.memory.add(there, prune=not ids):
                if isinstance(event, FileSkipped):
                    skipped[Path(event.source).name[:ID_LENGTH]] = event.reason
        if gone := [str(file) for file in files if file not in there]:
            self.memory.remove(gone)
        self._is_behind, self._bank_file = bool(skipped), identity(self.bank)
        return skipped
