"""Ingestion on Ray: a cluster, and actors in it that read files, cut them into chunks and encode these.

Files are sent to the actors in order and come back as encoded documents. An actor has the model, but not the bank.
"""

import itertools
import logging
import os
import re
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mbc_engine.bank import BankHeader, MemoryBank, ModelSignature
from mbc_engine.errors import ConfigError, MBCError, ModelError, ModelMismatch
from mbc_engine.ingestion.workers import ChunkedDocument, Item, KnownDocuments, digests_by_source, read_chunks
from mbc_engine.machine import require_extra, usable_cores
from mbc_engine.names import own_models, packaged_model
from mbc_engine.text import printable_path
from mbc_engine.text.chunks import Chunker

if TYPE_CHECKING:
    from mbc_engine.model import Model

# Memory of a local cluster for texts and codes in transit; the rest spills to disk.
_OBJECT_BYTES: Final = 256 * 2**20
_REACH_SECONDS: Final = 5.0
# Files per task: few enough to be named if they crash an actor, enough to be worth a message.
_TASK_FILES: Final = 64
# How often a task is retried after its process has died.
RETRIES: Final = 3
# Tasks per actor, finished or not, and unread batches per task.
_ACTOR_TASKS: Final = 2
_UNREAD_BATCHES: Final = 4
# Most items in a batch, even with little to encode, as among thousands of unchanged files.
_BATCH_ITEMS: Final = 1024
_COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
_ERROR: Final = re.compile(r"[\w.]+(Error|Exception): ")

# Items, the seconds that encoding them took, and the error, if any, that ended the task.
Batch = tuple[list[Item], float, MBCError | None]


@dataclass(frozen=True)
class Actors:
    """The encoding processes."""

    number: int | None = None  # None for as many as the cluster has room for
    chunks: int = 64  # in a batch, at least; lost, and encoded again, if an actor dies
    cpus: float = 1.0  # per actor; also its number of threads
    gpus: float = 0.0  # per actor; may be a fraction
    device: str | None = None  # where models run; None is `cuda` with a GPU, else `cpu`


def require_ray(address: str | None = None) -> None:
    """Raises ConfigError if Ray is not installed or the address is malformed, MBCError if nothing listens there.

    Ray itself would retry for a minute.
    """
    require_extra("ray", "ray", asked_by="`--engine ray`")
    if address is None or address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise ConfigError(f"{address!r} is not a Ray address.", hint="Give HOST:PORT or auto.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from error


@contextmanager
def connected(address: str | None = None, *, verbose: bool = False) -> Iterator[None]:
    """Inside, Ray is connected; an existing connection of this process is reused and left open.

    The address is HOST:PORT or `auto`; None starts a temporary cluster that only this machine can reach. Raises
    ConfigError if Ray is not installed, MBCError if it cannot be reached or started.
    """
    require_ray()
    # The folder holds sockets, so its path must be short.
    short = None if sys.platform == "win32" else "/tmp"  # noqa: S108 - a folder of one's own is made there
    with _environment(address):
        with warnings.catch_warnings():
            warnings.simplefilter("default" if verbose else "ignore")
            import ray

        if ray.is_initialized():
            yield
            return
        require_ray(address)
        sigterm = signal.getsignal(signal.SIGTERM)
        with tempfile.TemporaryDirectory(prefix="mbc-ray-", dir=short, ignore_cleanup_errors=True) as folder:
            try:
                _start(address, f"{folder}/ray", verbose=verbose)  # Ray opens its own folder to all users
                yield
            finally:
                ray.shutdown()
                if threading.current_thread() is threading.main_thread():
                    signal.signal(signal.SIGTERM, sigterm)  # Ray replaced it


@contextmanager
def _environment(address: str | None) -> Iterator[None]:
    variables = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}
    if address is None and "ray" not in sys.modules:  # read on first import
        # Anyone who can reach Ray's ports can run any code, and other users of this machine can reach them.
        variables |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    before = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)


def _start(address: str | None, folder: str, *, verbose: bool) -> None:
    import ray
    from ray._private import ray_constants, worker
    from ray.exceptions import RayError

    level = logging.INFO if verbose else logging.CRITICAL
    where: dict[str, Any] = {"address": address}
    if not address:  # logs and spilled texts are deleted with the folder
        where = {"address": "local", "num_cpus": usable_cores(), "include_dashboard": False, "_temp_dir": folder}
        where["object_store_memory"] = _OBJECT_BYTES
        ray_constants.ENABLE_RAY_CLUSTER = False  # else its ports are open to the network
    try:
        with nullcontext() if verbose else _muted():
            ray.init(**where, log_to_driver=verbose, logging_level=level)
    except (ConnectionError, RayError, RuntimeError, ValueError) as error:
        raise _unreachable(address, error) from error
    logging.getLogger("ray").setLevel(level)
    # Ray would report dead processes on stdout, which is for data.
    worker._worker_logs_enabled = verbose  # noqa: SLF001 - there is no public way


