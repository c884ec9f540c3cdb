"""A compressed long-term memory for language models: train, ingest, ask.

The names below are the public ones. They load on first use, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mbc_engine.bank import MemoryBank
    from mbc_engine.config import Config, load_preset
    from mbc_engine.datasets.example import QAExample
    from mbc_engine.datasets.files import load_examples
    from mbc_engine.errors import MBCError
    from mbc_engine.evaluation.calibrate import calibrate
    from mbc_engine.evaluation.online import evaluate
    from mbc_engine.model.checkpoint import load_model, open_bank
    from mbc_engine.model.mbc import MBC
    from mbc_engine.serving.ask import Recall
    from mbc_engine.serving.ingest import ingest
    from mbc_engine.serving.reencode import reencode
    from mbc_engine.serving.watch import watch
    from mbc_engine.training.trainer import train

__version__ = "0.1.0"

_HOMES = {
    "MBC": "mbc_engine.model.mbc",
    "Config": "mbc_engine.config",
    "MBCError": "mbc_engine.errors",
    "MemoryBank": "mbc_engine.bank",
    "QAExample": "mbc_engine.datasets.example",
    "Recall": "mbc_engine.serving.ask",
    "calibrate": "mbc_engine.evaluation.calibrate",
    "evaluate": "mbc_engine.evaluation.online",
    "ingest": "mbc_engine.serving.ingest",
    "load_examples": "mbc_engine.datasets.files",
    "load_model": "mbc_engine.model.checkpoint",
    "load_preset": "mbc_engine.config",
    "open_bank": "mbc_engine.model.checkpoint",
    "reencode": "mbc_engine.serving.reencode",
    "train": "mbc_engine.training.trainer",
    "watch": "mbc_engine.serving.watch",
}

__all__ = [
    "MBC",
    "Config",
    "MBCError",
    "MemoryBank",
    "QAExample",
    "Recall",
    "__version__",
    "calibrate",
    "evaluate",
    "ingest",
    "load_examples",
    "load_model",
    "load_preset",
    "open_bank",
    "reencode",
    "train",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
