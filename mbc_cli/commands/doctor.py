"""`mbc doctor`: what works on this machine.

What is installed here, the hardware there is, and which features of mbc work with it.

What `mbc doctor` found, for a terminal of 80 columns.
"""

import hashlib
import importlib.util
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from mbc_cli.commands.models.share import Hub, hub_from_here
from mbc_cli.config import config_path
from mbc_cli.options import BankOption, JsonOption, ModelOption, RunsOption
from mbc_cli.render.terminal import out
from mbc_cli.text import near, plain, size
from mbc_engine import __version__
from mbc_engine.errors import MBCError
from mbc_engine.machine import usable_cores


def doctor(
    ctx: typer.Context,
    *,
    bank: BankOption,
    model: ModelOption,
    runs: RunsOption,
    offline: Annotated[bool, typer.Option("--offline", help="Do not check whether the hub can be reached.")] = False,
    json: JsonOption = False,
) -> None:
    """Show what is installed, available hardware, file locations and which features work.

    The exit code is 4 if --model cannot be used here.

    \b
    Examples:
      mbc doctor
      mbc doctor --offline --json
    """
    from mbc_cli.engine import loading
    from mbc_cli.program import config_error
    from mbc_cli.render.terminal import print_json
    from mbc_engine.errors import ModelError

    with loading("torch"):
        found = check(bank, runs, model, may_ask_hub=not offline)
    error = config_error(ctx)
    told = error.message if error else None
    if json:
        print_json({**found.to_json(), "config_error": told})
    else:
        show_checkup(found, told)
    if not found.is_fit:
        raise typer.Exit(ModelError.exit_code)


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
        from mbc_engine.lm.encoders import BUNDLES
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
        from mbc_engine.lm.encoders import BUNDLES, locate
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


_FEW = 6


def show_checkup(found: Checkup, config_error: str | None) -> None:
    """Versions, devices, hub and places, what is wrong with the config file, and then what works."""
    _section("Installed", ((name, version or "not installed") for name, version in found.versions.items()))
    _section("Hardware", _doctor_devices(found.devices))
    _section("Pretrained models", _models(found))
    _section("Files", ((name, _doctor_place(place)) for name, place in found.places.items()))
    if config_error:
        out.print(Text(f"  {plain(config_error)}", "red"))
    out.print(Text("What works here", "bold"))
    for ability in found.abilities:
        is_there = ("yes", "green") if ability.works else ("no", "yellow")
        out.print(
            Text.assemble(f"  {ability.name:<14}  ", is_there, f"{' ' * (5 - len(is_there[0]))}{plain(ability.told)}")
        )


def _section(title: str, facts: "Iterator[tuple[str, str]]") -> None:
    out.print(Text(title, "bold"))
    for label, value in facts:
        out.print(Text.assemble((f"  {label:<14}  ", "dim"), plain(value)))


def _doctor_devices(devices: Devices) -> Iterator[tuple[str, str]]:
    threads = "" if devices.threads is None else f", torch uses {devices.threads}"
    yield "CPU cores", f"{devices.cores}{threads}"
    for number, card in enumerate(devices.cuda):
        yield f"cuda:{number}", f"{card.name}, {size(card.free)} of {size(card.memory)} free"
    if devices.mps:
        yield "mps", "available"
    if devices.error:
        yield "torch", f"cannot be used: {devices.error}"


def _models(found: Checkup) -> Iterator[tuple[str, str]]:
    hub, encoder = found.hub, found.encoder
    yield "hub", _reached(hub)
    names = ", ".join(hub.cached[:_FEW]) + (f" and {len(hub.cached) - _FEW} more" if len(hub.cached) > _FEW else "")
    yield "downloaded", names or "none"
    if encoder.path is None:
        told = f"not installed: {encoder.install}"
    else:
        told = (
            "installed, checksums match" if encoder.is_official else f"DAMAGED and will not be used: {encoder.install}"
        )
    yield "encoder bundle", told


def _reached(hub: Hub) -> str:
    if hub.offline:
        return "not checked (HF_HUB_OFFLINE is set)"
    return {None: "not checked", True: "reachable", False: "cannot be reached"}[hub.reachable]


def _doctor_place(place: Place) -> str:
    free = "" if place.free is None else f", {size(place.free)} free"
    return f"{near(place.path)}{'' if place.exists else ' (none yet)'}{free}"
