"""Settings of a model and of its training, read from TOML and overridden by `a.b=c`."""

import os
import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.names import from_anywhere, parse_read_mode, preset_names

BaseWeights = Literal["float32", "bf16", "nf4", "int8"]
EncoderWeights = Literal["float32", "nf4", "int8"]
# What `mini/confidence.py` knows of an answer.
Feature = Literal["margin", "votes", "found", "overlooked", "misplaced", "attribute", "opposite"]
# Of address codebooks, and of a matrix over their vectors: 128 MiB.
_MOST_NUMBERS = 1 << 25
_Size = Annotated[int, Field(ge=1, le=1 << 16)]


class Settings(BaseModel):
    """Settings that are checked: unknown names are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def to_toml(self) -> str:
        """The settings as TOML, including defaults; None values are left out, as TOML has no null."""
        from tomlkit import dumps

        return dumps(self.model_dump(mode="json", exclude_none=True))


class EncoderSettings(Settings):
    """The pretrained encoder of an amortizer."""

    name: str = Field(description="hub id or path")
    window: PositiveInt = Field(512, description="longest text in tokens; longer documents are chunked")
    frozen: bool = Field(False, description="keep the pretrained weights; its token states are then computed once")
    weights: EncoderWeights = Field("float32", description="linear weights; packed in 4 or 8 bits they do not train")


class CodebookSettings(Settings):
    """The codebook (paper, sections 3.2 and 3.3)."""

    codes: int = Field(512, ge=2, le=65536, description="N_c")
    levels: int = Field(1, ge=1, le=256, description="residual levels")
    per_position: bool = Field(False, description="a book for each of the T positions")
    commitment: NonNegativeFloat = Field(0.25, description="beta")
    decay: float = Field(0.99, gt=0, lt=1, description="gamma")
    dead_threshold: NonNegativeFloat = Field(1e-4, description="epsilon")


class AggregatorSettings(Settings):
    """The aggregation network (paper, section 3.1)."""

    blocks: int = Field(4, ge=1, le=256)
    heads: _Size = 8
    head_dim: _Size = 96
    hidden: _Size = 768
    pass_through: bool = Field(False, description="the modulation is without the question's vectors")


class PrefixSettings(Settings):
    """From modulation to key/value prefixes."""

    columns: _Size = Field(2, description="P, prefix tokens of a layer")
    hidden: _Size = 768
    slot_embedding: bool = False
    value_scale: bool = Field(False, description="each layer's values start as large as the base LM's own")


class LoraSettings(Settings):
    """KV-LoRA (paper, section 3.4)."""

    rank: int = Field(16, ge=1, le=1024)
    alpha: PositiveInt = 32
    dropout: float = Field(0.05, ge=0, le=1)
    layers: NonNegativeInt = Field(6, description="n_lora, the last layers; 0 is no KV-LoRA")


class ConfidenceSettings(Settings):
    """How an answer's gain becomes a confidence: a logistic function and two thresholds, fitted by `mbc calibrate`."""

    slope: NonNegativeFloat = Field(allow_inf_nan=False, description="of the log-odds over the gain, per nat per token")
    intercept: float = Field(allow_inf_nan=False, description="of the log-odds, where the bank adds nothing")
    from_memory: float = Field(ge=0, le=1, description='lowest confidence at which an answer is labelled "memory"')
    from_model: float = Field(ge=0, le=1, description='highest confidence at which it is labelled "model"')

    @model_validator(mode="after")
    def _thresholds_are_in_order(self) -> Self:
        if self.from_model > self.from_memory:
            raise ValueError("from_model must not be above from_memory")
        return self


