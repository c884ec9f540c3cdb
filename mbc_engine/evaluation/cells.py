"""A suite's cells: a base LM on a dataset, with its stages, its questions and the models of its methods."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from mbc_engine.config import Config
from mbc_engine.datasets.by_name import load_examples, own_validation
from mbc_engine.datasets.examples import QAExample, digest, evenly_spaced, made_up_stories
from mbc_engine.datasets.questions import hold_out
from mbc_engine.errors import DataError
from mbc_engine.evaluation.methods import METHODS, Method, MethodKind, Protocol
from mbc_engine.evaluation.protocols import Stream, stream
from mbc_engine.evaluation.results import CellFolder, ExperimentFolder
from mbc_engine.evaluation.suite import Base, Dataset, Suite
from mbc_engine.names import parse_read_mode
from mbc_engine.runs import MODEL

if TYPE_CHECKING:
    from mbc_engine.evaluation.token_weights import TokenWeights
    from mbc_engine.lm.base import BaseLM
    from mbc_engine.paper.model import MBC

_HELD_BACK: Final = 0.1


@dataclass(frozen=True)
class Stage:
    """Work whose result is stored as a whole: something is trained, a learning rate chosen, or a protocol run.

    `subject` is what is trained, or the method; `file` exists once it is done; `needs` are the earlier stages it depends
    on; `documents` is the size of the memories in scaling.
    """

    kind: Literal["prepare", "rate"] | Protocol
    subject: str
    file: Path
    needs: tuple[str, ...] = ()
    documents: int | None = None

    @property
    def name(self) -> str:
        words = (self.kind, self.subject) if self.kind == "prepare" else (self.subject, self.kind, self.documents)
        return " ".join(str(word) for word in words if word)

    @property
    def is_done(self) -> bool:
        return self.file.is_file()


def cells(suite: Suite, experiment: ExperimentFolder | None = None, **options: Any) -> "Iterator[Cell]":
    """All cells, base by base, with their folders in an experiment's and other `options` of `Cell`."""
    for base in suite.bases:
        for dataset in suite.datasets:
            folder = experiment.cell(f"{base.name}-{dataset.name}") if experiment else CellFolder(Path())
            yield Cell(base, dataset, suite, folder, **options)


