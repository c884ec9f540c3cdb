"""A suite: base LMs × datasets, each pair a cell, with the methods and protocols of each; built in, or a TOML file."""

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, PositiveInt, ValidationError

from mbc_engine.config import (
    Config,
    first_fault,
    load_preset,
    read_model_config,
    read_paper_config,
)
from mbc_engine.datasets.by_name import absolute, load_examples, own_validation
from mbc_engine.datasets.layout import QAExample, evenly_spaced, made_up_stories
from mbc_engine.datasets.questions import hold_out
from mbc_engine.errors import ConfigError, DataError, ModelError
from mbc_engine.evaluation.methods import METHODS, MethodKind, Protocol
from mbc_engine.evaluation.protocols import Stream, stream
from mbc_engine.evaluation.results import CellFolder, ExperimentFolder
from mbc_engine.names import CONFIG, find_model, parse_read_mode, suite_names
from mbc_engine.runs.training_runs import MODEL

if TYPE_CHECKING:
    from mbc_engine.evaluation.methods import Method
    from mbc_engine.evaluation.token_weights import TokenWeights
    from mbc_engine.lm.base import BaseLM
    from mbc_engine.paper.mbc import MBC

_HELD_BACK: Final = 0.1
_Rate = Annotated[FiniteFloat, Field(gt=0)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Base(_Table):
    """A base LM, and the preset by which MBC and MAC are trained around it, or a trained MBC in its place.

    Empty `methods` and `protocols` are the suite's.
    """

    name: str
    title: str
    preset: str | None = None
    changes: list[str] = []
    model: str | None = None
    optimiser: Literal["adam", "adafactor"] = "adam"
    methods: list[str] = []
    protocols: list[Protocol] = []


class Dataset(_Table):
    """Questions to train on, to validate on, and to test with.

    `questions_train` trains the base LMs of fine-tuning, by default on `train`; without `validation`, documents of
    `train` are held back. `most_train` are questions, `most_validation` documents.
    """

    name: str
    title: str
    train: list[str] = []
    questions_train: list[str] = []
    validation: str | None = None
    test: str
    most_train: PositiveInt | None = None
    most_validation: PositiveInt = 200

    def located(self, folder: Path | None) -> "Dataset":
        """The same with absolute paths."""
        lists = {name: [absolute(one, folder) for one in getattr(self, name)] for name in ("train", "questions_train")}
        validation = self.validation and absolute(self.validation, folder)
        return self.model_copy(update={**lists, "validation": validation, "test": absolute(self.test, folder)})


class Tuning(_Table):
    """How a base LM is trained on questions; it also answers in that precision, unless it is fine-tuned."""

    epochs: PositiveInt = 8
    batch_size: PositiveInt = 32
    learning_rate: _Rate = 1e-4
    precision: Literal["float32", "bf16"] = "float32"
    most_train: PositiveInt | None = None


class Camels(_Table):
    """How CaMeLS' token weights are trained; see `camels.meta_train`."""

    steps: PositiveInt = 2000
    inner_documents: PositiveInt = 6
    inner_batches: PositiveInt = 4
    learning_rate: _Rate = 1e-4
    inner_rate: _Rate = 5e-4
    locality: Annotated[FiniteFloat, Field(ge=0)] = 0.1


class Retention(_Table):
    """The sizes of the retention protocol in documents (paper, section 4.4.3)."""

    first: PositiveInt = 200
    step: PositiveInt = 200
    further: PositiveInt = 1400


class Suite(_Table):
    """What is evaluated, on what and how; docs/evaluation.md explains every setting."""

    title: str
    seed: NonNegativeInt = 0
    bases: list[Base]
    datasets: list[Dataset]
    methods: list[str]
    protocols: list[Protocol] = ["online"]
    documents: PositiveInt = 1665
    bank_documents: PositiveInt | None = None
    questions: PositiveInt | None = None
    golds: Literal["shortest", "any"] = "shortest"
    read: str | None = None
    rates: Annotated[list[_Rate], Field(min_length=1)] = [1e-4, 2.5e-5, 6.25e-6, 1.625e-6]
    document_window: PositiveInt = 512
    retention: Retention = Retention()
    scaling: Annotated[list[PositiveInt], Field(min_length=1)] = [16, 64, 256, 1024]
    question_training: Tuning = Tuning()
    reading_training: Tuning = Tuning()
    camels: Camels = Camels()
    code_usage_changes: list[str] = []

    def methods_of(self, base: Base) -> list[str]:
        return base.methods or self.methods

    def protocols_of(self, base: Base) -> list[Protocol]:
        return base.protocols or self.protocols

    def only(self, bases: Sequence[str]) -> "Suite":
        """The same suite with only the named base LMs. Raises ConfigError if a name is unknown."""
        names = [base.name for base in self.bases]
        for name in bases:
            if name not in names:
                raise ConfigError(f"The suite has no base LM {name!r}.", hint=f"It has {', '.join(names)}.")
        return self.model_copy(update={"bases": [base for base in self.bases if base.name in bases]})


def load_suite(name: str, folder: Path | None = None) -> Suite:
    """Load a built-in suite or a TOML file; relative paths are resolved against `folder`, or the working directory."""
    path = files("mbc_engine.evaluation") / "suites" / f"{name}.toml" if name in suite_names() else Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        hint = f"Suites: {', '.join(suite_names())}; or a TOML file."
        raise ConfigError(f"There is no suite {name!r}.", hint=hint) from error
    suite = parse_suite(text, name)
    suite = suite.model_copy(update={"datasets": [dataset.located(folder) for dataset in suite.datasets]})
    require_usable(suite, name)
    return suite


def suite_in(folder: Path) -> Suite:
    """The suite of the experiment in a folder."""
    return _validated(ExperimentFolder(folder).settings(), str(folder))


def parse_suite(text: str, origin: str) -> Suite:
    """Parse TOML from `origin`."""
    try:
        return _validated(tomllib.loads(text), origin)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin} is not valid TOML: {error}.", hint="Repair it.") from error


