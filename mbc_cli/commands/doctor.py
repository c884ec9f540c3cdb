"""`mbc doctor`: what is installed, the hardware, where files are, and which features work on this machine."""

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from mbc_cli.command_line import config_error
from mbc_cli.config import config_path
from mbc_cli.formatting import display_path, format_size, sanitise
from mbc_cli.loading import hub_is_reachable, loading
from mbc_cli.options import BankOption, JsonOption, ModelOption, RunsOption, option
from mbc_cli.render.terminal import out, print_json
from mbc_engine import __version__
from mbc_engine.errors import ConfigError, MBCError, ModelError
from mbc_engine.machine import has_integer_products, installed_version, installing, usable_cores
from mbc_engine.names import CONFIG, find_model

_PACKAGES: Final = (
    *("torch", "transformers", "tokenizers", "peft", "safetensors", "numpy"),
    *("typer", "rich", "textual", "textual-serve", "bitsandbytes"),
)
_SHOWN_MODELS: Final = 6

Report = dict[str, Any]


def doctor(
    ctx: typer.Context,
    *,
    bank: BankOption,
    model: ModelOption,
    runs: RunsOption,
    offline: Annotated[bool, option("Do not check whether the hub can be reached.", "--offline")] = False,
    json: JsonOption = False,
) -> None:
    """Show what is installed, available hardware, file locations and which features work.

    The exit code is 4 if --model cannot be used here.

    Examples:
      mbc doctor
      mbc doctor --offline --json
    """
    with loading("torch"):
        report = check(bank, runs, model, asks_hub=not offline)
    error = config_error(ctx)
    report["config_error"] = error.message if error else None
    if json:
        print_json(report)
    else:
        _show(report)
    if not all(ability["works"] for ability in report["abilities"] if ability["name"] in ("ingest", "ask")):
        raise typer.Exit(ModelError.exit_code)


def check(bank: Path, runs: Path, model: str, *, asks_hub: bool) -> Report:
    """What `mbc doctor --json` prints: sizes in bytes, None for anything unknown or missing."""
    from huggingface_hub import constants

    from mbc_engine.lm import packaged

    cached = (path.name.removeprefix("models--") for path in Path(constants.HF_HUB_CACHE).glob("models--*"))
    hub = {
        "offline": constants.HF_HUB_OFFLINE,
        "reachable": hub_is_reachable() if asks_hub else None,
        "cache": constants.HF_HUB_CACHE,
        "cached": sorted(name.replace("--", "/") for name in cached),
    }
    devices, encoder, language_model = _devices(), packaged.minilm_folder(), packaged.locate_language_model()
    places = {"bank": bank, "runs": runs, "cache": Path(constants.HF_HUB_CACHE), "config": config_path()}
    return {
        "versions": {
            "mbc": __version__,
            "python": platform.python_version(),
            **{p: installed_version(p) for p in _PACKAGES},
        },
        "devices": devices,
        "hub": hub,
        "encoder": {
            "name": packaged.MINILM,
            "path": encoder and str(encoder),
            "is_official": encoder is not None and packaged.unofficial_file(encoder) is None,
            "install": packaged.install_hint(packaged.MINILM),
        },
        "language_model": {
            "name": packaged.LANGUAGE_MODEL,
            "path": language_model and str(language_model),
            "is_unpacked": language_model is not None and language_model.is_dir(),
            "install": packaged.INSTALL_LANGUAGE_MODEL,
        },
        "reader_encoder": {
            "name": packaged.MPNET,
            "is_installed": packaged.is_mpnet_installed(),
            "install": packaged.INSTALL_MPNET,
        },
        "damaged_caches": list(map(str, packaged.damaged_caches())),
        "places": {name: _place(path) for name, path in places.items()},
        "abilities": [
            {"name": name, "works": works, "detail": detail} for name, works, detail in _abilities(devices, hub, model)
        ],
    }


def _devices() -> Report:
    devices: Report = {"cores": usable_cores(), "threads": None, "cuda": [], "mps": False, "error": None}
    try:
        import torch

        devices |= {"threads": torch.get_num_threads(), "mps": torch.backends.mps.is_available()}
        for number in range(torch.cuda.device_count()):
            free, memory = torch.cuda.mem_get_info(number)
            devices["cuda"].append({"name": torch.cuda.get_device_name(number), "memory": memory, "free": free})
    except (ImportError, OSError, RuntimeError) as error:
        devices["error"] = str(error).partition("\n")[0]
    return devices


def _place(path: Path) -> Report:
    # Path.exists() raises below a folder without search permission.
    nearest = next((folder for folder in (path, *path.absolute().parents) if os.path.exists(folder)), None)
    free = None
    with suppress(OSError):
        free = shutil.disk_usage(nearest).free if nearest else None
    return {"path": str(path.absolute()), "exists": nearest == path, "free": free}


