"""Saves the measurements of docs/performance.md step by step, with their machine, versions and date."""

import importlib.metadata
import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from mbc_engine.machine import memory, processor

PACKAGES: Final = ("torch", "numpy", "transformers", "tokenizers", "peft", "accelerate", "bm25s", "matplotlib")

Result = Any


def conditions() -> dict[str, Any]:
    """Machine, versions, date and load of a measurement."""
    return {
        "machine": machine(),
        "versions": versions(),
        "date": datetime.now(UTC).date().isoformat(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def machine() -> str:
    """A description of the machine."""
    size = memory()
    held = "" if size is None else f", {size / 2**30:.0f} GiB of memory"
    return f"{processor()}, {os.cpu_count()} cores{held}{graphics()}, {platform.system()} {platform.machine()}"


def graphics() -> str:
    """The GPU, if there is one."""
    import torch

    return f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""


def versions() -> str:
    """Versions of Python and the relevant packages."""
    found = [f"Python {platform.python_version()}"]
    for package in ("mbc", *PACKAGES):
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


class SavedResults:
    """The results of a section, saved to a file after each step."""

    def __init__(self, folder: Path, section: str) -> None:
        self._path = folder / f"{section}.json"
        self.steps: dict[str, dict[str, Any]] = json.loads(self._path.read_text()) if self._path.exists() else {}

    @property
    def results(self) -> dict[str, Result]:
        """Results by step."""
        return {name: step["result"] for name, step in self.steps.items()}

    def save(self, step: str, result: Result, seconds: float, environment: dict[str, Any]) -> None:
        """Add a step."""
        self.steps[step] = environment | {"seconds": seconds, "result": result}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_suffix(".part")
        unfinished.write_text(json.dumps(self.steps, indent=1))
        unfinished.replace(self._path)