class ModelSettings(Settings):
    """A model's architecture, and the calibration of its answers."""

    base: str = Field(description="the frozen base LM: hub id or path")
    base_weights: BaseWeights = Field("float32", description="how the base LM's weights are held")
    documents: EncoderSettings
    questions: EncoderSettings
    tokens: _Size = Field(12, description="T, vectors of a document")
    quantised: bool = Field(True, description="documents become codes; false keeps them as vectors, as MAC does")
    centring: bool = Field(False, description="centre vectors over documents; each position gets a learned vector")
    as_released: bool = Field(False, description="slots, decoder and padding as in the authors' released code")
    routing: bool = Field(False, description="a router, needed by the routed read")
    read: str = Field("flat", description="NAME or NAME:NUMBER, see READ_MODES")
    routed_documents: PositiveInt = Field(2, description="documents a routed read aggregates")
    group_documents: int = Field(256, ge=2, description="M, documents of a group in a hierarchical read")
    codebook: CodebookSettings = CodebookSettings()
    aggregator: AggregatorSettings = AggregatorSettings()
    prefix: PrefixSettings = PrefixSettings()
    lora: LoraSettings = LoraSettings()
    confidence: ConfidenceSettings | None = Field(None, description="None as long as the model is not calibrated")

    @model_validator(mode="after")
    def _padding_is_read(self) -> Self:
        if self.as_released and (self.documents.frozen or self.questions.frozen):
            raise ValueError("as_released needs encoders that train: cached states are without padding")
        return self

    @property
    def code_numbers(self) -> tuple[int, int, int, bool]:
        """The shape a chunk's codes have, or would have: the arguments of `CodeShape`, in order."""
        book = self.codebook
        return self.tokens, book.levels, book.codes, book.per_position

    @property
    def encoders(self) -> dict[str, str]:
        """The encoder of documents and that of questions, each by hub id or path."""
        return {"documents": self.documents.name, "questions": self.questions.name}

    def facts(self) -> list[tuple[str, str]]:
        """What the model is made of, besides its codes: labels and values for people."""

        def weights(precision: str) -> str:
            return "" if precision == "float32" else f" as {precision}"

        lora, facts = self.lora, [("base LM", f"{self.base}{weights(self.base_weights)}")]
        for texts, encoder in (("documents", self.documents), ("questions", self.questions)):
            frozen = ", frozen" if encoder.frozen else ""
            facts.append((texts, f"{encoder.name}{weights(encoder.weights)}{frozen}, up to {encoder.window:,} tokens"))
        layers = "layer" if lora.layers == 1 else f"{lora.layers} layers"
        return [
            *facts,
            ("reads", self.read),
            ("KV-LoRA", f"rank {lora.rank} in the last {layers}" if lora.layers else "none"),
            ("prefix", f"{self.prefix.columns} columns a layer"),
        ]

    @field_validator("read")
    @classmethod
    def _is_read(cls, value: str) -> str:
        try:
            parse_read_mode(value)
        except ConfigError as error:
            raise ValueError(f"{error.message.rstrip('.')}; {(error.hint or '').rstrip('.')}") from error
        return value

    @model_validator(mode="after")
    def _read_fits(self) -> Self:
        name = parse_read_mode(self.read).name
        if name == "routed" and not self.routing:
            raise ValueError("the routed read needs model.routing = true")
        if name == "flat" and self.quantised and self.codebook.levels > 1:
            raise ValueError("residual codes (codebook.levels > 1) need read = 'hierarchical' or 'routed'")
        return self


class AddressSettings(Settings):
    """Address codes: product quantisation of a chunk's sentence vector."""

    tokens: int = Field(24, ge=1, le=1024, description="codes of a chunk")
    codes: int = Field(512, ge=2, le=65536, description="codes in each codebook")
    dim: int = Field(8, ge=1, le=1024, description="width of a code's vector")

    @model_validator(mode="after")
    def _books_are_small(self) -> Self:
        if max(self.codes, self.dim * self.tokens) * self.tokens * self.dim > _MOST_NUMBERS:
            raise ValueError("the codebooks would be too large")
        return self


class AnswerConfidence(Settings):
    """How likely an answer is right: a logistic regression, and two thresholds."""

    weights: dict[Feature, float] = Field(description="of the features that count, see `mini/confidence.py`")
    intercept: float = 0.0
    sure: float = Field(0.5, ge=0, le=1, description="lowest probability of an answer that is given without a doubt")
    perhaps: float = Field(0.25, ge=0, le=1, description="lowest probability of one that is given as tentative")

    @model_validator(mode="before")
    @classmethod
    def _of_two_features(cls, given: Any) -> Any:
        """Models were first fitted to two features, without their names, and to a least margin."""
        if not isinstance(given, dict) or not isinstance(given.get("weights"), list | tuple):
            return given
        weights = dict(zip(("margin", "votes"), given["weights"], strict=False))
        return {name: value for name, value in given.items() if name != "least_margin"} | {"weights": weights}

    @model_validator(mode="after")
    def _thresholds_are_in_order(self) -> Self:
        if self.perhaps > self.sure:
            raise ValueError("perhaps must not be above sure")
        return self


class ReaderSettings(Settings):
    """A reader of `mini`: low-rank updates of an encoder, and a span head, in the file NAME.safetensors."""

    name: str = Field(max_length=64)
    encoder: str = Field(description="hub id or path of the encoder that is changed, a BERT or MPNet")
    rank: PositiveInt = Field(32, description="of the changes to its linear layers")
    window: int = Field(384, ge=32, description="tokens that are read at once, the question's included")
    longest: PositiveInt = Field(24, description="most tokens of an answer")
    passages: PositiveInt = Field(2, description="chunks that are read first")
    further: NonNegativeInt = Field(2, description="chunks that are read if the answer is not in the first")
    confidence: AnswerConfidence

    @field_validator("name")
    @classmethod
    def _is_file_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", value):  # else it could lead out of the model's folder
            raise ValueError("use letters, digits, dots, dashes and underscores, not starting with a dot")
        return value


