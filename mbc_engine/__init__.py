"""A compressed long-term memory for language models: train, ingest, ask.

The names below are the public ones, with the classes of `mbc_engine.events` and `mbc_engine.errors`. They load on first
use, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mbc_engine.bank import Banks, MemoryBank, Selection
    from mbc_engine.config import Config, load_preset
    from mbc_engine.datasets.by_name import load_examples
    from mbc_engine.datasets.example import QAExample
    from mbc_engine.errors import MBCError
    from mbc_engine.evaluation.calibrate import calibrate
    from mbc_engine.evaluation.online import evaluate
    from mbc_engine.events import Event, result_of
    from mbc_engine.load import load_model
    from mbc_engine.methods.compressed import Compressed
    from mbc_engine.methods.controls import EmptyBank
    from mbc_engine.methods.retrieve_and_read import RetrieveAndRead
    from mbc_engine.mini.model import RetrieverReader
    from mbc_engine.model.bank_binding import open_bank
    from mbc_engine.model.mbc import MBC
    from mbc_engine.serving.ask import Recall
    from mbc_engine.serving.ingest import ingest, ingest_stream
    from mbc_engine.serving.reencode import reencode
    from mbc_engine.serving.reply import Confidence, Reply
    from mbc_engine.serving.sources import Source
    from mbc_engine.serving.watch import watch
    from mbc_engine.training.trainer import train

__version__ = "0.1.0"

_HOMES = {
    "Banks": "mbc_engine.bank",
    "Compressed": "mbc_engine.methods.compressed",
    "Confidence": "mbc_engine.serving.reply",
    "Config": "mbc_engine.config",
    "EmptyBank": "mbc_engine.methods.controls",
    "Event": "mbc_engine.events",
    "MBC": "mbc_engine.model.mbc",
    "MBCError": "mbc_engine.errors",
    "MemoryBank": "mbc_engine.bank",
    "QAExample": "mbc_engine.datasets.example",
    "Recall": "mbc_engine.serving.ask",
    "Reply": "mbc_engine.serving.reply",
    "RetrieveAndRead": "mbc_engine.methods.retrieve_and_read",
    "RetrieverReader": "mbc_engine.mini.model",
    "Selection": "mbc_engine.bank",
    "Source": "mbc_engine.serving.sources",
    "calibrate": "mbc_engine.evaluation.calibrate",
    "evaluate": "mbc_engine.evaluation.online",
    "ingest": "mbc_engine.serving.ingest",
    "ingest_stream": "mbc_engine.serving.ingest",
    "load_examples": "mbc_engine.datasets.by_name",
    "load_model": "mbc_engine.load",
    "load_preset": "mbc_engine.config",
    "open_bank": "mbc_engine.model.bank_binding",
    "reencode": "mbc_engine.serving.reencode",
    "result_of": "mbc_engine.events",
    "train": "mbc_engine.training.trainer",
    "watch": "mbc_engine.serving.watch",
}

__all__ = [
    "MBC",
    "Banks",
    "Compressed",
    "Confidence",
    "Config",
    "EmptyBank",
    "Event",
    "MBCError",
    "MemoryBank",
    "QAExample",
    "Recall",
    "Reply",
    "RetrieveAndRead",
    "RetrieverReader",
    "Selection",
    "Source",
    "__version__",
    "calibrate",
    "evaluate",
    "ingest",
    "ingest_stream",
    "load_examples",
    "load_model",
    "load_preset",
    "open_bank",
    "reencode",
    "result_of",
    "train",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