@contextmanager
def _muted() -> Iterator[None]:
    """Silence what native code writes to stderr, such as Ray's greeting."""
    sys.stderr.flush()
    stderr = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _unreachable(address: str | None, error: Exception) -> MBCError:
    (line, *_) = str(error).splitlines() or [type(error).__name__]
    if address:
        return MBCError(
            f"Ray cannot be reached at {address}: {line}",
            hint="Check that it is running, in this version. If it requires a token, set RAY_AUTH_MODE=token.",
        )
    return MBCError(f"Ray cannot be started: {line}", hint="Use --engine local, or a running cluster with --address.")


def room_for(actors: Actors) -> int:
    """How many such actors the cluster currently has room for. Raises ConfigError if none."""
    import ray

    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    needed = {"CPU": actors.cpus, "GPU": actors.gpus}
    room = min(int(resources.get(name, 0.0) / amount) for name, amount in needed.items() if amount)
    if room < 1:
        raise ConfigError(
            f"An actor needs {actors.cpus:g} CPUs and {actors.gpus:g} GPUs; the cluster has "
            f"{resources.get('CPU', 0):g} and {resources.get('GPU', 0):g}.",
            hint="Lower --actor-cpus and --actor-gpus, or set --actors if the cluster is going to grow.",
        )
    return room


