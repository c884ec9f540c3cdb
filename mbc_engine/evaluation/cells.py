"""A suite's cells: a base LM on a dataset, with its stages, its questions and the models of its methods."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from mbc_engine.config import Config, load_preset, read_paper_config
from mbc_engine.datasets.by_name import load_examples, own_validation
from mbc_engine.datasets.layout import QAExample, evenly_spaced, made_up_stories
from mbc_engine.datasets.questions import hold_out
from mbc_engine.errors import DataError
from mbc_engine.evaluation.methods import METHODS, MethodKind, Protocol
from mbc_engine.evaluation.protocols import Stream, stream
from mbc_engine.evaluation.results import CellFolder, ExperimentFolder
from mbc_engine.evaluation.suite import Base, Dataset, Suite
from mbc_engine.names import CONFIG, find_model, parse_read_mode
from mbc_engine.runs import MODEL

if TYPE_CHECKING:
    from mbc_engine.evaluation.methods import Method
    from mbc_engine.evaluation.token_weights import TokenWeights
    from mbc_engine.lm.base import BaseLM
    from mbc_engine.paper.mbc import MBC

_HELD_BACK: Final = 0.1


@dataclass(frozen=True)
class Stage:
    """Work whose result is stored as a whole: something is trained, a learning rate chosen, or a protocol run.

    `subject` is what is trained, or the method; `needs` are the earlier stages it depends on; `documents` is the size of
    the memories in scaling.
    """

    kind: Literal["prepare", "rate"] | Protocol
    subject: str
    needs: tuple[str, ...] = ()
    documents: int | None = None

    @property
    def name(self) -> str:
        if self.kind == "prepare":
            return f"prepare {self.subject}"
        return " ".join(map(str, filter(None, (self.subject, self.kind, self.documents))))

    @property
    def result(self) -> str:
        """The kind of its result file."""
        return f"{self.kind}-{self.documents}" if self.documents else self.kind


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
    fine-tuning and closed book) and `reader`; the KV-LoRA `text`; token weights `camels`; `reset` and `no-reset` for code usage. `cache`
    holds states of frozen encoders.
    """

    base: Base
    dataset: Dataset
    suite: Suite
    folder: CellFolder = field(default_factory=lambda: CellFolder(Path()))
    cache: Path = Path()
    device: str = "cpu"
    _loaded: dict[str, "MBC"] = field(default_factory=dict)  # one model at a time, since they are large

    @property
    def name(self) -> str:
        return f"{self.base.name}-{self.dataset.name}"

    def stages(self) -> Iterator[Stage]:
        """All stages, each after those it needs."""
        kinds = [METHODS[name] for name in self.suite.methods_of(self.base) if name in METHODS]
        protocols = self.suite.protocols_of(self.base)
        needed = dict.fromkeys(need for kind in kinds for need in kind.needs)
        trained = [need for need in needed if self.dataset.train and not (need == "mbc" and self.base.model)]
        for need in trained:
            yield Stage("prepare", need, ("prepare questions",) if need == "camels" else ())
        for kind in kinds:
            needs = tuple(f"prepare {need}" for need in kind.needs if need in trained)
            if kind.is_fine_tuned:
                yield Stage("rate", kind.name, needs)
                needs = (*needs, f"{kind.name} rate")
            # Scaling means little without its controls, and fine-tuning a base LM for each of many memories takes days.
            applies = {
                "online": True,
                "scaling": kind.adapts and not kind.is_fine_tuned,
                "retention": kind.adapts and kind.control_of is None,
            }
            for protocol in (one for one in protocols if applies.get(one)):
                # Of all documents, online adaptation tells.
                sizes = sorted({size for size in self.suite.scaling if size < self.suite.documents})
                for size in sizes if protocol == "scaling" else [None]:
                    yield Stage(protocol, kind.name, needs, size)
        if "code-usage" in protocols:
            yield Stage("prepare", "reset")
            yield Stage("prepare", "no-reset")
            yield Stage("code-usage", "", ("prepare reset", "prepare no-reset"))

    def is_done(self, stage: Stage) -> bool:
        is_prepared, subject = stage.kind == "prepare", stage.subject
        return self.folder.is_prepared(subject) if is_prepared else self.folder.has(subject, stage.result)

    def config(self, changes: Sequence[str] = ()) -> Config:
        base, changes = self.base, [*changes, f"training.seed={self.suite.seed}"]
        if base.model is None:
            return load_preset(base.preset or "", [*base.changes, *changes])
        return read_paper_config(find_model(base.model) / CONFIG, changes)

    def config_of(self, trained: str) -> Config:
        """The training config of a model of the paper's method."""
        return variant(self.config(self.suite.code_usage_changes if trained.endswith("reset") else ()), trained)

    @cached_property
    def test(self) -> Stream:
        return stream(load_examples(self.dataset.test), self.suite.documents, self.suite.questions)

    @cached_property
    def train(self) -> list[QAExample]:
        """Training examples for MBC, MAC, token weights and readers; empty without training data."""
        return evenly_spaced(self._train_and_validation[0], self.dataset.most_train)

    @cached_property
    def question_train(self) -> list[QAExample]:
        examples = _joined(self.dataset.questions_train) or self._train_and_validation[0]
        return evenly_spaced(examples, self.dataset.most_train)

    @cached_property
    def validation(self) -> list[QAExample]:
        examples = self._train_and_validation[1]
        return [*stream(examples, self.dataset.most_validation).examples] if examples else []

    @cached_property
    def _train_and_validation(self) -> tuple[list[QAExample], list[QAExample]]:
        train = _joined(self.dataset.train)
        source = self.dataset.validation or own_validation(self.dataset.train)
        if source or not train:
            return train, load_examples(source) if source else []
        return hold_out(train, _HELD_BACK)

    def require_same_questions(self) -> None:
        """Raise DataError if the questions differ from those that the cell's results are about, or if a document tested
        with is also learned from."""
        tested, (train, validation) = set(self.test.documents), self._train_and_validation
        for examples, use in ((train, "trained"), (self.question_train, "trained"), (validation, "validated")):
            if shared := len(tested & {example.text for example in examples}):
                raise DataError(
                    f"{shared:,} of the {len(tested):,} documents of {self.dataset.test} are also {use} on.",
                    hint="Test on documents that are not in the training or validation data.",
                )
        digest = hashlib.sha256()
        for asked in (self.train, self.question_train, self.validation, self.test.examples):
            for example in asked:
                digest.update(json.dumps([example.id, example.text, example.question, example.answers]).encode())
            digest.update(b"\n")
        self.folder.require_same_questions(digest.hexdigest()[:16])

    def method(self, name: str, rate: float | None = None) -> "Method":
        """A method, ready to memorise documents, with a learning rate if it fine-tunes; its models must be trained."""
        from mbc_engine.evaluation import banks
        from mbc_engine.evaluation.fine_tuning import FineTuned
        from mbc_engine.evaluation.language_models import BM25Reading, ClosedBook, OracleReading
        from mbc_engine.model import load_model

        kind, suite = METHODS[name], self.suite
        trained = kind.needs[0] if kind.needs else ""
        if kind.is_retriever_reader:
            return banks.RetrieveAndRead(load_model(self.base.model or "", device=self.device))  # type: ignore[arg-type]
        if kind.is_fine_tuned:
            weights, optimiser = self.token_weights(name), self.base.optimiser
            base = self.base_lm(trained)
            return FineTuned(base, weights, rate=rate or 0.0, optimiser=optimiser, window=suite.document_window)
        if trained == "questions":
            return ClosedBook(self.base_lm(trained, suite.question_training.precision))
        if trained == "reader":
            reader = self.base_lm(trained, suite.reading_training.precision)
            return OracleReading(reader, self.test.examples) if name == "oracle" else BM25Reading(reader)
        method = self._over_text(kind) if trained == "text" else self._with_bank(kind, trained)
        if "-wrong" not in name and name != "mbc-text-empty":
            return method
        return banks.WrongBank(method, self.other_documents() if "-wrong" in name else (), suite.seed)

    def _with_bank(self, kind: MethodKind, trained: str) -> "Method":
        from mbc_engine.evaluation import banks

        model, options = self.memory_model(trained), {"read_mode": kind.read or self.suite.read}
        if kind.name == "mbc-empty":
            return banks.EmptyBank(model, **options)
        corrupt = None
        if kind.name == "mbc-shuffled-documents":
            corrupt = banks.shuffled_over_documents(self.suite.seed)
        elif kind.name == "mbc-shuffled-codes":
            corrupt = banks.shuffled_over_codebook(model.require_codebook(), self.suite.seed)
        return banks.MemoryMethod(model, **options, keeps_codes=trained in ("mbc", "mbc-null"), corrupt=corrupt)

    def _over_text(self, kind: MethodKind) -> "Method":
        from mbc_engine.evaluation import banks
        from mbc_engine.model import load_model
        from mbc_engine.paper.kv_lora import add_kv_lora, load_adapter

        base = self.base_lm(weights=self.suite.text_training.precision)
        add_kv_lora(base.model, **self.config().model.lora.model_dump())
        load_adapter(base.model, self.folder.prepared_folder / "text")
        base.eval()
        finder: Any = load_model("mini", device=self.device)
        return banks.TextPrefix(finder, base, shuffles=kind.name == "mbc-text-shuffled", seed=self.suite.seed)

    def token_weights(self, name: str) -> "TokenWeights":
        from mbc_engine.evaluation import camels, token_weights

        if name == "camels":
            return camels.load_weights(self.folder.prepared_folder / "camels", self.device)
        if name == "tf-idf":
            return token_weights.tf_idf({example.text for example in self.train})
        return token_weights.salient_spans() if name == "salient-spans" else token_weights.uniform

    def other_documents(self) -> list[str]:
        """Documents outside the stream: the training documents, or else the stories of `mbc demo`."""
        if self.train:
            return list(dict.fromkeys(example.text for example in self.train))
        return list(dict.fromkeys(story.text for story in made_up_stories() if story.text not in self.test.documents))

    def memory_model(self, trained: str) -> "MBC":
        from mbc_engine.paper.checkpoint import load_model

        if trained not in self._loaded:
            self._loaded.clear()
            given = self.base.model if trained == "mbc" else None
            self._loaded[trained] = load_model(
                given or self.folder.prepared_folder / trained / MODEL, device=self.device
            )
        return self._loaded[trained]

    def base_lm(self, trained: str = "", weights: Literal["float32", "bf16"] = "float32") -> "BaseLM":
        """The base LM trained as `questions` or `reader`; the pretrained one without a name or training data."""
        from mbc_engine.lm.base import load_base

        path = str(self.folder.prepared_folder / trained) if trained and self.train else self.config().model.base
        return load_base(path, weights=weights, device=self.device)

    def skip_reason(self, stage: Stage) -> str | None:
        """Why a stage would only repeat another: a read may not tell codes shuffled over documents from the real ones.

        A flat read depends only on how often each code occurs; shuffling changes neither a hierarchical read with a
        single group nor a routed read that takes the whole bank.
        """
        if stage.documents and stage.documents >= len(self.test.documents):
            return f"there are only {len(self.test.documents):,} documents"
        if stage.subject != "mbc-shuffled-documents":
            return None
        model = self.config().model
        read_mode = self.suite.read or model.read
        name, number = parse_read_mode(read_mode)
        number = number or {"hierarchical": model.group_documents, "routed": model.routed_documents}.get(name)
        documents = min(stage.documents or self.suite.bank_documents or self.suite.documents, len(self.test.documents))
        if number is None or documents <= number:  # chunks, of which a document has one or a few
            return f"the {read_mode} read cannot tell it from the real bank"
        return None


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
