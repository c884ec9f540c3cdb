"""A model's folder: the names of its files, and where models are found. What is in the files `model/` knows."""

from importlib.resources import files
from pathlib import Path
from typing import Final

import platformdirs

from mbc_engine.errors import ModelError
from mbc_engine.runs.training_runs import MODEL

CONFIG: Final = "config.toml"
WEIGHTS: Final = "model.safetensors"
ADAPTER: Final = "adapter"
READER: Final = "reader"
# What a base LM's name begins with that lies in this package.
EMBEDDED: Final = "embedded:"


def own_models() -> Path:
    """Where the user's own models lie, as NAME, and those that were pulled, as OWNER/NAME."""
    return platformdirs.user_data_path("mbc") / "models"


def own_runs() -> Path:
    """Where the user's training runs are by default."""
    return platformdirs.user_data_path("mbc") / "runs"


def packaged_model(name: str) -> Path:
    """Where a model of this package lies, whether there is one of this name or not."""
    return Path(str(files("mbc_engine") / "models" / name))


def is_model(folder: Path) -> bool:
    """Whether a model's files lie in a folder."""
    try:
        return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()
    except OSError:  # no folder could have this name
        return False


def find_model(name: str) -> Path:
    """A model's folder, from a path, a run's folder, a model's name or a run's name. Raises ModelError."""
    places = (Path(name), Path(name) / MODEL, own_models() / name, packaged_model(name), own_runs() / name / MODEL)
    for folder in places:
        if is_model(folder):
            return folder
    raise ModelError(
        f"There is no model {name!r}.",
        hint="Give `mini`, the name of a training run, or a folder; `mbc models pull` gets what others share.",
    )