def _validated(table: dict[str, Any], origin: str) -> Suite:
    try:
        return Suite.model_validate(table)
    except ValidationError as error:
        raise ConfigError(f"{origin}: {first_fault(error)}.", hint="docs/evaluation.md shows every setting.") from error


def require_usable(suite: Suite, origin: str | None = None) -> None:
    """Raise ConfigError unless what a suite names exists and fits together, before any data or model is loaded.

    `origin` is the file the suite comes from; None if it comes from the command line.
    """
    if suite.read is not None:
        parse_read_mode(suite.read)
    for fault, hint in _faults(suite):
        raise ConfigError(f"{origin}: {fault}." if origin else f"{fault[0].upper()}{fault[1:]}.", hint=hint)
    for base in suite.bases:
        if base.preset is not None:
            load_preset(base.preset, base.changes)


def _faults(suite: Suite) -> Iterator[tuple[str, str]]:
    bases, datasets = [base.name for base in suite.bases], [dataset.name for dataset in suite.datasets]
    yield from _faulty_names("base", bases)
    yield from _faulty_names("dataset", datasets)
    for name, count in Counter(f"{base}-{dataset}" for base in bases for dataset in datasets).items():
        if count > 1:
            yield f"{count} cells would share the folder {name}", "Give every base and dataset a name of its own."
    learners: dict[str, None] = {}
    for base in suite.bases:
        yield from _faulty_names("method", suite.methods_of(base))
        yield from _faulty_names("protocol", suite.protocols_of(base))
        kinds = [METHODS[name] for name in suite.methods_of(base) if name in METHODS]
        yield from _faults_of_base(base, kinds, suite)
        learners |= {kind.name: None for kind in kinds if kind.needs_training_data}
        learners |= {f"the preset {base.preset}": None} if base.model is None else {}
    for dataset in suite.datasets:
        if learners and not dataset.train:
            fault = f"there are no questions to train {', '.join(learners)} on for {dataset.title}"
            yield fault, "Give questions to learn from: --train."


