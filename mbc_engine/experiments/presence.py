"""Whether the files, datasets and pretrained models that an experiment needs are here; no hub is asked."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mbc_engine.datasets.by_name import file_of, is_of_hub
from mbc_engine.model_folder import EMBEDDED, packaged_model

_WEIGHTS: Final = (
    *("model.safetensors", "model.safetensors.index.json"),
    *("pytorch_model.bin", "pytorch_model.bin.index.json"),
)


@dataclass(frozen=True)
class Thing:
    """A file, a dataset of the hub or a pretrained model that is needed.

    Attributes:
        name: which.
        is_here: whether it is.
        told: where it is, or would come from, to follow "is".
        can_be_had: whether it is here or can be had while the experiment runs.
    """

    name: str
    is_here: bool
    told: str
    can_be_had: bool


def presence_of_source(source: str, *, has_hub: bool) -> Thing:
    """A dataset: a file, generated, or of the hub."""
    path = file_of(source)
    if path is not None:
        is_here = path.exists()
        return Thing(source, is_here, "there" if is_here else "not there", can_be_had=is_here)
    if not is_of_hub(source):
        return Thing(source, True, "generated", can_be_had=True)
    return _from_hub(source, is_here=_is_cached_dataset(), has_hub=has_hub)


def presence_of_model(name: str, *, has_hub: bool) -> Thing:
    """A pretrained model: in this package, a folder, an installed bundle, or of the hub."""
    from mbc_engine.model.encoders import BUNDLES, locate

    if name.startswith(EMBEDDED):
        is_here = packaged_model(name.removeprefix(EMBEDDED)).is_dir()
        return Thing(name, is_here, "in this package" if is_here else "not in this package", can_be_had=is_here)
    if Path(name).is_dir() or (name in BUNDLES and Path(locate(name)).is_dir()):
        return Thing(name, True, "in a folder", can_be_had=True)
    return _from_hub(name, is_here=_is_cached_model(name), has_hub=has_hub)


def _from_hub(name: str, *, is_here: bool, has_hub: bool) -> Thing:
    if is_here:
        return Thing(name, True, "in the hub cache", can_be_had=True)
    told = "to be had from the hub" if has_hub else "not in the hub cache, and the hub cannot be asked from here"
    return Thing(name, False, told, can_be_had=has_hub)


def _is_cached_model(name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    try:
        return any(isinstance(try_to_load_from_cache(name, file), str) for file in _WEIGHTS)
    except ValueError:  # no name that a hub could know
        return False


def _is_cached_dataset() -> bool:
    from huggingface_hub import constants

    from mbc_engine.datasets.squad import HUB_ID

    place = Path(os.environ.get("HF_DATASETS_CACHE") or Path(constants.HF_HOME) / "datasets")
    return (place / HUB_ID.replace("/", "___")).is_dir()
