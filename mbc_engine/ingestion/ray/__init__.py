"""Ray, started on this machine for a while or reached where it runs; it is imported only here and where it is used."""

import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from mbc_engine.errors import ConfigError, MBCError
from mbc_engine.machine import require_extra, usable_cores

# What a local cluster keeps in memory of texts and codes on their way; more lies on the disk.
_OBJECT_BYTES: Final = 256 * 2**20
_REACH_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Actors:
    """The processes that encode.

    Attributes:
        number: how many; None for as many as the cluster has room for.
        chunks: what one encodes in one go, and Ray gives to another one should it die; documents are not divided.
        cpus, gpus: what one takes of the cluster, parts of a GPU included.
        device: where models run; None is `cuda` for those with a GPU, else `cpu`.
    """

    number: int | None = None
    chunks: int = 64
    cpus: float = 1.0
    gpus: float = 0.0
    device: str | None = None

    @property
    def place(self) -> str:
        """The device."""
        return self.device or ("cuda" if self.gpus else "cpu")

    @property
    def threads(self) -> int:
        """Threads of torch that one has on a CPU."""
        return max(1, int(self.cpus))


def require_ray() -> None:
    """Raises ConfigError where Ray is not installed."""
    require_extra("ray", "ray", asked_by="--engine ray")


@contextmanager
def connected(address: str | None = None, *, verbose: bool = False) -> Iterator[None]:
    """Ray at this address for a while, or a cluster of this machine alone that ends with it.

    A connection that this process has already is used, and stays.

    Args:
        address: HOST:PORT or `auto`; None starts a local cluster, which only this machine reaches.
        verbose: let Ray and its processes talk.

    Raises:
        ConfigError: Ray is not installed.
        MBCError: there is no cluster at this address, or none can be started.
    """
    require_ray()
    with _environment(address):
        with warnings.catch_warnings():
            warnings.simplefilter("default" if verbose else "ignore")
            import ray

        if ray.is_initialized():
            yield
            return
        # Sockets lie in the folder, whose paths must be short.
        short = None if sys.platform == "win32" else "/tmp"  # noqa: S108 - mkdtemp makes a folder of one's own there
        folder = None if address else tempfile.mkdtemp(prefix="mbc-ray-", dir=short)
        with _sigterm_kept():
            try:
                _start(address, folder, verbose=verbose)
                yield
            finally:
                ray.shutdown()
                if folder:
                    shutil.rmtree(folder, ignore_errors=True)


def _start(address: str | None, folder: str | None, *, verbose: bool) -> None:
    """Raises MBCError."""
    import ray
    from ray._private import ray_constants, worker
    from ray.exceptions import RayError

    level = logging.INFO if verbose else logging.CRITICAL
    where: dict[str, Any] = {"address": address}
    if not address:  # a cluster for this machine alone, whose files, logs and spilled texts among them, go with it
        where = {"address": "local", "num_cpus": usable_cores(), "include_dashboard": False, "_temp_dir": folder}
        where["object_store_memory"] = _OBJECT_BYTES
    try:
        if address:
            require_reachable(address)
            _require_answer(address)
        else:
            ray_constants.ENABLE_RAY_CLUSTER = False  # else its ports are open to the network
        with nullcontext() if verbose else _muted():
            ray.init(**where, log_to_driver=verbose, logging_level=level)
    except (ConnectionError, RayError, RuntimeError, ValueError) as error:
        raise _unreachable(address, error) from error
    logging.getLogger("ray").setLevel(level)
    # Ray would report dead processes on stdout, which is for data.
    worker._worker_logs_enabled = verbose  # noqa: SLF001 - there is no public way


@contextmanager
def _environment(address: str | None) -> Iterator[None]:
    """What Ray takes from the environment, for a while."""
    values = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}
    if address is None and "ray" not in sys.modules:  # read when it is first imported
        # Who reaches Ray's ports can have it run anything: even on this machine nobody else is to.
        values |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _muted() -> Iterator[None]:
    """Inside, what libraries other than Python's write on stderr goes nowhere: Ray greets on it."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def require_reachable(address: str) -> None:
    """Make sure, in seconds, that somebody listens at a cluster's address; Ray itself would try for a minute.

    Raises:
        ConfigError: it is no address.
        MBCError: nobody does.
    """
    host, _, port = address.rpartition(":")
    if address == "auto":
        return
    if not host or "/" in host or not port.isdecimal():
        raise ConfigError(f"{address!r} is not a Ray address.", hint="Give HOST:PORT or auto.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from error


def _require_answer(address: str) -> None:
    """Raises ConnectionError if it is no cluster that listens there, of which Ray itself would wait for minutes."""
    if address == "auto":
        return
    script = "from ray.scripts.scripts import main; main()"
    asking = [sys.executable, "-c", script, "health-check", "--address", address]
    try:
        # That somebody answers is enough: what else is wrong, such as a missing token, Ray says at once itself.
        subprocess.run(  # noqa: S603 - this Python, and an address that was looked at
            asking, capture_output=True, stdin=subprocess.DEVNULL, timeout=_ANSWER_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ConnectionError("what listens there does not answer as Ray does.") from error


def _unreachable(address: str | None, error: Exception) -> MBCError:
    (line, *_) = str(error).splitlines() or [type(error).__name__]
    if address:
        return MBCError(
            f"No Ray cluster can be reached at {address}: {line}",
            hint="Does it run, in this version of Ray? For one that asks for a token, set RAY_AUTH_MODE=token.",
        )
    return MBCError(f"Ray cannot be started here: {line}", hint="Take --engine local, or a cluster with --address.")


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself; afterwards it does what it did before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def room_for(actors: Actors) -> int:
    """How many of these the cluster has room for as it is now.

    Raises:
        ConfigError: none, and nobody said how many there are to be.
    """
    import ray

    there: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    room = min(
        int(there.get(name, 0.0) / wanted) for name, wanted in (("CPU", actors.cpus), ("GPU", actors.gpus)) if wanted
    )
    if room < 1:
        raise ConfigError(
            f"An actor is to have {actors.cpus:g} CPUs and {actors.gpus:g} GPUs; the cluster has "
            f"{there.get('CPU', 0):g} and {there.get('GPU', 0):g}.",
            hint="Ask for less with --actor-cpus and --actor-gpus, or say with --actors how many will have room.",
        )
    return room