def encode_files(
    model: "Model",
    bank: MemoryBank,
    paths: Sequence[Path],
    text_column: str | None,
    actors: Actors,
    on_encoded: Callable[[float], None],
) -> Generator[Item, None, None]:
    """The documents of files, in order, with codes. Call it inside `connected`.

    Actors read the files by their paths here, and load the model by its name or folder. `on_encoded` gets
    the seconds that encoding takes, divided by the number of actors. Raises ModelMismatch if an actor finds another model, ConfigError
    if the cluster has no room, and MBCError if actors keep dying (it names the files) or Ray fails.
    """
    import ray
    from ray.exceptions import RayError

    from mbc_engine.model import signature

    number = room_for(actors) if actors.number is None else actors.number
    # Smaller tasks if there are few files, so that every actor has something to do.
    task_files = max(1, min(_TASK_FILES, len(paths) // (4 * number)))
    parts: Mapping[str, Mapping[str, str]] = {}
    contents = frozenset[bytes]()
    if bank.header.keeps_origins:
        parts = digests_by_source(bank, {printable_path(path.resolve()) for path in paths})
    else:
        contents = frozenset(digest for block in bank.document_blocks() for digest in block.digests)
    # Kept alive to the end: an actor that replaces a dead one needs it.
    shared = ray.put((bank.header, contents, model.chunker.leaving(bank.header.context_tokens)))
    kind = ray.remote(EncodingActor).options(num_cpus=actors.cpus, num_gpus=actors.gpus)
    arguments = _findable(model), signature(model), actors, text_column, shared
    team = _Team(lambda: kind.remote(*arguments), number)
    starts = iter(range(0, len(paths), task_files))
    try:
        while True:
            while len(team.tasks) < _ACTOR_TASKS * number and (start := next(starts, None)) is not None:
                files = [path.absolute() for path in paths[start : start + task_files]]
                known = {source: parts[source] for path in files if (source := printable_path(path.resolve())) in parts}
                team.give(files, known)
            if not team.tasks:
                return
            for items, seconds, error in team.batches():
                if error is not None:
                    raise error
                on_encoded(seconds / number)
                yield from items
    except RayError as error:
        lines = _COLOUR.sub("", str(error)).splitlines()
        errors = [line for line in lines if _ERROR.match(line)]  # at the end of a traceback
        raise MBCError(
            f"Ray failed: {errors[-1] if errors else lines[0]}",
            hint="What was encoded before is saved; run the same command again to continue.",
        ) from error
    finally:
        for actor in team.actors:
            ray.kill(actor)


@dataclass
class _Task:
    actor: int  # its index in the team
    files: list[Path]
    known: dict[str, Mapping[str, str]]
    received: int = 0
    references: Any = None


class _Team:
    """Actors, used in turn, and their tasks, in order.

    The tasks of an actor that died go to its replacement, in the same order. If that began with a later task, as when
    Ray itself restarts actors and tasks, it would wait for us to take that task's batches while we wait for the first.
    """

    def __init__(self, start: Callable[[], Any], number: int) -> None:
        self._start = start
        self._turns = itertools.cycle(range(number))
        self.actors = [start() for _ in range(number)]
        self.tasks: deque[_Task] = deque()

    def give(self, files: list[Path], known: dict[str, Mapping[str, str]]) -> None:
        task = _Task(next(self._turns), files, known)
        self._send(task)
        self.tasks.append(task)

    def _send(self, task: _Task) -> None:
        options = {"num_returns": "streaming", "_generator_backpressure_num_objects": _UNREAD_BATCHES}
        encode = self.actors[task.actor].encode.options(**options)
        task.references = encode.remote(task.files, task.known, task.received)

    def batches(self) -> Iterator[Batch]:
        """The batches of the first task, which is then removed. Raises MBCError if actors died on it too often."""
        import ray
        from ray.exceptions import ObjectLostError, RayActorError

        task = self.tasks[0]
        for deaths in itertools.count(1):
            try:
                for reference in task.references:
                    batch: Batch = ray.get(reference)
                    task.received += 1
                    yield batch
                self.tasks.popleft()
                return
            except (RayActorError, ObjectLostError) as error:
                if "creation task" in str(error):
                    raise
                if deaths > RETRIES:
                    first, last = printable_path(task.files[0]), printable_path(task.files[-1])
                    named = first if len(task.files) == 1 else f"{len(task.files)} files, {first} to {last},"
                    raise MBCError(
                        f"The process that was given {named} died {RETRIES + 1} times in a row.",
                        hint="What was encoded before is saved. --verbose shows Ray's messages; --engine local skips "
                        "files that crash the process reading them.",
                    ) from error
                ray.kill(self.actors[task.actor])  # it may be alive and still hold its resources
                self.actors[task.actor] = self._start()
                for other in self.tasks:
                    if other.actor == task.actor:
                        self._send(other)


def _findable(model: "Model") -> str:
    """How another machine finds the model: by name if it is installed or packaged, else by folder."""
    if model.folder is None:
        raise ModelError("This model has no folder for other processes to load it from.", hint="Save it first.")
    if model.folder in (own_models() / model.name, packaged_model(model.name)):
        return model.name
    return str(model.folder.absolute())


@dataclass(repr=False)  # Ray prints one even if its construction failed
class EncodingActor:
    """Encodes files with the model of this name or folder. Errors, such as a ModelMismatch, come back in a batch.

    The model is loaded for the first chunks, so not at all if all files are unchanged.
    """

    name: str
    expected: ModelSignature  # of the model whose codes the bank holds
    actors: Actors
    text_column: str | None
    shared: tuple[BankHeader, frozenset[bytes], Chunker]  # the second as `KnownDocuments.contents`
    model: "Model | None" = None

    def encode(self, files: Sequence[Path], known: Mapping[str, Mapping[str, str]], skip: int) -> Iterator[Batch]:
        """The documents of files in batches, without the first `skip` batches; an error comes last.

        `known` are the bank's digests, by source and part.
        """
        try:
            for items in itertools.islice(self._read(files, known), skip, None):
                yield self._encoded(items)
        except MBCError as error:
            yield [], 0.0, error
        except Exception as error:  # noqa: BLE001 - Ray would raise it as its own, with a traceback
            yield [], 0.0, MBCError(f"{type(error).__name__}: {error}")

    def _read(self, files: Sequence[Path], known: Mapping[str, Mapping[str, str]]) -> Iterator[list[Item]]:
        batch, chunks = list[Item](), 0
        header, contents, chunker = self.shared
        for path in files:
            documents = KnownDocuments(header, known.get(printable_path(path.resolve()), {}), contents)
            for item in read_chunks(path, documents, chunker, self.text_column):
                batch.append(item)
                chunks += len(item.chunks) if isinstance(item, ChunkedDocument) else 0
                if chunks >= self.actors.chunks or len(batch) >= _BATCH_ITEMS:
                    yield batch
                    batch, chunks = [], 0
        yield batch

    def _encoded(self, items: list[Item]) -> Batch:
        changed = {index: item for index, item in enumerate(items) if isinstance(item, ChunkedDocument) and item.chunks}
        if not changed:
            return items, 0.0, None
        if self.model is None:
            self.model = self._loaded()
        began = time.monotonic()
        codes = self.model.memorise(*zip(*(pair for item in changed.values() for pair in item.inputs), strict=True))
        ends = np.cumsum([len(item.chunks) for item in changed.values()])
        for (index, item), rows in zip(changed.items(), np.split(codes, ends[:-1]), strict=True):
            items[index] = replace(item, codes=rows)
        return items, time.monotonic() - began, None

    def _loaded(self) -> "Model":
        # mini's threads, and torch's, which reads it when it is imported.
        os.environ["OMP_NUM_THREADS"] = str(max(1, int(self.actors.cpus)))
        from mbc_engine.model import load_model, signature

        model = load_model(self.name, device=self.actors.device or ("cuda" if self.actors.gpus else "cpu"))
        actual = signature(model)
        if actual != self.expected:
            raise ModelMismatch(
                f"The model {self.name} differs between this machine ({self.expected.fingerprint}) and a Ray process "
                f"({actual.fingerprint}).",
                hint="Install the same model on every machine, or name a folder on a disk that they share.",
            )
        return model
