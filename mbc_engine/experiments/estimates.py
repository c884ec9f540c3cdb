"""Rough memory and time of an experiment's stages, from sizes alone: what fits, and hours from days, before anything
is loaded.

Counted are the products with a model's matrices, 2 operations a weight and token, twice as many again to go back
(Kaplan et al. 2020); weights, gradients and moments of what trains; and the activations that are kept to go back (after
Korthikanti et al. 2022). Not counted is everything else: expect half of it, or twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mbc_engine.config import Config
    from mbc_engine.experiments.settings import ExperimentSettings
    from mbc_engine.experiments.stages import Stage
    from mbc_engine.model.skeleton import ParameterTable

# What is assumed of texts, in tokens; an answer goes with its question.
DOCUMENT_TOKENS: Final = 256
QUESTION_TOKENS: Final = 32
ANSWER_TOKENS: Final = 16
ASSUMED: Final = (
    f"{DOCUMENT_TOKENS} tokens a document, {QUESTION_TOKENS} a question with its answer; float32, but for what a "
    "preset packs or trains in bf16; expect half of it, or twice"
)
_CAMELS_LAYERS: Final = 6
_FORWARD, _BACK_THROUGH, _BACK = 2, 4, 6  # operations a weight and token: without gradient, through, and with its own
_SINGLE: Final = 4  # bytes of a float
_MOMENTS: Final = {"adam": 2 * _SINGLE, "adafactor": 0}


@dataclass(frozen=True)
class Shape:
    """A pretrained part: its layers, their width and heads, its vocabulary, and all of its parameters."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    parameters: int

    @property
    def products(self) -> int:
        """Weights that a token is multiplied with in the layers."""
        return 12 * self.layers * self.width**2

    def with_head(self) -> int:
        """The same with the head of an LM."""
        return self.products + self.vocabulary * self.width

    def activations(self, batch: int, tokens: int, *, in_half: bool) -> int:
        """Bytes that are kept to go back through the layers."""
        single = batch * tokens * self.layers * (34 * self.width + 5 * self.heads * tokens)
        return single if in_half else 2 * single

    def logits(self, batch: int, tokens: int) -> int:
        """Bytes of logits and their gradient."""
        return 2 * _SINGLE * batch * tokens * self.vocabulary


@dataclass(frozen=True)
class Counts:
    """How much a cell reads: questions trained on, of the two kinds; documents and questions that rates are swept on,
    and that are tested with."""

    train: int
    base_train: int
    swept_documents: int
    swept_questions: int
    documents: int
    questions: int


@dataclass(frozen=True)
class Sizes:
    """What is known of a cell's models before they are loaded."""

    config: "Config"
    table: "ParameterTable"
    base: Shape
    documents: Shape
    questions: Shape


@dataclass(frozen=True)
class Estimate:
    """What a stage takes: bytes of memory, and operations."""

    memory: int
    operations: float