class RetrieverReaderSettings(Settings):
    """A model such as `mini`: finds passages by address codes and words, and extracts the answer from their text."""

    encoder: str = Field(description="hub id or path of the sentence encoder, a BERT or MPNet")
    window: PositiveInt = Field(256, description="longest chunk in tokens; longer documents are chunked")
    context_window: NonNegativeInt = Field(0, description="most tokens of a chunk's title, headings and file name")
    question_window: PositiveInt = Field(128, description="longest question in tokens")
    address: AddressSettings = AddressSettings()
    candidates: PositiveInt = Field(64, description="chunks found, of which the best are read and the rest are sources")
    word_weight: float = Field(1.2, ge=0, le=1e6, description="what a shared word's inverse document frequency counts")
    base: ClassVar[None] = None  # it has no base LM
    quantised: ClassVar[bool] = True
    readers: tuple[ReaderSettings, ...] = Field(
        min_length=1, description="best first; the first whose encoder is available is used"
    )

    @property
    def code_numbers(self) -> tuple[int, int, int, bool]:
        """The shape of a chunk's codes: the arguments of `CodeShape`, in order."""
        return self.address.tokens, 1, self.address.codes, True

    @property
    def encoders(self) -> dict[str, str]:
        """The one encoder of documents and questions, by hub id or path."""
        return {"documents": self.encoder, "questions": self.encoder}

    def facts(self) -> list[tuple[str, str]]:
        """What the model is made of, besides its codes: labels and values for people."""
        return [
            ("finds", f"passages by {self.address.tokens} codes of {self.address.codes} and by shared words"),
            *(("reads", f"{reader.name}: {reader.encoder}") for reader in self.readers),
            ("encoder", f"{self.encoder}, up to {self.window:,} tokens"),
        ]


class LossSettings(Settings):
    """Weights of the losses besides the question loss, whose weight is 1."""

    vq: NonNegativeFloat = Field(1.0, description="lambda of the codebook and commitment losses")
    routing: NonNegativeFloat = Field(0.0, description="a question's vectors pick its document in the batch")
    reconstruction: NonNegativeFloat = Field(0.0, description="the LM reconstructs a document from its vectors")
    distillation: NonNegativeFloat = Field(0.0, description="the LM predicts as if it read the question's document")
    reconstruction_tokens: PositiveInt = Field(96, description="how much of a document is reconstructed")
    reconstruction_documents: NonNegativeInt = Field(0, description="most documents reconstructed per pass; 0: all")


class TrainingSettings(Settings):
    """How a model is trained (paper, section 4.3.1)."""

    epochs: PositiveInt = 50
    patience: NonNegativeInt = Field(0, description="stop after this many epochs without a lower loss; 0: never")
    batch_size: PositiveInt = 64
    accumulate: PositiveInt = Field(1, description="forward passes a batch is split into")
    learning_rate: float = Field(1e-5, gt=0)
    warmup: float = Field(0.01, ge=0, le=1, description="share of the steps with a rising learning rate")
    decay: float = Field(0.0, ge=0, le=1, description="share of the steps, the last, with a falling learning rate")
    clip: float = Field(100.0, gt=0, description="largest gradient norm")
    backprop_dropout: float = Field(0.0, ge=0, lt=1, description="share of documents without gradient")
    reset_codes: bool = True
    bank_documents: NonNegativeInt = Field(0, description="a question's own and the best routed; 0 is the whole batch")
    quantise_from: float = Field(0.0, ge=0, lt=1, description="share of the steps before the codebook is fitted")
    refit_codes: bool = Field(False, description="fit the codebook again at the end, to what the vectors have become")
    pca_start: bool = Field(False, description="start frozen encoders' readouts as PCA of their sentence vectors")
    precision: Literal["auto", "float32", "bf16"] = Field("auto", description="auto: bf16 where it is fast")
    gradient_checkpointing: bool = Field(False, description="recompute activations: less memory, more time")
    compile: bool = Field(False, description="compile encoders and aggregator with torch.compile")
    question_window: PositiveInt = 128
    answer_window: PositiveInt = 24
    checkpoint_seconds: PositiveInt = 300
    validation_questions: PositiveInt = Field(500, description="most questions validated on")
    validation_steps: NonNegativeInt = Field(0, description="also validate every so many steps; 0: only after epochs")
    seed: NonNegativeInt = 0
    losses: LossSettings = LossSettings()


