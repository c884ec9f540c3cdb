"""What `mbc doctor` found, for a terminal of 80 columns."""

from collections.abc import Iterator

from rich.text import Text

from mbc_cli.checkup import Checkup, Devices, Place
from mbc_cli.hub import Hub
from mbc_cli.render.consoles import out
from mbc_cli.text import near, plain, size

_FEW = 6


def show_checkup(found: Checkup, config_error: str | None) -> None:
    """Versions, devices, hub and places, what is wrong with the config file, and then what works."""
    _section("Installed", ((name, version or "not installed") for name, version in found.versions.items()))
    _section("Hardware", _devices(found.devices))
    _section("Pretrained models", _models(found))
    _section("Files", ((name, _place(place)) for name, place in found.places.items()))
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


def _devices(devices: Devices) -> Iterator[tuple[str, str]]:
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


def _place(place: Place) -> str:
    free = "" if place.free is None else f", {size(place.free)} free"
    return f"{near(place.path)}{'' if place.exists else ' (none yet)'}{free}"