def _faulty_names(what: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not names:
        yield f"no {what} is given", f"Name at least one {what}."
    for name in names:
        if what == "method" and name not in METHODS:
            plain = [name for name, kind in METHODS.items() if kind.read is None]
            hint = f"Methods: {', '.join(plain)}; mbc and mac also with a read mode, such as mbc-flat."
            yield f"there is no method {name!r}", hint
        if names.count(name) > 1:
            yield f"the {what} {name!r} is given twice", "Name each once: its results have a folder of that name."
        if not name or Path(name).name != name:
            yield f"{name!r} cannot be the name of a {what}", "It names a folder: use letters, digits and hyphens."


def _faults_of_base(base: Base, kinds: Sequence[MethodKind], suite: Suite) -> Iterator[tuple[str, str]]:
    protocols = suite.protocols_of(base)
    if (base.preset is None) == (base.model is None):
        yield f"the base {base.name!r} needs either a preset or a model", "Leave one of them out."
    if base.model is not None and "code-usage" in protocols:
        yield f"code-usage trains a preset, but {base.title} is a model", "Give a preset in its place."
    if not any(kind.adapts and kind.control_of is None for kind in kinds):
        for protocol in {"retention", "scaling"}.intersection(protocols):
            fault = f"none of the methods memorises documents, so {protocol} has nothing to measure"
            yield fault, "Add one that does, such as mbc."
    try:
        is_reader = base.model is not None and is_retriever_reader(base.model)
    except ModelError:  # reported when the model is looked for
        return
    for kind in kinds:
        if is_reader and not kind.is_retriever_reader:
            fault = (
                f"the method {kind.name} needs a model of the paper's method, and {base.title} is a retriever-reader"
            )
            yield fault, "Use --method retriever-reader, or a model or preset of the paper's method."
        elif kind.is_retriever_reader and not is_reader:
            yield f"the method {kind.name} needs a retriever-reader, which {base.title} is not", "Use --model mini."
    if is_reader and suite.read is not None:
        fault = f"--read does not apply to {base.title}, which has only one way to search its bank"
        yield fault, "It is for models of the paper's method."


def is_retriever_reader(model: str) -> bool:
    """Whether a model is a retriever-reader such as mini, rather than one of the paper's method."""
    return read_model_config(find_model(model) / CONFIG).reads_text


@dataclass(frozen=True)
class Stage:
    """Work whose result is stored as a whole: something is trained, a learning rate chosen, or a protocol run.

    `subject` is what is trained, or the method; `needs` are the earlier stages it depends on.
    """

    kind: Literal["prepare", "rate"] | Protocol
    subject: str
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"prepare {self.subject}" if self.kind == "prepare" else f"{self.subject} {self.kind}".strip()

    def is_done(self, folder: CellFolder) -> bool:
        return folder.is_prepared(self.subject) if self.kind == "prepare" else folder.has(self.subject, self.kind)


def cells(suite: Suite) -> "Iterator[Cell]":
    """All cells, base by base."""
    for base in suite.bases:
        for dataset in suite.datasets:
            yield Cell(base, dataset, suite)


@dataclass
class Cell:
    """A base LM on a dataset: its stages, its questions and the models of its methods.

    What is trained, each in a folder of `prepared`: mbc, mac and mbc-unquantised; the base LMs `questions` (for
    fine-tuning and closed book) and `reader`; token weights `camels`; `reset` and `no-reset` for code usage. `cache`
    holds states of frozen encoders.
    """

    base: Base
    dataset: Dataset
    suite: Suite
    prepared: Path = Path()
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
            yield from (Stage(protocol, kind.name, needs) for protocol in protocols if applies.get(protocol))
        if "code-usage" in protocols:
            yield Stage("prepare", "reset")
            yield Stage("prepare", "no-reset")
            yield Stage("code-usage", "", ("prepare reset", "prepare no-reset"))

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

    def digest(self) -> str:
        """A digest of all questions. Raises DataError if a document tested with is also learned from."""
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
        return digest.hexdigest()[:16]

    def method(self, name: str, rate: float | None = None) -> "Method":
        """A method, ready to memorise documents, with a learning rate if it fine-tunes; its models must be trained."""
        from mbc_engine.evaluation import banks, language_models
        from mbc_engine.evaluation.fine_tuning import FineTuned
        from mbc_engine.model import load_model

        kind, suite, seed = METHODS[name], self.suite, self.suite.seed
        trained = kind.needs[0] if kind.needs else ""
        if kind.is_retriever_reader:
            return banks.RetrieveAndRead(load_model(self.base.model or "", device=self.device))  # type: ignore[arg-type]
        if kind.is_fine_tuned:
            weights, optimiser = self.token_weights(name), self.base.optimiser
            base = self.base_lm(trained)
            return FineTuned(base, weights, rate=rate or 0.0, optimiser=optimiser, window=suite.document_window)
        if trained == "questions":
            return language_models.ClosedBook(self.base_lm(trained, suite.question_training.precision))
        if trained == "reader":
            reader = self.base_lm(trained, suite.reading_training.precision)
            if name == "oracle":
                return language_models.OracleReading(reader, self.test.examples)
            return language_models.BM25Reading(reader)
        model = self.memory_model(trained)
        options: Any = {"read_mode": kind.read or suite.read}
        if name == "mbc-empty":
            return banks.EmptyBank(model, **options)
        options["keeps_codes"] = trained == "mbc"
        if name == "mbc-shuffled-documents":
            options["corrupt"] = banks.shuffled_over_documents(seed)
        elif name == "mbc-shuffled-codes":
            options["corrupt"] = banks.shuffled_over_codebook(model.require_codebook(), seed)
        elif kind.control_of:
            return banks.WrongBank(model, self.other_documents(), seed, **options)
        return banks.MemoryMethod(model, **options)

    def token_weights(self, name: str) -> "TokenWeights":
        from mbc_engine.evaluation import camels, token_weights

        if name == "camels":
            return camels.load_weights(self.prepared / "camels", self.device)
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
            self._loaded[trained] = load_model(given or self.prepared / trained / MODEL, device=self.device)
        return self._loaded[trained]

    def base_lm(self, trained: str = "", weights: Literal["float32", "bf16"] = "float32") -> "BaseLM":
        """The base LM trained as `questions` or `reader`; the pretrained one without a name or training data."""
        from mbc_engine.lm.base import load_base

        path = str(self.prepared / trained) if trained and self.train else self.config().model.base
        return load_base(path, weights=weights, device=self.device)

    def skip_reason(self, method: str) -> str | None:
        """Why a method would only repeat another: a read may not tell codes shuffled over documents from the real ones.

        A flat read depends only on how often each code occurs; shuffling changes neither a hierarchical read with a
        single group nor a routed read that takes the whole bank.
        """
        if method != "mbc-shuffled-documents":
            return None
        model = self.config().model
        read_mode = self.suite.read or model.read
        name, number = parse_read_mode(read_mode)
        number = number or {"hierarchical": model.group_documents, "routed": model.routed_documents}.get(name)
        if number is None or self._largest_bank() <= number:
            return f"the {read_mode} read cannot tell it from the real bank"
        return None

    def _largest_bank(self) -> int:
        chunker = self.memory_model("mbc").documents.chunker
        chunks = [len(chunker(text)) for text in self.test.documents]
        size = min(self.suite.bank_documents or len(chunks), len(chunks))
        return max(sum(chunks[start : start + size]) for start in range(0, len(chunks) - size + 1, size))


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
