"""A compressed long-term memory for language models: train, ingest, ask.

The names below are the public ones, with the classes of `mbc_engine.events` and `mbc_engine.errors`. They load on first
use, so importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mbc_engine.answer import Answer, AskOptions, Confidence, Source
    from mbc_engine.bank import Banks, MemoryBank, Selection
    from mbc_engine.config import Config, load_preset
    from mbc_engine.datasets.by_name import load_examples
    from mbc_engine.datasets.examples import QAExample
    from mbc_engine.errors import MBCError
    from mbc_engine.evaluation.bank_methods import EmptyBank, MemoryMethod, RetrieveAndRead
    from mbc_engine.evaluation.protocols import evaluate
    from mbc_engine.events import Event, run_to_completion
    from mbc_engine.ingestion.ingest import ingest, ingest_stream, watch
    from mbc_engine.ingestion.reencode import reencode
    from mbc_engine.memory import Conversation, Memory
    from mbc_engine.mini.model import RetrieverReader
    from mbc_engine.model import load_model, open_bank
    from mbc_engine.paper.calibration import calibrate
    from mbc_engine.paper.model import MBC
    from mbc_engine.training.trainer import train

__version__ = "0.1.0"

_MODULES = {
    "answer": ("Answer", "AskOptions", "Confidence", "Source"),
    "bank": ("Banks", "MemoryBank", "Selection"),
    "config": ("Config", "load_preset"),
    "datasets.by_name": ("load_examples",),
    "datasets.examples": ("QAExample",),
    "errors": ("MBCError",),
    "evaluation.bank_methods": ("EmptyBank", "MemoryMethod", "RetrieveAndRead"),
    "paper.calibration": ("calibrate",),
    "evaluation.protocols": ("evaluate",),
    "events": ("Event", "run_to_completion"),
    "ingestion.reencode": ("reencode",),
    "ingestion.ingest": ("ingest", "ingest_stream", "watch"),
    "memory": ("Conversation", "Memory"),
    "model": ("load_model", "open_bank"),
    "mini.model": ("RetrieverReader",),
    "paper.model": ("MBC",),
    "training.trainer": ("train",),
}
_HOMES = {name: f"mbc_engine.{module}" for module, names in _MODULES.items() for name in names}

__all__ = [
    "MBC",
    "Answer",
    "AskOptions",
    "Banks",
    "Confidence",
    "Config",
    "Conversation",
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
    "run_to_completion",
    "train",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
