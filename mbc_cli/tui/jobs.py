"""The dashboard's background work, in threads and processes. Only jobs open files and banks.

Results reach the app's thread through a function like `App.call_later`.
"""

import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, cast

import numpy as np
from numpy.typing import NDArray

from mbc_cli.formatting import sanitise
from mbc_cli.loading import open_memory
from mbc_cli.model_thread import ModelThread, ModelThreadClosed
from mbc_cli.paths import activity_log, dashboard_settings
from mbc_cli.tui.state import BankSnapshot, DashboardOptions, RunSummary
from mbc_engine.answer import Answer, AskOptions, Source, TextFrom
from mbc_engine.atomic_write import atomic_write, make_private_folder
from mbc_engine.bank import CodeShape, CodeUse, MemoryBank, StoredDocument, code_uses, find_documents
from mbc_engine.bank.exchange import remove_undoably, undo_removal
from mbc_engine.bank.text_codec import joined_text
from mbc_engine.errors import MBCError, ModelError
from mbc_engine.machine import Throttle
from mbc_engine.memory import Conversation
from mbc_engine.runs.event_log import EventFollower, LogUpdate
from mbc_engine.runs.ingests import forget_names
from mbc_engine.runs.training_runs import EVENTS, FollowedRun, is_running, read_usage, runs_in
from mbc_engine.sources import MOST_SECONDS, Files, text_model

# Checks once per step, and yields whether there is more to read at once.
Poll = Generator[bool, None, None]
CallLater = Callable[..., object]

_POLL_INTERVAL: Final = 0.25  # seconds: shorter than a person notices
_MAX_EVENTS: Final = 2_000  # that the app handles between two key presses
_STEP_SECONDS: Final = 0.1  # of reading per step of a poll
_REPORT_INTERVAL: Final = 0.1  # seconds between two reports of a search
_MAX_PASSAGES: Final = 30
_MAX_DECODED: Final = 8  # chunks: a few per second
_MAX_STDERR_BYTES, _MAX_STDERR_LINES = 4096, 2  # kept from the end of stderr


