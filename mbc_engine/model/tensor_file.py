"""Tensors in a file that is complete or not there, with notes beside them, and whether they fit; no pickle is written."""

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
    """Replace a safetensors file at once; killed in the middle, what was there before is there still.

    Raises:
        OSError, SafetensorError: it cannot be written.
    """
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)  # it may be a link, which would be written through
    try:
        save_file(dict(tensors), partial, dict(notes))
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)  # of a full disk, what was written takes up the rest


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """What must be the same of a file's tensors and of those they are put in place of."""
    return {name: value.shape for name, value in tensors.items()}