def _abilities(devices: Report, hub: Report, model: str) -> Iterator[tuple[str, bool, str]]:
    broken = f"torch cannot be used: {devices['error']}" if devices["error"] else None
    problem, cards = _missing(model, hub, broken), [card["name"] for card in devices["cuda"]]
    for name in ("ingest", "ask"):
        yield name, problem is None, problem or f"with the model {model}"
    problem = broken or problem
    untrained = [package for package in ("accelerate", "peft") if installed_version(package) is None]
    missing = problem or (f"pip install {' '.join(untrained)}" if untrained else None)
    yield "train", missing is None, missing or ("on a GPU" if cards else "on the CPU: small models only")
    gpus = ", ".join(cards) or ("mps" if devices["mps"] else "")
    none = "torch finds none: no driver, or a CPU-only build of torch"
    yield "GPU", not broken and bool(gpus), broken or gpus or none
    yield "8 bits", *_eight_bits()
    from mbc_engine.lm.chat import local_models

    names, lacking = local_models(), "" if installed_version("openai") else f"; {installing('llm')}"
    yield "llm", bool(names) and not lacking, (", ".join(names) or "no server such as Ollama runs here") + lacking
    for name, package in (("4-bit", "bitsandbytes"), ("tui", "textual"), ("web", "textual-serve")):
        installed = installed_version(package)
        yield name, installed is not None, f"{package} {installed}" if installed else f"pip install {package}"


def _eight_bits() -> tuple[bool, str]:
    """Whether `mini` computes in 8 bits here, and what that needs."""
    try:
        if not has_integer_products():
            return False, "mini computes in float32: no VNNI in this processor, or MBC_PRECISION=float32 is set"
    except ConfigError as error:
        return False, f"{error.message} {error.hint}"
    missing = [package for package in ("onnx", "onnxruntime") if installed_version(package) is None]
    return not missing, f"pip install {' '.join(missing)}" if missing else "mini answers faster"


def _missing(model: str, hub: Report, broken: str | None) -> str | None:
    """What a model lacks on this machine, and how to get it; None if nothing. `broken` says why torch cannot be used."""
    from mbc_engine.config import read_model_config
    from mbc_engine.lm.packaged import install_hint, is_local

    try:
        settings = read_model_config(find_model(model) / CONFIG).settings
        if settings.base and broken:  # mini needs no torch to answer
            return broken
        for name in sorted(filter(None, {settings.base, *settings.encoders.values()})):
            if not (is_local(name) or name in hub["cached"] or hub["reachable"]):
                bundle = f"{install}, or " if (install := install_hint(name)) else ""
                return f"{bundle}connect to the hub once to download {name}"
    except MBCError as error:
        return f"{error.message} {error.hint or ''}".rstrip()
    except OSError as error:
        return str(error)
    return None


def _show(report: Report) -> None:
    devices, hub, cached = report["devices"], report["hub"], report["hub"]["cached"]
    _section("Installed", {name: installed or "not installed" for name, installed in report["versions"].items()})
    threads = "" if devices["threads"] is None else f", torch uses {devices['threads']}"
    hardware = {"CPU cores": f"{devices['cores']}{threads}"}
    for number, card in enumerate(devices["cuda"]):
        free = f"{format_size(card['free'])} of {format_size(card['memory'])} free"
        hardware[f"cuda:{number}"] = f"{card['name']}, {free}"
    hardware |= {"mps": "available"} if devices["mps"] else {}
    hardware |= {"torch": f"cannot be used: {devices['error']}"} if devices["error"] else {}
    _section("Hardware", hardware)
    reached = {None: "not checked", True: "reachable", False: "cannot be reached"}[hub["reachable"]]
    rest = f" and {len(cached) - _SHOWN_MODELS} more" if len(cached) > _SHOWN_MODELS else ""
    encoder, large, language_model = report["encoder"], report["reader_encoder"], report["language_model"]
    bundle = "installed, checksums match" if encoder["is_official"] else f"DAMAGED, not used: {encoder['install']}"
    unpacked = "installed, unpacked" if language_model["is_unpacked"] else "installed, unpacked on first use"
    models = {
        "hub": "not checked (HF_HUB_OFFLINE is set)" if hub["offline"] else reached,
        "downloaded": ", ".join(cached[:_SHOWN_MODELS]) + rest or "none",
        "encoder bundle": bundle if encoder["path"] else f"not installed: {encoder['install']}",
        "large reader": "installed" if large["is_installed"] else f"missing: {large['install']}",
        "language model": unpacked if language_model["path"] else f"not installed: {language_model['install']}",
    }
    if damaged := ", ".join(map(display_path, report["damaged_caches"])):
        models["unpacked"] = f"DAMAGED, delete it to have it made again: {damaged}"
    _section("Pretrained models", models)
    files = {}
    for name, place in report["places"].items():
        free = "" if place["free"] is None else f", {format_size(place['free'])} free"
        files[name] = f"{display_path(place['path'])}{'' if place['exists'] else ' (none yet)'}{free}"
    _section("Files", files)
    if report["config_error"]:
        out.print(Text(f"  {sanitise(report['config_error'])}", "red"))
    abilities = {}
    for ability in report["abilities"]:
        works = Text("yes  ", "green") if ability["works"] else Text("no   ", "yellow")
        abilities[ability["name"]] = works.append(sanitise(ability["detail"]), "none")
    _section("What works here", abilities)


def _section(title: str, facts: dict[str, Any]) -> None:
    out.print(Text(title, "bold"))
    for label, value in facts.items():
        out.print(Text.assemble((f"  {label:<14}  ", "dim"), value if isinstance(value, Text) else sanitise(value)))