@dataclass
class Cell:
    """A base LM on a dataset: its stages, its questions and the models of its methods.

    What is trained, each in a folder of its own: mbc, mbc-null, mac and mbc-unquantised; the base LMs `questions` (for
    fine-tuning and closed book) and `reader`; the KV-LoRA `text`; token weights `camels`; `reset` and `no-reset` for
    code usage. `cache` holds states of frozen encoders.
    """

    base: Base
    dataset: Dataset
    suite: Suite
    folder: CellFolder = field(default_factory=lambda: CellFolder(Path()))
    cache: Path = Path()
    device: str = "cpu"
    _loaded: dict[str, Any] = field(default_factory=dict)  # one model at a time, since they are large

    @property
    def name(self) -> str:
        return f"{self.base.name}-{self.dataset.name}"

    def stages(self) -> Iterator[Stage]:
        """All stages, each after those it needs."""
        base, train = self.base, self.dataset.train
        kinds = [METHODS[name] for name in self.suite.methods_of(base) if name in METHODS]
        trained = [need for kind in kinds for need in kind.needs if train and not (need == "mbc" and base.model)]
        asked = [stage for kind in kinds for stage in self._asked(kind, trained)]
        needed = {need for stage in asked for need in stage.needs}

        def training(name: str) -> Stage:
            needs = ("prepare questions",) if name == "camels" else ()
            return Stage("prepare", name, self.folder.prepared / name / "prepared", needs)

        yield from (training(name) for name in dict.fromkeys(trained) if f"prepare {name}" in needed)
        yield from asked
        if "code-usage" in self.suite.protocols_of(base):
            yield from map(training, ("reset", "no-reset"))
            yield Stage("code-usage", "", self.folder.file("", "code-usage"), ("prepare reset", "prepare no-reset"))

    def _asked(self, kind: MethodKind, trained: Sequence[str]) -> Iterator[Stage]:
        """The stages in which a method is asked, and its learning rate chosen."""
        protocols, stages = self.suite.protocols_of(self.base), list[Stage]()
        needs = tuple(f"prepare {need}" for need in kind.needs if need in trained)
        rate = (f"{kind.name} rate",) if kind.is_fine_tuned else ()

        def stage(protocol: Protocol, size: int | None = None) -> Stage:
            file = self.folder.file(kind.name, f"{protocol}-{size}" if size else protocol)
            return Stage(protocol, kind.name, file, (*needs, *rate), size)

        if "online" in protocols:
            stages.append(stage("online"))
        if "retention" in protocols and kind.adapts and kind.control_of is None:
            stages.append(stage("retention"))
        # Fine-tuning a base LM for each of many memories takes days.
        if "scaling" in protocols and kind.adapts and not kind.is_fine_tuned:
            # Of all documents, online adaptation tells.
            sizes = sorted({size for size in self.suite.scaling if size < self.suite.documents})
            stages += [stage("scaling", size) for size in sizes]
        if stages and rate:
            yield Stage("rate", kind.name, self.folder.file(kind.name, "rate"), needs)
        yield from stages

    def config(self, changes: Sequence[str] = ()) -> Config:
        return self.base.config([*changes, f"training.seed={self.suite.seed}"])

    def config_of(self, trained: str) -> Config:
        """The training config of a model of the paper's method."""
        return variant(self.config(self.suite.code_usage_changes if trained.endswith("reset") else ()), trained)

    @cached_property
    def test(self) -> Stream:
        return stream(load_examples(self.dataset.test), self.suite.documents, self.suite.questions)

    @cached_property
    def _train_and_validation(self) -> tuple[list[QAExample], list[QAExample]]:
        """All that there is, before a part of it is chosen."""
        train = _joined(self.dataset.train)
        source = self.dataset.validation or own_validation(self.dataset.train)
        if source or not train:
            return train, load_examples(source) if source else []
        return hold_out(train, _HELD_BACK)

    @cached_property
    def train(self) -> list[QAExample]:
        """Training examples for MBC, MAC, token weights and readers; empty without training data."""
        return evenly_spaced(self._train_and_validation[0], self.dataset.most_train)

    @cached_property
    def question_train(self) -> list[QAExample]:
        """Training examples for the base LMs of fine-tuning and closed book."""
        questions = _joined(self.dataset.questions_train) or self._train_and_validation[0]
        return evenly_spaced(questions, self.dataset.most_train)

    @cached_property
    def validation(self) -> list[QAExample]:
        held_back = self._train_and_validation[1]
        return [*stream(held_back, self.dataset.most_validation).examples] if held_back else []

    def require_same(self) -> None:
        """Raise DataError if the questions or the preset's settings differ from those that the cell's results are about,
        or if a document tested with is also learned from."""
        tested, (train, validation) = set(self.test.documents), self._train_and_validation
        for examples, use in ((train, "trained"), (self.question_train, "trained"), (validation, "validated")):
            if shared := len(tested & {example.text for example in examples}):
                raise DataError(
                    f"{shared:,} of the {len(tested):,} documents of {self.dataset.test} are also {use} on.",
                    hint="Test on documents that are not in the training or validation data.",
                )
        asked = (self.train, self.question_train, self.validation, self.test.examples)
        self.folder.require_same("questions", digest(*asked))
        if self.base.preset:  # another version may have further settings
            settings = json.dumps(self.base.config().model_dump(exclude_defaults=True))
            self.folder.require_same("settings", hashlib.sha256(settings.encode()).hexdigest()[:16])

    def method(self, name: str, rate: float | None = None) -> Method:
        """A method, ready to memorise documents, with a learning rate if it fine-tunes; its models must be trained."""
        from mbc_engine.evaluation import bank_methods
        from mbc_engine.evaluation.fine_tuning import FineTuned
        from mbc_engine.evaluation.language_models import BM25Reading, ClosedBook, OracleReading
        from mbc_engine.model import load_model

        kind, suite = METHODS[name], self.suite
        method: Method
        trained = kind.needs[0] if kind.needs else ""
        if kind.is_fine_tuned:
            options: Any = {"rate": rate or 0.0, "optimiser": self.base.optimiser, "window": suite.document_window}
            method = FineTuned(self.base_lm(trained), self.token_weights(name), **options)
        elif trained == "questions":
            method = ClosedBook(self.base_lm(trained, suite.question_training.precision))
        elif trained == "reader":
            reader = self.base_lm(trained, suite.reading_training.precision)
            method = OracleReading(reader, self.test.examples) if name == "oracle" else BM25Reading(reader)
        elif trained in ("text", ""):
            finder: Any = load_model("mini" if trained else self.base.model or "", device=self.device)
            if not trained:
                return bank_methods.RetrieveAndRead(finder)
            shuffles = name == "mbc-text-shuffled"
            method = bank_methods.TextPrefix(finder, self._with_kv_lora(), shuffles=shuffles, seed=suite.seed)
        elif name == "mbc-empty":
            return bank_methods.EmptyBank(self.memory_model(trained), read_mode=suite.read)
        else:
            model = self.memory_model(trained)
            options = {"read_mode": kind.read or suite.read, "keeps_codes": trained in ("mbc", "mbc-null")}
            if name == "mbc-shuffled-documents":
                options["corrupt"] = partial(bank_methods.shuffled_over_documents, seed=suite.seed)
            elif name == "mbc-shuffled-codes":
                book = model.require_codebook()
                options["corrupt"] = partial(bank_methods.shuffled_over_codebook, codebook=book, seed=suite.seed)
            method = bank_methods.MemoryMethod(model, **options)
        if name == "mbc-text-empty":
            return bank_methods.WrongBank(method, ())
        return bank_methods.WrongBank(method, self.other_documents(), suite.seed) if "-wrong" in name else method

    def _with_kv_lora(self) -> "BaseLM":
        """The frozen base LM with the KV-LoRA `text`."""
        from mbc_engine.paper.kv_lora import add_kv_lora, load_adapter

        base = self.base_lm(weights=self.suite.text_training.precision)
        add_kv_lora(base.model, **self.config().model.lora.model_dump())
        load_adapter(base.model, self.folder.prepared / "text")
        base.eval()
        return base

    def token_weights(self, name: str) -> "TokenWeights":
        from mbc_engine.evaluation import camels, token_weights

        if name == "camels":
            return camels.load_weights(self.folder.prepared / "camels", self.device)
        if name == "tf-idf":
            return token_weights.tf_idf({example.text for example in self.train})
        return token_weights.salient_spans() if name == "salient-spans" else token_weights.uniform

    def other_documents(self) -> list[str]:
        """Documents outside the stream: the training documents, or else the stories of `mbc demo`."""
        others = self.train or [story for story in made_up_stories() if story.text not in self.test.documents]
        return list(dict.fromkeys(example.text for example in others))

    def memory_model(self, trained: str) -> "MBC":
        from mbc_engine.model import load_model

        if trained not in self._loaded:
            self._loaded.clear()
            given = self.base.model if trained == "mbc" else None
            self._loaded[trained] = load_model(given or self.folder.prepared / trained / MODEL, device=self.device)
        model: MBC = self._loaded[trained]
        return model

    def base_lm(self, trained: str = "", weights: Literal["float32", "bf16"] = "float32") -> "BaseLM":
        """The base LM trained as `questions` or `reader`; the pretrained one without a name or training data."""
        from mbc_engine.lm.base import load_base

        path = str(self.folder.prepared / trained) if trained and self.train else self.config().model.base
        return load_base(path, weights=weights, device=self.device)

    def skip_reason(self, stage: Stage) -> str | None:
        """Why a stage would only repeat another: a read may not tell codes shuffled over documents from the real ones.

        A flat read depends only on how often each code occurs; shuffling changes neither a hierarchical read with a
        single group nor a routed read that takes the whole bank.
        """
        total = len(self.test.documents)
        if stage.documents and stage.documents >= total:
            return f"there are only {total:,} documents"
        if stage.subject != "mbc-shuffled-documents":
            return None
        model = self.config().model
        read_mode = self.suite.read or model.read
        name, number = parse_read_mode(read_mode)
        number = number or {"hierarchical": model.group_documents, "routed": model.routed_documents}.get(name)
        documents = min(stage.documents or self.suite.bank_documents or total, total)
        is_told = number is not None and documents > number  # of chunks, of which a document has one or a few
        return None if is_told else f"the {read_mode} read cannot tell it from the real bank"


def _joined(sources: Sequence[str]) -> list[QAExample]:
    return [example for source in sources for example in load_examples(source)]


def variant(config: Config, name: str) -> Config:
    """The config of MBC's relatives: mac, mbc-unquantised and no-reset; any other name is MBC.

    MAC, the paper's strongest baseline, is the same model without codes and without KV-LoRA (paper, section 4.3.2).
    """
    model, training = config.model, config.training
    if name in ("mac", "mbc-unquantised"):
        model = model.model_copy(update={"quantised": False, "confidence": None})
        training = training.model_copy(update={"quantise_from": 0.0})
    if name == "mac":
        model = model.model_copy(update={"lora": model.lora.model_copy(update={"layers": 0})})
    if name == "no-reset":  # of dead codes (paper, sections 3.3 and 4.4.4)
        training = training.model_copy(update={"reset_codes": False})
    return config.model_copy(update={"model": model, "training": training})
