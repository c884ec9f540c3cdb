"""What is installed here, the hardware there is, and which features of mbc work with it.

Whatever is missing or broken is a finding, not an error: this is what one runs when nothing else does.
"""

import hashlib
import importlib.util
import os
import platform
import shutil
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from mbc_cli.config.file import config_path
from mbc_cli.hub import Hub, hub_from_here
from mbc_engine import __version__
from mbc_engine.errors import MBCError
from mbc_engine.machine import usable_cores

_PACKAGES: Final = (
    *("torch", "transformers", "tokenizers", "peft", "safetensors", "numpy"),
    *("typer", "rich", "textual", "textual-serve", "bitsandbytes"),
)
_REINSTALL: Final = "install mbc again"


@dataclass(frozen=True)
class Place:
    """A path that matters.

    Attributes:
        path: where it is, or would be.
        exists: whether it is there.
        free: bytes that can still be written there.
    """

    path: str
    exists: bool
    free: int | None


@dataclass(frozen=True)
class Accelerator:
    """A graphics card. Memory in bytes."""

    name: str
    memory: int
    free: int


@dataclass(frozen=True)
class Devices:
    """What there is to compute on.

    Attributes:
        cores: of the CPU, for this process.
        threads: that torch uses; None without torch.
        cuda: graphics cards.
        mps: whether there is an Apple one.
        error: why torch cannot be used; None if it can.
    """

    cores: int
    threads: int | None = None
    cuda: list[Accelerator] = field(default_factory=list)
    mps: bool = False
    error: str | None = None


@dataclass(frozen=True)
class Bundle:
    """The encoder that an installed package carries.

    Attributes:
        name: the encoder's.
        path: the folder in the package; None if that is not installed.
        is_official: whether its files are the official ones, by SHA-256.
        install: how to get it.
    """

    name: str
    path: str | None
    is_official: bool
    install: str


@dataclass(frozen=True)
class Ability:
    """Something mbc can do here, or how to get there.

    Attributes:
        name: what.
        works: whether it does.
        told: on what, or the way to it.
    """

    name: str
    works: bool
    told: str


@dataclass(frozen=True)
class Checkup:
    """All of it."""

    versions: dict[str, str | None]
    devices: Devices
    hub: Hub
    encoder: Bundle
    places: dict[str, Place]
    abilities: list[Ability]

    @property
    def is_fit(self) -> bool:
        """Whether documents can be memorised and questions answered."""
        return all(ability.works for ability in self.abilities if ability.name in ("ingest", "ask"))

    def to_json(self) -> dict[str, Any]:
        """As JSON; sizes in bytes."""
        return asdict(self)


def check(bank: Path, runs: Path, model: str, *, may_ask_hub: bool) -> Checkup:
    """Look at everything; takes as long as importing torch, and at most a few seconds more.

    Args:
        bank, runs: where they are or would be.
        model: the model that is to work.
        may_ask_hub: False to stay off the network.
    """
    devices, hub, encoder = _devices(), hub_from_here(may_ask=may_ask_hub), _encoder()
    return Checkup(
        versions={"mbc": __version__, "python": platform.python_version(), **{p: _version(p) for p in _PACKAGES}},
        devices=devices,
        hub=hub,
        encoder=encoder,
        places={
            "bank": _place(bank),
            "runs": _place(runs),
            "cache": _place(Path(hub.cache)),
            "config": _place(config_path()),
        },
        abilities=[*_memory(devices, hub, model), *_extras(devices)],
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> Devices:
    cores = usable_cores()
    try:
        import torch

        cuda = []
        for number in range(torch.cuda.device_count()):
            free, memory = torch.cuda.mem_get_info(number)
            cuda.append(Accelerator(torch.cuda.get_device_name(number), memory, free))
        return Devices(cores, torch.get_num_threads(), cuda, torch.backends.mps.is_available())
    except (ImportError, OSError, RuntimeError) as error:
        return Devices(cores, error=str(error).partition("\n")[0])


def _encoder() -> Bundle:
    """The embedded model's."""
    try:
        from mbc_engine.model.encoders import BUNDLES
    except (ImportError, OSError):
        return Bundle("", None, False, _REINSTALL)
    (name, bundle), *_ = BUNDLES.items()
    package = importlib.util.find_spec(bundle.package)
    if package is None or not package.submodule_search_locations:
        return Bundle(name, None, False, bundle.install)
    folder = Path(package.submodule_search_locations[0]) / bundle.folder
    is_official = all(_sha256(folder / file) == digest for file, digest in bundle.sha256.items())
    return Bundle(name, str(folder), is_official, bundle.install)


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _place(path: Path) -> Place:
    is_there = os.path.exists(path)  # noqa: PTH110  # Path.exists() fails below a folder that must not be looked into
    there = next((folder for folder in (path, *path.absolute().parents) if os.path.exists(folder)), None)  # noqa: PTH110
    try:
        free = shutil.disk_usage(there).free if there else None
    except OSError:
        free = None
    return Place(str(path.absolute()), is_there, free)


def _memory(devices: Devices, hub: Hub, model: str) -> list[Ability]:
    """Memorising, answering and training, which need torch and the model's parts."""
    if devices.error is not None:
        return [Ability(name, False, f"torch cannot be used: {devices.error}") for name in ("ingest", "ask", "train")]
    way = _way_to(model, hub)
    told = way or f"with the model {model}"
    return [
        Ability("ingest", way is None, told),
        Ability("ask", way is None, told),
        Ability("train", way is None, way or ("on a GPU" if devices.cuda else "on the CPU: small models only")),
    ]


def _way_to(model: str, hub: Hub) -> str | None:
    """How to get what a model needs; None if all is there, or can be had from the hub."""
    try:
        from mbc_engine.config import RetrieverReaderConfig, parse_model_config
        from mbc_engine.model.encoders import BUNDLES, locate
        from mbc_engine.model_folder import CONFIG, find_model

        folder = find_model(model)
        config = parse_model_config((folder / CONFIG).read_text(), str(folder / CONFIG))
        if isinstance(config, RetrieverReaderConfig):
            names = {config.retriever_reader.encoder}
        else:
            names = {config.model.documents.name, config.model.questions.name}
        for name in sorted(names):
            if Path(locate(name)).is_dir() or name in hub.cached or hub.reachable:
                continue
            way = f"{BUNDLES[name].install}, or " if name in BUNDLES else ""
            return f"{way}connect to the hub once: it needs {name}"
    except MBCError as error:
        return f"{error.message} {error.hint or ''}".rstrip()
    except (ImportError, OSError) as error:
        return f"{_REINSTALL}: {str(error).partition(chr(10))[0]}"
    return None


def _extras(devices: Devices) -> list[Ability]:
    return [
        _gpu(devices),
        _installed("4-bit", "bitsandbytes"),
        _installed("tui", "textual"),
        _installed("web", "textual-serve"),
    ]


def _gpu(devices: Devices) -> Ability:
    if devices.cuda:
        return Ability("GPU", True, ", ".join(card.name for card in devices.cuda))
    if devices.mps:
        return Ability("GPU", True, "mps")
    if devices.error is not None:
        return Ability("GPU", False, f"torch cannot be used: {devices.error}")
    return Ability("GPU", False, "torch finds none: no driver, or a CPU-only build of torch")


def _installed(ability: str, package: str) -> Ability:
    found = _version(package)
    return Ability(ability, found is not None, f"{package} {found}" if found else f"pip install {package}")
