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
    from mbc_engine.datasets.layout import QAExample
    from mbc_engine.errors import MBCError
    from mbc_engine.evaluation.calibrate import calibrate
    from mbc_engine.evaluation.protocols import evaluate
    from mbc_engine.events import Event, result_of
    from mbc_engine.ingestion.reencode import reencode
    from mbc_engine.ingestion.run import ingest, ingest_stream, watch
    from mbc_engine.lm.coding import open_bank
    from mbc_engine.load import load_model
    from mbc_engine.memory import Memory
    from mbc_engine.methods.memory_methods import EmptyBank, MemoryMethod
    from mbc_engine.methods.reading import RetrieveAndRead
    from mbc_engine.mini.model import RetrieverReader
    from mbc_engine.paper.mbc import MBC
    from mbc_engine.question import Answer, AskOptions, Confidence, Source
    from mbc_engine.training.trainer import train

__version__ = "0.1.0"

_HOMES = {
    "AskOptions": "mbc_engine.question",
    "Banks": "mbc_engine.bank",
    "Confidence": "mbc_engine.question",
    "Config": "mbc_engine.config",
    "EmptyBank": "mbc_engine.methods.memory_methods",
    "Event": "mbc_engine.events",
    "MBC": "mbc_engine.paper.mbc",
    "MBCError": "mbc_engine.errors",
    "MemoryBank": "mbc_engine.bank",
    "MemoryMethod": "mbc_engine.methods.memory_methods",
    "QAExample": "mbc_engine.datasets.layout",
    "Memory": "mbc_engine.memory",
    "Answer": "mbc_engine.question",
    "RetrieveAndRead": "mbc_engine.methods.reading",
    "RetrieverReader": "mbc_engine.mini.model",
    "Selection": "mbc_engine.bank",
    "Source": "mbc_engine.question",
    "calibrate": "mbc_engine.evaluation.calibrate",
    "evaluate": "mbc_engine.evaluation.protocols",
    "ingest": "mbc_engine.ingestion.run",
    "ingest_stream": "mbc_engine.ingestion.run",
    "load_examples": "mbc_engine.datasets.by_name",
    "load_model": "mbc_engine.load",
    "load_preset": "mbc_engine.config",
    "open_bank": "mbc_engine.lm.coding",
    "reencode": "mbc_engine.ingestion.reencode",
    "result_of": "mbc_engine.events",
    "train": "mbc_engine.training.trainer",
    "watch": "mbc_engine.ingestion.run",
}

__all__ = [
    "MBC",
    "Answer",
    "AskOptions",
    "Banks",
    "Confidence",
    "Config",
    "EmptyBank",
    "Event",
    "MBCError",
    "Memory",
    "MemoryBank",
    "MemoryMethod",
    "QAExample",
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
