"""What the methods of a cell are made from: its questions, what was prepared for it, and models, loaded when needed."""

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from mbc_engine.config import Config, parse_read_mode
from mbc_engine.datasets import newswire
from mbc_engine.errors import ModelError
from mbc_engine.experiments.cells import Cell, CellData, ExperimentSettings, read_data, without_reset
from mbc_engine.lm.base import BaseLM, load_base
from mbc_engine.load import load_model
from mbc_engine.methods.fine_tuned import Optimiser
from mbc_engine.methods.memory_methods import indistinguishable_up_to
from mbc_engine.mini.model import RetrieverReader
from mbc_engine.paper import checkpoint
from mbc_engine.paper.mbc import MBC
from mbc_engine.runs.training_runs import MODEL


class Materials:
    """The materials of a cell.

    Args:
        cell: which.
        settings: of the experiment.
        folder: where what is prepared lies, each in a folder of its name.
        cache: where states of frozen encoders are kept.
        device: where models run.

    Attributes:
        rates: the learning rates of fine-tuning methods, once they are chosen.
    """

    def __init__(self, cell: Cell, settings: ExperimentSettings, folder: Path, cache: Path, device: str) -> None:
        self.cell, self.settings, self.cache, self.device = cell, settings, cache, device
        self._folder = folder
        self.rates: dict[str, float] = {}
        # Models are large: of those with a memory, one at a time is held.
        self._held: dict[str, MBC] = {}

    @property
    def seed(self) -> int:
        """The experiment's."""
        return self.settings.seed

    @property
    def optimiser(self) -> Optimiser:
        """What fine-tunes the base LM."""
        return self.cell.base.optimiser

    @property
    def read_mode(self) -> str | None:
        """How banks are read; None is the model's own way."""
        return self.settings.read

    @cached_property
    def data(self) -> CellData:
        """The cell's questions.

        Raises:
            DataError: a dataset cannot be used.
        """
        return read_data(self.cell, self.settings)

    @cached_property
    def config(self) -> Config:
        """What MBC is trained by here, or was.

        Raises:
            ConfigError: it cannot be used.
            ModelError: there is no such model.
        """
        return self.cell.config(self._seeded if self.cell.base.model is None else [])

    def usage_config(self, *, resets: bool) -> Config:
        """What MBC is trained by to see its codes' usage, with dead codes reset or not."""
        config = self.cell.config([*self.settings.code_usage_changes, *self._seeded])
        return config if resets else without_reset(config)

    def prepared(self, name: str) -> Path:
        """The folder of something prepared."""
        return self._folder / name

    def memory_model(self, name: str) -> MBC:
        """A trained MBC or MAC."""
        if name not in self._held:
            self._held.clear()
            given = self.cell.base.model if name == "mbc" else None
            self._held[name] = checkpoint.load_model(given or self.prepared(name) / MODEL, device=self.device)
        return self._held[name]

    def retriever_reader(self) -> RetrieverReader:
        """The cell's retriever-reader.

        Raises:
            ModelError: there is no such model, or it is none.
        """
        model = load_model(self.cell.base.model or "", device=self.device)
        if not isinstance(model, RetrieverReader):
            raise ModelError(f"{model.name} is not a retriever-reader.", hint="Give one such as mini.")
        return model

    def plain_base(self) -> BaseLM:
        """The base LM as it was published, in full precision, which training it takes."""
        return load_base(self.config.model.base, device=self.device)

    def base(self, name: str) -> BaseLM:
        """A base LM trained on questions; the plain one where there is nothing to train on."""
        return load_base(str(self.prepared(name)), device=self.device) if self.data.train else self.plain_base()

    def why_not(self, method: str) -> str | None:
        """Why there is no sense in asking a method here; None if there is, and for what is no method."""
        if self.cell.is_of_retriever_reader:
            return None
        read_mode, model = self.read_mode or self.config.model.read, self.config.model
        read = parse_read_mode(read_mode)
        if read.number is None:
            own = {"hierarchical": model.group_documents, "routed": model.routed_documents}
            read = read._replace(number=own.get(read.name))
        alike = indistinguishable_up_to(method, read)
        if alike == math.inf or (alike > 0 and self._largest_bank() <= alike):
            return f"the {read_mode} read cannot tell it from the real bank"
        return None

    def other_documents(self) -> list[str]:
        """Documents that are not of the stream: those trained on, or generated news."""
        return self.data.training_documents or _news_but(self.data.test.documents)

    def document_of_questions(self) -> dict[str, str]:
        """The document of each question of the stream; of a question asked of several documents, the first."""
        found: dict[str, str] = {}
        for example in self.data.test.examples:
            found.setdefault(example.question, example.text)
        return found

    def _largest_bank(self) -> int:
        """The most chunks that one of MBC's banks of the stream holds."""
        chunker, documents = self.memory_model("mbc").documents.chunker, self.data.test.documents
        chunks = [len(chunker(text)) for text in documents]
        size = min(self.settings.bank_documents or len(documents), len(documents))
        return max(sum(chunks[start : start + size]) for start in range(0, len(chunks) - size + 1, size))

    @property
    def _seeded(self) -> list[str]:
        return [f"training.seed={self.seed}"]


def _news_but(known: Sequence[str]) -> list[str]:
    """As many generated stories, of the first split whose stories are not these."""
    found: list[str] = []
    for split in ("validation", "train"):
        texts = (example.text for example in newswire.examples(newswire.stories(split, len(known))))
        found = list(dict.fromkeys(texts))
        if set(found).isdisjoint(known):
            break
    return found