class Estimates:
    """Estimates for the stages of a cell.

    Args:
        sizes: of its models.
        counts: of what it reads.
        settings: of the experiment.
        optimiser: what fine-tunes the base LM.
        usage_epochs: of the two trainings whose code usage is compared.
    """

    def __init__(
        self, sizes: Sizes, counts: Counts, settings: "ExperimentSettings", optimiser: str, usage_epochs: int
    ) -> None:
        self._sizes, self._counts, self._settings = sizes, counts, settings
        self._optimiser, self._usage_epochs = optimiser, usage_epochs

    def of(self, stage: "Stage") -> Estimate:
        """What a stage takes."""
        if stage.kind == "prepare":
            return self._preparations[stage.subject]()
        if stage.kind == "code-usage":
            return Estimate(0, 0.0)
        documents, questions = self._stream(stage.kind)
        if stage.kind == "rate":
            documents, questions = documents * len(self._settings.rates), questions * len(self._settings.rates)
        adapts, answers = self._of_method(stage.subject)
        return Estimate(self._method_memory(stage.subject), documents * adapts + questions * answers)

    @property
    def _preparations(self) -> Mapping[str, Callable[[], Estimate]]:
        usage = partial(self._memory_training, self._usage_epochs)
        memory = partial(self._memory_training, self._sizes.config.training.epochs)
        return {
            "mbc": memory,
            "mac": memory,
            "reset": usage,
            "no-reset": usage,
            "questions": self._question_training,
            "reader": self._reading_training,
            "camels": self._meta_training,
        }

    def _memory_training(self, epochs: int) -> Estimate:
        """MBC or MAC; MAC is a codebook smaller."""
        sizes, training = self._sizes, self._sizes.config.training
        model, in_half = sizes.config.model, training.precision == "bf16"
        batch = -(-training.batch_size // training.accumulate)
        learnt = max(1, round(batch * (1 - training.backprop_dropout)))
        answered = training.question_window + training.answer_window
        memory = sizes.table.bytes + sizes.table.trainable * 3 * _SINGLE
        memory += sizes.base.activations(batch, answered, in_half=in_half) + sizes.base.logits(batch, answered)
        operations = float(_BACK_THROUGH * sizes.base.with_head() * QUESTION_TOKENS)
        if not model.documents.frozen:
            memory += sizes.documents.activations(learnt, model.documents.window, in_half=in_half)
            back = _FORWARD + (_BACK - _FORWARD) * (1 - training.backprop_dropout)
            operations += back * sizes.documents.products * DOCUMENT_TOKENS
        if not model.questions.frozen:
            memory += sizes.questions.activations(batch, training.question_window, in_half=in_half)
            operations += _BACK * sizes.questions.products * QUESTION_TOKENS
        if training.losses.reconstruction:
            operations += _BACK_THROUGH * sizes.base.with_head() * training.losses.reconstruction_tokens
        return Estimate(memory, operations * self._counts.train * epochs)

    def _question_training(self) -> Estimate:
        own = self._settings.question_training
        return self._tuning(own.batch_size, QUESTION_TOKENS, own.epochs * self._counts.base_train)

    def _reading_training(self) -> Estimate:
        own = self._settings.reading_training
        return self._tuning(own.batch_size, QUESTION_TOKENS + DOCUMENT_TOKENS, own.epochs * self._counts.train)

    def _meta_training(self) -> Estimate:
        """An inner step without a graph: weights, their gradient, what becomes of both, and the weight model."""
        own, base = self._settings.camels, self._sizes.base
        tokens = self._settings.document_window
        learner = 12 * min(_CAMELS_LAYERS, base.layers) * base.width**2
        memory = 4 * _SINGLE * base.parameters + 4 * _SINGLE * learner
        memory += base.activations(own.inner_documents, tokens, in_half=False) + base.logits(
            own.inner_documents, tokens
        )
        seen = own.steps * own.inner_batches * own.inner_documents * DOCUMENT_TOKENS
        return Estimate(memory, float(seen) * (2 * _BACK * base.with_head() + _BACK * learner))

    def _tuning(self, batch: int, tokens: int, examples: int) -> Estimate:
        base = self._sizes.base
        memory = self._tuned() + base.activations(batch, tokens, in_half=False) + base.logits(batch, tokens)
        return Estimate(memory, float(_BACK) * base.with_head() * tokens * examples)

    def _tuned(self) -> int:
        """Weights of the base LM, their gradients and moments."""
        return self._sizes.base.parameters * (2 * _SINGLE + _MOMENTS[self._optimiser])

    def _of_method(self, method: str) -> tuple[float, float]:
        """Operations to take in a document, and to answer a question."""
        from mbc_engine.experiments.roster import METHODS

        kind, sizes = METHODS[method], self._sizes
        answer = _FORWARD * sizes.base.with_head() * (QUESTION_TOKENS + ANSWER_TOKENS)
        if kind.weights is not None:
            return _BACK * sizes.base.with_head() * DOCUMENT_TOKENS, answer
        if "reader" in kind.needs:
            return 0, answer + _FORWARD * sizes.base.with_head() * DOCUMENT_TOKENS
        if "questions" in kind.needs:
            return 0, answer
        asked = _FORWARD * sizes.questions.products * QUESTION_TOKENS
        return _FORWARD * sizes.documents.products * DOCUMENT_TOKENS, answer + asked

    def _method_memory(self, method: str) -> int:
        from mbc_engine.experiments.roster import METHODS

        kind, base = METHODS[method], self._sizes.base
        if kind.weights is None:
            remembers = kind.name == "mac" or "mbc" in kind.needs
            return self._sizes.table.bytes if remembers else _SINGLE * base.parameters
        window = self._settings.document_window
        return self._tuned() + base.activations(1, window, in_half=False) + base.logits(1, window)

    def _stream(self, kind: str) -> tuple[float, float]:
        """Documents taken in and questions asked by a protocol, or by a rate of a sweep."""
        counts, settings = self._counts, self._settings
        each = counts.questions / max(1, counts.documents)
        if kind == "rate":
            return counts.swept_documents, counts.swept_questions
        if kind == "retention":
            own = settings.retention
            first = min(own.first, counts.documents)
            steps = 1 + own.further // own.step
            return min(own.first + own.further, counts.documents), steps * first * each
        if kind == "scaling":
            documents = sum(min(step, counts.documents) for step in settings.scaling)
            return documents, documents * each
        return counts.documents, counts.questions
