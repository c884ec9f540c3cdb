"""Loading models of either kind: the paper's method (`paper/`), or a retriever-reader such as `mini`."""

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import torch

from mbc_engine.config import RetrieverReaderConfig, read_model_config
from mbc_engine.mini.model import RetrieverReader, load
from mbc_engine.names import CONFIG, find_model

if TYPE_CHECKING:
    from mbc_engine.paper.mbc import MBC

Model: TypeAlias = "MBC | RetrieverReader"


def load_model(name: str | Path, *, device: str | torch.device = "cpu", reader: str | None = None) -> Model:
    """Load a model, ready to ingest documents and answer questions.

    Args:
        name: a model's folder, a run's folder, or the name of a model.
        device: where it runs; pretrained weights are loaded directly onto it.
        reader: which reader of a retriever-reader; None for the best one that is installed.

    Raises:
        ModelError: it is missing or damaged, or a pretrained part is missing or does not fit the device's memory.
        ModelMismatch: its adapter belongs to another base LM.
        ConfigError: a retriever-reader has no such reader.
    """
    folder = find_model(str(name))
    config = read_model_config(folder / CONFIG)
    if isinstance(config, RetrieverReaderConfig):
        model = load(config, folder, device=device, reader=reader)
        model.name = name if isinstance(name, str) else folder.name
        return model
    from mbc_engine.paper import checkpoint  # imports transformers and peft, which takes seconds

    return checkpoint.load_model(name, device=device)
