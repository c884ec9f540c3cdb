"""A cell of an experiment: one base LM on one dataset, with its stages, its questions and the models of its methods."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mbc_engine.config import Config, load_preset, read_paper_config
from mbc_engine.datasets.by_name import load_examples, own_validation
from mbc_engine.datasets.layout import QAExample, evenly_spaced, made_up_stories
from mbc_engine.datasets.questions import hold_out
from mbc_engine.errors import DataError
from mbc_engine.evaluation.protocols import Stream, stream
from mbc_engine.evaluation.results import CellFolder
from mbc_engine.experiments.registry import METHODS, Protocol
from mbc_engine.experiments.settings import BaseSettings, DatasetSettings, ExperimentSettings, is_retriever_reader
from mbc_engine.names import CONFIG, find_model, parse_read_mode
from mbc_engine.runs.training_runs import MODEL

if TYPE_CHECKING:
    from mbc_engine.lm.base import BaseLM
    from mbc_engine.methods.method import Method
    from mbc_engine.methods.token_weights import TokenWeights
    from mbc_engine.paper.mbc import MBC

_HELD_BACK = 0.1


@dataclass(frozen=True)
class Stage:
    """Work whose result is stored as a whole: something is prepared, a learning rate chosen, or a protocol run.

    `subject` is what is prepared, or the method; `needs` are the earlier stages it depends on. `memory` in bytes and
    `hours` are estimates from `requirements.py`, None if unknown; `obstacle` is why it cannot be done here, and
    `follows` the earlier stage whose obstacle causes this one, if any.
    """

    kind: Literal["prepare", "rate"] | Protocol
    subject: str
    needs: tuple[str, ...] = ()
    memory: int | None = None
    hours: float | None = None
    obstacle: str | None = None
    follows: str | None = None

    @property
    def name(self) -> str:
        return f"prepare {self.subject}" if self.kind == "prepare" else f"{self.subject} {self.kind}".strip()

    def is_done(self, folder: CellFolder) -> bool:
        if self.kind == "prepare":
            return folder.is_prepared(self.subject)
        return folder.has(self.subject, self.kind)


@dataclass
class Cell:
    """A base LM on a dataset: the stages, the questions and the models.

    `prepared` has a folder for everything prepared, by name; `cache` holds states of frozen encoders, `rates` the
    learning rates chosen for fine-tuning methods.
    """

    base: BaseSettings
    dataset: DatasetSettings
    settings: ExperimentSettings
    prepared: Path = Path()
    cache: Path = Path()
    device: str = "cpu"
    rates: dict[str, float] = field(default_factory=dict)
    # Models are large: only one model with a memory is held at a time.
    _held: dict[str, "MBC"] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.base.name}-{self.dataset.name}"

    @property
    def is_of_retriever_reader(self) -> bool:
        return self.base.model is not None and is_retriever_reader(self.base.model)

    def stages(self) -> Iterator[Stage]:
        """All stages, each after those it needs."""
        methods, protocols = self.settings.of(self.base)
        kinds = [METHODS[name] for name in methods]
        wanted = dict.fromkeys(need for kind in kinds for need in kind.needs)
        prepared = [need for need in wanted if self.dataset.train and not (need == "mbc" and self.base.model)]
        for need in prepared:
            yield Stage("prepare", need, ("prepare questions",) if need == "camels" else ())
        for kind in kinds:
            needs = tuple(f"prepare {need}" for need in kind.needs if need in prepared)
            if kind.is_fine_tuned:
                rate = Stage("rate", kind.name, needs)
                yield rate
                needs = (*needs, rate.name)
            # Scaling means little without its controls, and fine-tuning a base LM for each of many memories takes days.
            followed = {
                "online": True,
                "scaling": kind.adapts and not kind.is_fine_tuned,
                "retention": kind.adapts and kind.control_of is None,
            }
            for protocol in protocols:
                if followed.get(protocol):
                    yield Stage(protocol, kind.name, needs)
        if "code-usage" in protocols:
            yield Stage("prepare", "reset")
            yield Stage("prepare", "no-reset")
            yield Stage("code-usage", "", ("prepare reset", "prepare no-reset"))

    def config(self, changes: Sequence[str] = ()) -> Config:
        base, changes = self.base, [*changes, f"training.seed={self.settings.seed}"]
        if base.model is None:
            return load_preset(base.preset or "", [*base.changes, *changes])
        return read_paper_config(find_model(base.model) / CONFIG, changes)

    def config_of(self, name: str) -> Config:
        """The training config of mbc, mac, mbc-unquantised and, for code usage, reset and no-reset."""
        config = self.config(self.settings.code_usage_changes if name in ("reset", "no-reset") else ())
        variants = {"mac": mac_of, "mbc-unquantised": without_codes, "no-reset": without_reset}
        return variants[name](config) if name in variants else config

    @cached_property
    def test(self) -> Stream:
        return stream(load_examples(self.dataset.test), self.settings.documents, self.settings.questions)

    @cached_property
    def train(self) -> list[QAExample]:
        """Training examples for MBC, MAC, token weights and readers; empty without training data."""
        return evenly_spaced(self._learned_from[0], self.dataset.most_train)

    @cached_property
    def question_train(self) -> list[QAExample]:
        examples = _joined(self.dataset.questions_train) or self._learned_from[0]
        return evenly_spaced(examples, self.dataset.most_train)

    @cached_property
    def validation(self) -> list[QAExample]:
        examples = self._learned_from[1]
        return [*stream(examples, self.dataset.most_validation).examples] if examples else []

    @cached_property
    def _learned_from(self) -> tuple[list[QAExample], list[QAExample]]:
        train = _joined(self.dataset.train)
        place = self.dataset.validation or own_validation(self.dataset.train)
        if place or not train:
            return train, load_examples(place) if place else []
        return hold_out(train, _HELD_BACK)

    def digest(self) -> str:
        tested, (learned, validated) = set(self.test.documents), self._learned_from
        for part, use in ((learned, "trained"), (self.question_train, "trained"), (validated, "validated")):
            if shared := len(tested & {example.text for example in part}):
                raise DataError(
                    f"{shared:,} of the {len(tested):,} documents of {self.dataset.test} are also {use} on.",
                    hint="Test on documents that are not in the training or validation data.",
                )
        found = hashlib.sha256()
        for examples in (self.train, self.question_train, self.validation, self.test.examples):
            for example in examples:
                found.update(json.dumps([example.id, example.text, example.question, example.answers]).encode())
            found.update(b"\n")
        return found.hexdigest()[:16]

    def method(self, name: str) -> "Method":
        from mbc_engine.methods import reading
        from mbc_engine.methods.fine_tuned import FineTuned
        from mbc_engine.model import load_model

        if METHODS[name].is_fine_tuned:
            model, weights, window = self.base_lm("questions"), self.token_weights(name), self.settings.document_window
            return FineTuned(model, weights, rate=self.rates[name], optimiser=self.base.optimiser, window=window)
        questions, reader = self.settings.question_training.precision, self.settings.reading_training.precision
        match name:
            case "closed-book":
                return reading.ClosedBook(self.base_lm("questions", questions))
            case "bm25":
                return reading.BM25Reading(self.base_lm("reader", reader))
            case "oracle":
                return reading.OracleReading(self.base_lm("reader", reader), self.test.examples)
            case "retriever-reader":
                return reading.RetrieveAndRead(load_model(self.base.model or "", device=self.device))  # type: ignore[arg-type]
        return self._memory_method(name)

    def _memory_method(self, name: str) -> "Method":
        from mbc_engine.methods import memory_methods

        kind, seed = METHODS[name], self.settings.seed
        (trained,) = kind.needs
        model, mode, keeps_codes = self.memory_model(trained), kind.read or self.settings.read, trained == "mbc"
        match name.removesuffix(f"-{kind.read}"):
            case "mbc-empty":
                return memory_methods.EmptyBank(model, read_mode=mode)
            case "mbc-shuffled-documents":
                return memory_methods.shuffled_documents(model, seed, read_mode=mode)
            case "mbc-shuffled-codes":
                return memory_methods.shuffled_codes(model, seed, read_mode=mode)
            case "mbc-wrong" | "mac-wrong":
                others = self.other_documents()
                return memory_methods.WrongBank(model, others, seed, read_mode=mode, keeps_codes=keeps_codes)
        return memory_methods.MemoryMethod(model, read_mode=mode, keeps_codes=keeps_codes)

    def token_weights(self, name: str) -> "TokenWeights":
        from mbc_engine.methods import camels, token_weights

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

    def memory_model(self, name: str) -> "MBC":
        from mbc_engine.paper import checkpoint

        if name not in self._held:
            self._held.clear()
            given = self.base.model if name == "mbc" else None
            self._held[name] = checkpoint.load_model(given or self.prepared / name / MODEL, device=self.device)
        return self._held[name]

    def base_lm(self, name: str = "", weights: Literal["float32", "bf16"] = "float32") -> "BaseLM":
        """The base LM trained as `questions` or `reader`; the pretrained one without a name or training data."""
        from mbc_engine.lm.base import load_base

        path = str(self.prepared / name) if name and self.train else self.config().model.base
        return load_base(path, weights=weights, device=self.device)

    def skip_reason(self, method: str) -> str | None:
        """Why a method would only repeat another: a read may not tell codes shuffled over documents from the real ones.

        A flat read depends only on how often each code occurs; shuffling changes neither a hierarchical read with a
        single group nor a routed read that takes the whole bank.
        """
        if method != "mbc-shuffled-documents":
            return None
        model = self.config().model
        read_mode = self.settings.read or model.read
        name, number = parse_read_mode(read_mode)
        if number is None:
            number = {"hierarchical": model.group_documents, "routed": model.routed_documents}.get(name)
        if number is None or self._largest_bank() <= number:
            return f"the {read_mode} read cannot tell it from the real bank"
        return None

    def _largest_bank(self) -> int:
        chunker = self.memory_model("mbc").documents.chunker
        chunks = [len(chunker(text)) for text in self.test.documents]
        size = min(self.settings.bank_documents or len(chunks), len(chunks))
        return max(sum(chunks[start : start + size]) for start in range(0, len(chunks) - size + 1, size))


def _joined(sources: Sequence[str]) -> list[QAExample]:
    return [example for source in sources for example in load_examples(source)]


def cells(settings: ExperimentSettings) -> Iterator[Cell]:
    """All cells, base by base."""
    for base in settings.bases:
        for dataset in settings.datasets:
            yield Cell(base, dataset, settings)


def without_codes(config: Config) -> Config:
    """The same config with documents as vectors, to measure what quantisation costs."""
    model = config.model.model_copy(update={"quantised": False, "confidence": None})
    training = config.training.model_copy(update={"quantise_from": 0.0})
    return config.model_copy(update={"model": model, "training": training})


def mac_of(config: Config) -> Config:
    """MAC, the paper's strongest baseline: the same model without codes and without KV-LoRA (paper, section 4.3.2)."""
    unquantised = without_codes(config)
    model = unquantised.model
    lora = model.lora.model_copy(update={"layers": 0})
    return unquantised.model_copy(update={"model": model.model_copy(update={"lora": lora})})


def without_reset(config: Config) -> Config:
    """The same config without the online reset of dead codes (paper, sections 3.3 and 4.4.4)."""
    return config.model_copy(update={"training": config.training.model_copy(update={"reset_codes": False})})