def start_thread(work: Callable[[], object], call_later: CallLater) -> threading.Thread:
    """Run in a daemon thread, which the dashboard does not wait for on exit; its errors are raised in the app."""

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # otherwise it would end only this thread
            call_later(_raise, error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _raise(error: BaseException) -> None:
    raise error


def start_polling(poll: Poll, call_later: CallLater) -> Callable[[], None]:
    """Step through a poll in a thread, a few times a second, until the function returned is called."""
    over = threading.Event()

    def run() -> None:
        for has_more in poll:
            if over.wait(0 if has_more else _POLL_INTERVAL):
                break
        poll.close()

    start_thread(run, call_later)
    return over.set


def poll_bank(path: Path, update: Callable[[BankSnapshot | None, MBCError | None], object]) -> Poll:
    """Report the bank at a path whenever it has changed, or why it cannot be read."""
    version: tuple[int, int] | None = None
    reported: str | None = None
    throttle = Throttle(max_share=0.1, min_interval=0.25)
    while True:
        try:
            with MemoryBank.open(path, read_only=True) as bank:
                while not bank.is_replaced():
                    if throttle.is_due(began := time.monotonic()) and (now := bank.version()) != version:
                        with bank.snapshot():
                            sizes, read_bytes = bank.sizes(), bank.mean_size()
                            snapshot = BankSnapshot(bank.header, bank.totals(), sizes, bank.counts(), read_bytes)
                        update(snapshot, None)
                        version, reported = now, None
                        throttle.record(began, time.monotonic())
                    yield False
                yield False  # it was replaced: the next step opens the new one
        except MBCError as error:
            # A bank that was read before may have been re-encoded; the next step reopens it.
            if version is None and reported != error.message:
                reported = error.message
                update(None, error)
            yield False
        version = None


def poll_log(log: Path, is_running: Callable[[], bool], update: Callable[[LogUpdate, bool], object]) -> Poll:
    """Report a log's new events, and whether a process is still writing it, whenever either has changed."""
    follower, was_at_work = EventFollower(log), None
    while True:
        at_work = is_running()  # before reading: a process that has ended by now has written everything
        until, has_more = time.monotonic() + _STEP_SECONDS, True
        while has_more and time.monotonic() < until:
            log_update = follower.poll(most=_MAX_EVENTS)
            has_more = log_update.has_more
            if log_update.events or log_update.is_restarted or at_work != was_at_work:
                was_at_work = at_work
                update(log_update, at_work)
        yield has_more


def poll_run(folder: Path, update: Callable[[LogUpdate, bool, NDArray[np.float32] | None], object]) -> Poll:
    """Report a training run's log and, if known, the usage of its codes."""

    def add_usage(log_update: LogUpdate, at_work: bool) -> None:
        update(log_update, at_work, None if log_update.has_more else read_usage(folder))

    return poll_log(folder / EVENTS, lambda: is_running(folder), add_usage)


def poll_runs(folder: Path, update: Callable[[tuple[RunSummary, ...]], object]) -> Poll:
    """Report all runs in a folder, the most recently changed first, whenever one is new or has changed."""
    runs: dict[Path, FollowedRun] = {}
    reported: tuple[RunSummary, ...] | None = None
    throttle = Throttle(max_share=0.02, min_interval=1.0)
    while True:
        if throttle.is_due(began := time.monotonic()):
            runs = {run: runs.get(run) or FollowedRun(run, has_curves=False) for run in runs_in(folder)}
            for run in runs.values():
                run.update()
            # A long log is read whole only once: it must not silence the runs for as long as it would deserve.
            throttle.record(began, min(time.monotonic(), began + _STEP_SECONDS))
            summaries = tuple(
                RunSummary(run.folder, run.state, run.history.step, run.history.best) for run in runs.values()
            )
            if summaries != reported:
                reported = summaries
                update(summaries)
        yield False


def await_hangup(descriptor: int, on_hangup: Callable[[], object]) -> None:
    """Wait until the other end of the dashboard's input is gone, for which not every terminal sends SIGHUP."""
    poll = select.poll()
    poll.register(descriptor, 0)  # a hangup is always reported
    while not any(mask & select.POLLHUP for _, mask in poll.poll()):
        pass
    on_hangup()


def read_settings() -> dict[str, Any]:
    """The settings saved when the dashboard last closed; empty if they cannot be read."""
    with suppress(OSError, ValueError, RecursionError):
        if isinstance(settings := json.loads(dashboard_settings().read_bytes()), dict):
            return settings
    return {}


def save_settings(settings: Mapping[str, Any]) -> None:
    with suppress(OSError):
        make_private_folder(dashboard_settings().parent)
        with atomic_write(dashboard_settings(), is_private=True) as file:
            file.write(json.dumps(settings).encode())


ModelState = Literal["unloaded", "requested", "loading", "ready", "decoding", "missing"]


class AnswerWorker:
    """Answers questions, by their numbers, and searches, in the one thread that has the model.

    Called with `call_later`, `on_model` gets the model's state, an error, and its read modes; `on_token` the number of
    a question and a piece of its answer; `on_answer` its number and the answer, an error, or None if it was cancelled.
    """

    def __init__(
        self,
        options: DashboardOptions,
        call_later: CallLater,
        on_model: Callable[[ModelState, MBCError | None, Sequence[str]], object],
        on_token: Callable[[int, str], object],
        on_answer: Callable[[int, Answer | MBCError | None], object],
    ) -> None:
        self._call_later = call_later
        self._on_model = partial(call_later, on_model)
        self._on_token = partial(call_later, on_token)
        self._on_answer = partial(call_later, on_answer)
        self._cancelled: set[int] = set()
        self._is_ready = False
        self._memory = open_memory(
            [options.bank], options.model, options.device, llm=options.llm, on_decoding=self._decoding
        )
        self._conversation = Conversation(self._memory)
        self._model_thread = ModelThread(self._memory, on_unload=self._unloaded)

    def load(self) -> None:
        self._submit(self._load)

    def ask(self, number: int, question: str, options: AskOptions) -> None:
        self._submit(partial(self._ask, number, question, options))

    def cancel(self, number: int) -> None:
        """Drop a question, or stop its answer at the next piece."""
        self._cancelled.add(number)

    def search(self, query: str) -> list[tuple[StoredDocument, Source]]:
        """The documents that match a query best, each with its best passage; waits for earlier questions."""
        with suppress(ModelThreadClosed):  # the dashboard is closing
            return self._model_thread.submit(partial(self._search, query)).result()
        return []

    def close(self) -> None:
        self._model_thread.close()

    def _submit(self, work: Callable[[], object]) -> None:
        def report(future: Future[object]) -> None:
            if (error := future.exception()) is not None:
                self._call_later(_raise, error)

        self._model_thread.submit(work).add_done_callback(report)

    def _load(self) -> None:
        with suppress(MBCError):  # which was reported
            self._open()

    def _ask(self, number: int, question: str, options: AskOptions) -> None:
        def on_token(piece: str) -> None:
            if number in self._cancelled:
                raise CancelledError
            if piece:
                self._on_token(number, piece)

        answer: Answer | MBCError | None
        previous = self._conversation.previous
        try:
            self._open()
            on_token("")
            answer = self._conversation.ask(question, options, on_token=on_token, with_codes=True)
            on_token("")
        except MBCError as error:
            answer = error
        except CancelledError:
            answer, self._conversation.previous = None, previous
        self._on_answer(number, answer)

    def _search(self, query: str) -> list[tuple[StoredDocument, Source]]:
        self._open()
        (passages,) = self._memory.search([query], top=_MAX_PASSAGES)
        best: dict[tuple[str, str], Source] = {}
        for passage in passages:
            best.setdefault((passage.path, passage.part), passage)
        with MemoryBank.open(self._memory.paths[0], read_only=True) as bank:
            keeps_origins = bank.header.keeps_origins
            return [
                (document, passage)
                for name, passage in best.items()
                for document in bank.lookup([name] if keeps_origins else (), () if keeps_origins else name[:1])
            ]

    def _open(self) -> None:
        if self._is_ready:
            return
        self._on_model("loading", None, ())
        try:
            self._memory.open(AskOptions())
        except MBCError as error:
            self._on_model("missing", error, ())
            raise
        self._is_ready = True
        self._on_model("ready", None, self._memory.model.read_modes)

    def _unloaded(self) -> None:
        self._is_ready = False

    @contextmanager
    def _decoding(self, _texts: int) -> Iterator[None]:
        self._on_model("decoding", None, ())
        try:
            yield
        finally:
            self._on_model("ready", None, self._memory.model.read_modes)


def search_documents(
    path: Path, text: str, limit: int, *, is_exact: bool = False
) -> Iterator[tuple[tuple[StoredDocument, ...], int, bool]]:
    """The documents found so far by part of their name or date, the number of matches, and whether that is all.

    With `is_exact`, the whole name must match.
    """
    reported, matches = time.monotonic(), 0
    rows: list[StoredDocument] = []
    with MemoryBank.open(path, read_only=True) as bank:
        for documents, total in find_documents(bank, text, sys.maxsize if is_exact else limit):
            rows += [document for document in documents if not is_exact or document.name == text]
            matches = len(rows) if is_exact else total
            if not text and len(rows) == limit:
                totals = bank.totals()
                matches = totals.origins if bank.header.keeps_origins else totals.documents
                break
            if (now := time.monotonic()) - reported >= _REPORT_INTERVAL:
                reported = now
                yield tuple(rows), matches, False
    yield tuple(rows), matches, True


def read_document(path: Path, row: StoredDocument) -> tuple[StoredDocument, CodeShape, Source] | None:
    """A document with its codes, their shape, and its text; None if the bank no longer has it.

    The text is that of the file if unchanged, otherwise the bank's, of which a language model decodes only the beginning.
    """
    with MemoryBank.open(path, read_only=True) as bank:
        names, digests = [origin[:2] for origin in row.origins], () if row.origins else [row.digest]
        documents = bank.lookup(names, digests, with_texts=bank.header.keeps_text)
        if not documents:
            return None
        document, shape = documents[0], bank.header.shape
    texts: Any = document.texts or ()
    origin, state, file = Files(MOST_SECONDS if texts else math.inf).first_unchanged(document)
    text, text_from = None if file is None else file.text, cast("TextFrom | None", file and "file")
    if texts and file is None:
        first = texts[:_MAX_DECODED] if any(text.lm for text in texts) else texts
        with suppress(ModelError):
            text, text_from = joined_text(first, str(path), text_model), "bank"
            text += "" if len(first) == len(texts) else "\n…"
    name = origin.source or document.digest
    passage = Source(name, origin.part, 1.0, 0, state, None, text, text_from, 0, origin.date, str(path))
    return document, shape, passage


def remove_documents(path: Path, documents: Sequence[StoredDocument]) -> int:
    """Remove documents from a bank: by their origins, or by digest if the bank keeps none; returns how many of these."""
    with MemoryBank.open(path) as bank:
        names = {origin[:2] for document in documents for origin in document.origins}
        digests = {document.digest for document in documents if not document.origins}
        removed = remove_undoably(bank, names, digests)
    forget_names(activity_log(path))
    return removed


def restore_documents(path: Path) -> tuple[int, int]:
    """Restore what was removed last; returns what `undo_removal` does."""
    with MemoryBank.open(path) as bank:
        return undo_removal(bank)


def explain_codes(path: Path, codes: Sequence[tuple[int, int, int]], top: int = 0) -> list[CodeUse]:
    """What codes stand for, with their `top` most typical chunks; empty if the bank has no such codes."""
    files = Files()

    def file_text(document: StoredDocument) -> str | None:
        file = files.first_unchanged(document)[2]
        return None if file is None else file.text

    with MemoryBank.open(path, read_only=True) as bank:
        shape = bank.header.shape
        sizes = shape.levels, shape.positions, shape.num_codes
        return code_uses(bank, codes, top, file_text) if all(np.less(codes, sizes).flat) else []


class ChildProcess:
    """An `mbc` command that outlives the dashboard. Its log shows its progress.

    `on_end` is called in a thread with why it failed, or "" if it finished or was interrupted.
    """

    def __init__(self, arguments: Sequence[str], on_end: Callable[[str], object]) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # an unread pipe would fill up
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(  # noqa: S603  # mbc itself
                [sys.executable, "-m", "mbc_cli", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                env={**os.environ, "NO_COLOR": "1"},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # such as arguments too long for a command line
            on_end(f"Could not start: {error}")
        else:
            threading.Thread(target=self._wait, args=(self._process, on_end), daemon=True).start()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def interrupt(self) -> None:
        """Like Ctrl-C: it finishes its current step and ends; the second time, at once."""
        if self._process is not None and self.is_running:
            self._process.send_signal(signal.SIGINT)

    def _wait(self, process: subprocess.Popen[bytes], on_end: Callable[[str], object]) -> None:
        code = process.wait()
        with self._stderr as stderr:
            stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - _MAX_STDERR_BYTES))
            lines = stderr.read().decode(errors="replace").splitlines()[-_MAX_STDERR_LINES:]
        words = " ".join(sanitise(line).strip() for line in lines)
        on_end("" if code in (0, 130, -signal.SIGINT) else words or f"Exited with code {code}.")