class Config(Settings):
    """A preset: a model and its training."""

    model: ModelSettings
    training: TrainingSettings = TrainingSettings()
    reads_text: ClassVar[Literal[False]] = False

    @property
    def settings(self) -> ModelSettings:
        """Those of the model, whichever its kind."""
        return self.model


class RetrieverReaderConfig(Settings):
    """The config of a retriever-reader."""

    retriever_reader: RetrieverReaderSettings
    reads_text: ClassVar[Literal[True]] = True

    @property
    def settings(self) -> RetrieverReaderSettings:
        """Those of the model, whichever its kind."""
        return self.retriever_reader


_Config = TypeVar("_Config", Config, RetrieverReaderConfig)


def load_preset(name: str, overrides: list[str] | None = None) -> Config:
    """Load a built-in preset by name, or a TOML file by path, without its calibration, which belongs to one model.

    `overrides` are settings to change, such as `training.epochs=1`; the value is TOML, or else a string. Folders of base
    LM and encoders become absolute: the model is used from other working folders. Raises ConfigError if there is no such
    preset, or a value is invalid.
    """
    if name in preset_names():
        text = (files("mbc_engine") / "presets" / f"{name}.toml").read_text()
    elif os.path.isfile(name):  # Path.is_file() fails if the name is too long
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"The preset {name} cannot be read: {reason}.") from error
    else:
        raise ConfigError(
            f"There is no preset {name!r}.", hint=f"Presets: {', '.join(preset_names())}; or a TOML file."
        )
    config = parse_config(text, name, overrides)
    changes: dict[str, Any] = {"confidence": None, "base": from_anywhere(config.model.base, os.path.isdir)}
    for side in ("documents", "questions"):
        encoder: EncoderSettings = getattr(config.model, side)
        changes[side] = encoder.model_copy(update={"name": from_anywhere(encoder.name, os.path.isdir)})
    return config.model_copy(update={"model": config.model.model_copy(update=changes)})


def parse_config(text: str, origin: str, overrides: list[str] | None = None) -> Config:
    """Parse the TOML of a model of the paper's method. Raises ConfigError naming the first invalid setting."""
    table = _parse(text, origin)
    if "retriever_reader" in table:
        raise ConfigError(
            f"{origin} describes a retriever-reader such as mini; this needs a model of the paper's method.",
            hint="Train one with `mbc train`, starting from a preset.",
        )
    for override in overrides or []:
        _apply(table, override)
    return _validate(Config, table, origin)


def parse_model_config(text: str, origin: str) -> Config | RetrieverReaderConfig:
    """Like `parse_config`, for a model of either kind."""
    table = _parse(text, origin)
    if "retriever_reader" in table:
        return _validate(RetrieverReaderConfig, table, origin)
    return _validate(Config, table, origin)


def read_paper_config(path: Path, overrides: list[str] | None = None) -> Config:
    """Like `read_model_config`, but only for a model of the paper's method."""
    return parse_config(_read(path), str(path), overrides)


def read_model_config(path: Path) -> Config | RetrieverReaderConfig:
    """Parse a model's `config.toml`. Raises ModelError if it cannot be read, and what `parse_model_config` raises."""
    return parse_model_config(_read(path), str(path))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} cannot be read: {error}.", hint="Get the model again.") from error


def _parse(text: str, origin: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # an integer of 5,000 digits is a ValueError
        raise ConfigError(f"{origin} is not TOML: {error}") from error


def _validate(kind: type[_Config], table: dict[str, Any], origin: str) -> _Config:
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        hint = "The presets' TOML files show every setting."
        raise ConfigError(f"{origin}: {first_fault(error)}.", hint=hint) from error


def first_fault(error: ValidationError) -> str:
    """The dotted name of the first invalid setting, and what is wrong with it."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    is_unknown = first["type"] == "extra_forbidden"
    wrong = "there is no such setting" if is_unknown else first["msg"].removeprefix("Value error, ").lower()
    return f"{place}: {wrong}" if place else wrong


def _apply(table: dict[str, Any], override: str) -> None:
    """Set `a.b=value` in a nested table; the value is TOML, or else a string."""
    path, equals, text = override.partition("=")
    if not equals:
        raise ConfigError(
            f"--set {override!r} is not of the form section.key=value.", hint="For example --set model.tokens=12."
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *sections, key = path.strip().split(".")
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {override!r}: {section} is not a section.")
    table[key] = value
