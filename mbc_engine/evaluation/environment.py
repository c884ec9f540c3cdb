"""What ran an evaluation: versions, machine, seed, date. Figures without it are hard to come by again."""

import platform
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import mbc_engine
from mbc_engine.documents.encoding import storable
from mbc_engine.machine import memory, processor, usable_cores

_PACKAGES: Final = ("torch", "transformers", "peft", "tokenizers", "accelerate", "bitsandbytes", "numpy", "spacy")
_ROOT: Final = Path(mbc_engine.__file__).parents[1]


@dataclass(frozen=True)
class Environment:
    """What ran an evaluation.

    Attributes:
        mbc: this program's version.
        commit: the commit checked out where the program lies in a git work tree; it does not tell of changes since.
        python: the interpreter's version.
        packages: versions of those installed that have a say in figures and times.
        platform: operating system and architecture.
        cpu: the processor's name.
        cores: how many this process may use.
        memory: bytes of the machine's memory; None if unknown.
        threads: how many torch computes with; None where it is not in use.
        device: where models run, as torch calls it.
        gpu: the name of the GPU there, None without one.
        seed: of everything random.
        date: when it began, ISO 8601, UTC.
        command: the command line; "" if unknown.
    """

    mbc: str
    commit: str | None
    python: str
    packages: dict[str, str]
    platform: str
    cpu: str
    cores: int
    memory: int | None
    threads: int | None
    device: str
    gpu: str | None
    seed: int
    date: str
    command: str = ""


def environment(seed: int, device: str = "cpu", command: str = "") -> Environment:
    """This process's.

    Args:
        seed: of everything random.
        device: where models run. Only for another than the CPU is torch imported, if it is not yet.
        command: the command line.
    """
    torch = sys.modules.get("torch")
    return Environment(
        mbc=mbc_engine.__version__,
        commit=commit_of(_ROOT),
        python=platform.python_version(),
        packages=_versions(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=processor(),
        cores=usable_cores(),
        memory=memory(),
        threads=torch.get_num_threads() if torch else None,
        device=device,
        gpu=_gpu(device),
        seed=seed,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        command=storable(command),
    )


def commit_of(folder: Path) -> str | None:
    """The commit that is checked out in a git work tree; None where the folder is the top of none."""
    try:
        git = folder / ".git"
        if git.is_file():  # of a further work tree, or a submodule: a line says where it is
            git = folder / git.read_text().removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head
        name = head.removeprefix("ref:").strip()
        shared = git / "commondir"
        common = git / shared.read_text().strip() if shared.is_file() else git
        loose = common / name
        if loose.is_file():
            return loose.read_text().strip()
        packed = (common / "packed-refs").read_text().splitlines()
        return next((line.split()[0] for line in packed if line.endswith(f" {name}")), None)
    except (OSError, ValueError):
        return None


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _gpu(device: str) -> str | None:
    if not device.startswith("cuda"):
        return None if device == "cpu" else device
    import torch

    return torch.cuda.get_device_name(device)
