"""Model, the interface of every kind of model; loading one by its name, and opening its banks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence, Sized
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mbc_engine.answer import AskOptions, Confidence
from mbc_engine.bank import BankHeader, CodeMap, CodeShape, MemoryBank, ModelSignature, ReadableBank, Selection
from mbc_engine.config import Config, RetrieverReaderConfig, read_model_config
from mbc_engine.lm.chat import OnToken
from mbc_engine.names import CONFIG, find_model
from mbc_engine.ranking import Hit
from mbc_engine.sources import Passages
from mbc_engine.text.chunks import Chunker

# The modules that load a model, by the class of its config. They import much that the other kind does not need.
_LOADERS: Final = {RetrieverReaderConfig: "mbc_engine.mini.model", Config: "mbc_engine.paper.checkpoint"}


class DraftItem(NamedTuple):
    """A part of an answer, the chunk that it was found in, and its sentence there."""

    text: str
    hit: Hit
    sentence: str


@dataclass(frozen=True)
class Draft:
    """An answer before its sources are looked up.

    Attributes:
        documents: to be named, best first, each by its best chunk.
        sentences: those that were read, by chunk.
    """

    text: str | None
    confidence: Confidence | None
    documents: list[Hit]
    sentences: dict[int, str]
    gain: float | None = None
    codes: CodeMap | None = None
    tentative: bool = False
    items: Sequence[DraftItem] = ()
    withheld: bool = False


class Model(ABC):
    """Encodes chunks as codes, searches a bank of them, and answers: a retriever-reader, or the paper's method.

    Attributes:
        name: what it was opened by.
        folder: where its files are; None if it was not opened from files.
        keeps_text: whether its banks keep the text of chunks by default.
        is_english_only: whether questions in other languages deserve a note.
        on_problem: called with what does not work as it should, though answers are given.
    """

    name = "unnamed"
    folder: Path | None = None
    keeps_text: ClassVar[bool]
    is_english_only: ClassVar[bool] = False
    on_problem: Callable[[str], object] = staticmethod(lambda _problem: None)

    @property
    @abstractmethod
    def device(self) -> str:
        """Where it runs, as torch names it."""

    @property
    @abstractmethod
    def code_shape(self) -> CodeShape:
        """The shape of a chunk's codes. Like `codebooks`, raises ModelError if the model makes none."""

    @property
    @abstractmethod
    def codebooks(self) -> NDArray[np.float32]:
        """The vectors that codes stand for, [levels, positions, num_codes, dim]."""

    @property
    @abstractmethod
    def chunker(self) -> Chunker:
        """Cuts documents into chunks that fit the window."""

    @abstractmethod
    def memorise_stepwise(
        self, texts: Sequence[str], contexts: Sequence[str] = ()
    ) -> Generator[tuple[Sequence[int], NDArray[np.uint16]], None, None]:
        """`memorise` in steps: yields the indices of a few texts and their codes; close it to skip the rest."""

    @abstractmethod
    def fingerprints(self) -> tuple[str, str]:
        """SHA-256 prefixes of all that codes depend on, and of the codebooks; a bank is bound to both."""

    @abstractmethod
    def check(self, options: AskOptions) -> None:
        """Raise ConfigError if it cannot be asked with these options."""

    @abstractmethod
    def can_stream(self, options: AskOptions) -> bool:
        """Whether its answers become final piece by piece, and cannot be withheld once begun."""

    @abstractmethod
    def scope(self, bank: ReadableBank, selection: Selection | None = None) -> Sized:
        """The part of a bank to search, in a snapshot of it; its length is in chunks. Valid until the bank changes."""

    @abstractmethod
    def search(self, questions: Sequence[str], scope: Any, *, top: int = 5, read_mode: str | None = None) -> Any:
        """What was found for questions in a `scope`, of a type that only this kind of model reads further.

        Its `chunks` are at least the `top` best for each question, best first.
        """

    def ranked(self, queries: Sequence[str], found: Any, passages: Passages) -> list[list[Hit]]:
        """What `search` found, in an order that also counts what is looked up in passages."""
        chunks: list[list[Hit]] = found.chunks
        return chunks

    @abstractmethod
    def answer(
        self, questions: Sequence[str], found: Any, options: AskOptions, passages: Passages, *, on_token: OnToken = None
    ) -> list[Draft]:
        """Answer questions from what `search` found for them, in the same snapshot.

        Args:
            passages: looks up the text of chunks.
            on_token: gets a generated answer in pieces.
        """

    @property
    def context_tokens(self) -> int:
        """The most tokens of a chunk's context; 0 if it is encoded without."""
        return 0

    @property
    def read_modes(self) -> tuple[str, ...]:
        """The ways to read a bank that it offers; empty if there is only one."""
        return ()

    def memorise(self, texts: Sequence[str], contexts: Sequence[str] = ()) -> NDArray[np.uint16]:
        """Codes of texts that fit the window: [N, T, levels] (paper, algorithm 2, lines 2 to 5).

        `contexts` are empty, or one for each text. On a CPU, codes depend only on the text and its context.
        """
        shape = self.code_shape
        codes = np.zeros((len(texts), shape.tokens, shape.levels), np.uint16)
        for indices, batch in self.memorise_stepwise(texts, contexts):
            codes[indices] = batch
        return codes


def load_model(name: str | Path, *, device: str | None = "cpu", reader: str | None = None) -> Model:
    """Load a model, ready to ingest documents and answer questions.

    Args:
        name: a model's folder, a run's folder, or the name of a model.
        device: where it runs; pretrained weights are loaded directly onto it. None is the default of its kind: a GPU,
            if there is one, for the paper's method, the CPU for a retriever-reader.
        reader: which reader of a retriever-reader; None for the best one that is installed.

    Raises:
        ModelError: it is missing or damaged, or a pretrained part is missing or does not fit the device's memory.
        ModelMismatch: its adapter belongs to another base LM.
        ConfigError: a retriever-reader has no such reader.
    """
    folder = find_model(str(name))
    config = read_model_config(folder / CONFIG)
    loader = import_module(_LOADERS[type(config)])
    model: Model = loader.load(config, folder, device=device, reader=reader)
    model.name, model.folder = name if isinstance(name, str) else folder.name, folder
    return model


def signature(model: Model) -> ModelSignature:
    """What a bank records about the model that wrote it. Raises ModelError if the model makes no codes."""
    return ModelSignature(model.name, *model.fingerprints())


def open_bank(model: Model, path: Path, *, keeps_origins: bool = True, keeps_text: bool | None = None) -> MemoryBank:
    """Open the bank at `path` for this model to write to, creating it if necessary.

    A new bank without origins identifies documents only by a short content hash. `keeps_text` says whether a new bank
    keeps the exact text of every chunk; None is the model's default. Raises ModelMismatch if another model wrote it,
    ModelError if the model makes no codes, BankError if it cannot be opened or created.
    """
    text = model.keeps_text if keeps_text is None else keeps_text
    dim, context = model.codebooks.shape[-1], model.context_tokens
    header = BankHeader(signature(model), model.code_shape, dim, keeps_origins, text, context)
    return MemoryBank.open(path, create=header)
