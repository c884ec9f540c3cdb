"""What a shared model is made of: the files that travel. Nothing else is ever read from a hub or written to one.

What a shared model's files say of themselves, taken from nobody's word: checked before anything is built from them.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError, safe_open

from mbc_engine.bank import CodeShape
from mbc_engine.config import Config, ModelSettings, RetrieverReaderConfig, RetrieverReaderSettings, parse_model_config
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.model_folder import ADAPTER, CONFIG, EMBEDDED, WEIGHTS, packaged_model

ADAPTER_CONFIG: Final = f"{ADAPTER}/adapter_config.json"
ADAPTER_WEIGHTS: Final = f"{ADAPTER}/adapter_model.safetensors"
CARD: Final = "README.md"
MODEL_FILES: Final = (CONFIG, WEIGHTS, ADAPTER_CONFIG, ADAPTER_WEIGHTS)
# The card, which a model may do without, comes last.
SHARED_FILES: Final = (*MODEL_FILES, CARD)
TENSOR_FILES: Final = (WEIGHTS, ADAPTER_WEIGHTS)

_PART: Final = r"(?!.*(?:--|\.\.))[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
_HUB_ID: Final = re.compile(f"{_PART}(?:/{_PART})?")
_LONGEST: Final = 96


def is_hub_id(text: str) -> bool:
    """Whether a text has the form NAME or OWNER/NAME, which no absolute path and no way upwards has."""
    return len(text) <= _LONGEST and _HUB_ID.fullmatch(text) is not None


def require_repository(text: str) -> None:
    """Make sure that a text is OWNER/NAME.

    Raises:
        ConfigError: it is not.
    """
    if text.count("/") != 1 or not is_hub_id(text):
        raise ConfigError(
            f"{text!r} is not of the form OWNER/NAME.",
            hint="Letters, digits, dots, dashes and underscores, for example ada/notes-gpt2.",
        )


_LONGEST_TEXT: Final = 1 << 20
_FLOATS: Final = frozenset(("F16", "BF16", "F32"))
_PARTS: Final = frozenset(("documents", "questions", "codebook", "aggregator", "prefix", "router"))
_LORA_WEIGHT: Final = re.compile(r"[A-Za-z0-9_.]+\.lora_([AB])\.weight")
_WORD: Final = re.compile(r"[A-Za-z0-9_]+")
# What peft may be told, and the values of all else that tell it nothing.
_SAID: Final = frozenset(
    ("inference_mode", "layers_pattern", "layers_to_transform", "lora_alpha", "lora_dropout", "peft_version", "r",
     "target_modules")
)  # fmt: skip
_IDLE: Final[dict[str, Any]] = {
    "bias": "none",
    "init_lora_weights": True,
    "megatron_core": "megatron.core",
    "peft_type": "LORA",
    "qalora_group_size": 16,
}


@dataclass(frozen=True)
class SharedModel:
    """A model as its files describe it.

    Attributes:
        config: its settings.
        dim: D, the width of its vectors.
        stored: how many numbers its weights hold, by part; `adapter` is the LoRA.
    """

    config: Config
    dim: int
    stored: dict[str, int]

    @property
    def pretrained(self) -> dict[str, str]:
        """The names of the frozen parts, by what they are."""
        return pretrained(self.config.model)

    @property
    def shape(self) -> CodeShape:
        """What the codes of a chunk look like."""
        return code_shape(self.config.model)


def code_shape(settings: ModelSettings | RetrieverReaderSettings) -> CodeShape:
    """What the codes of a chunk look like, or would, in a model that makes none.

    Raises:
        ConfigError: no bank can hold them.
    """
    try:
        return CodeShape(*settings.code_numbers)
    except ValueError as error:
        raise ConfigError(f"No bank can hold these codes: {error}.") from error


def inspect(folder: Path, what: str, way_out: str) -> SharedModel:
    """Check the model in a folder.

    Args:
        folder: holds `MODEL_FILES`.
        what: it is called in errors, at the beginning of a sentence.
        way_out: the hint of the errors.

    Raises:
        ModelError: something is missing, damaged, does not fit together, or is not to be trusted; or it is a
            retriever-reader.
    """
    try:
        _require_files(folder, CONFIG)
        config = _config(folder)
        _require_shareable(config.model)
        _require_files(folder, *MODEL_FILES)
        _require_names(config.model)
        weights, adapter = _tensors(folder / WEIGHTS), _tensors(folder / ADAPTER_WEIGHTS)
        _require_weights(config.model, weights)
        _require_adapter(config.model, _json(folder / ADAPTER_CONFIG), adapter)
    except _Unsound as error:
        raise ModelError(f"{what} cannot be used: {error}.", hint=way_out) from error
    except OSError as error:
        raise ModelError(f"{what} cannot be read: {error.strerror or error}.", hint=way_out) from error
    stored = Counter({"adapter": sum(map(prod, adapter.values()))})
    for name, shape in weights.items():
        stored[name.partition(".")[0]] += prod(shape)
    return SharedModel(config, weights["codebook.books"][-1], dict(sorted((+stored).items())))


def pretrained(settings: ModelSettings) -> dict[str, str]:
    """The names of the frozen base LM and of the encoders, by what they are."""
    return {
        "base LM": settings.base,
        "document encoder": settings.documents.name,
        "question encoder": settings.questions.name,
    }


class _Unsound(Exception):
    """What is wrong, worded to follow a colon."""


def _config(folder: Path) -> Config:
    try:
        config = parse_model_config(_text(folder / CONFIG), CONFIG)
        if isinstance(config, Config):
            code_shape(config.model)
    except ConfigError as error:
        raise _Unsound(error.message.rstrip(".")) from error
    except RecursionError as error:
        raise _Unsound(f"{CONFIG} is nested without end") from error
    if isinstance(config, RetrieverReaderConfig):
        raise ModelError(
            "Retriever-readers such as mini cannot be shared yet.",
            hint="mini comes with mbc; models trained with `mbc train` can be shared.",
        )
    return config


def _require_files(folder: Path, *names: str) -> None:
    for name in names:
        if not (folder / name).is_file():
            raise _Unsound(f"it has no {name}")


def _require_shareable(settings: ModelSettings) -> None:
    """Models are shared to make and to read banks; those without codes or KV-LoRA are made to be compared."""
    if not settings.quantised:
        raise _Unsound("it makes no codes (model.quantised = false), and no bank could be made with it")
    if not settings.lora.layers:
        raise _Unsound("it has no KV-LoRA (model.lora.layers = 0), which shared models have")


def _require_names(settings: ModelSettings) -> None:
    """Pretrained parts are named by hub ids, or lie in this package: nothing else of this machine is opened."""
    for what, name in pretrained(settings).items():
        if what == "base LM" and name.startswith(EMBEDDED):
            inside = name.removeprefix(EMBEDDED)
            if not is_hub_id(inside) or not packaged_model(inside).is_dir():
                raise _Unsound(f"this version of mbc has no {name}")
        elif not is_hub_id(name):
            raise _Unsound(f"its {what} is {name!r}, which is a place on one machine and not a hub id")


def _require_weights(settings: ModelSettings, weights: dict[str, tuple[int, ...]]) -> None:
    """The sizes that the config claims are those of the weights; they bound what is built from them."""
    parts = {name.partition(".")[0] for name in weights}
    expected = _PARTS if settings.routing else _PARTS - {"router"}
    if parts != expected:
        raise _Unsound(f"{WEIGHTS} holds {', '.join(sorted(parts))[:200]} and not {', '.join(sorted(expected))}")
    shape, aggregator = code_shape(settings), settings.aggregator
    books = weights.get("codebook.books", ())
    dim = books[-1] if books else 0
    book = (shape.levels, shape.positions, shape.num_codes)
    inner, hidden = aggregator.heads * aggregator.head_dim, min(aggregator.hidden, dim)
    blocks = {name.split(".")[2] for name in weights if name.startswith("aggregator.blocks.")}
    prefix, up = settings.prefix, weights.get("prefix.up", ())
    fits = {
        "codebook.codes, levels and per_position": books == (*book, dim) and weights.get("codebook.usage") == book,
        "tokens": all(
            weights.get(f"{side}.amortizer.queries", ())[:1] == (shape.tokens,) for side in ("documents", "questions")
        ),
        "aggregator.blocks": blocks == {str(block) for block in range(min(aggregator.blocks, len(blocks) + 1))},
        "aggregator.heads": weights.get("aggregator.blocks.0.attention.query.weight") == (inner, dim),
        "aggregator.hidden": weights.get("aggregator.blocks.0.feed_forward.1.weight") == (hidden, dim),
        "prefix": len(up) == 3 and up[1:] == (dim, prefix.hidden) and not up[0] % (2 * prefix.columns),
    }
    for what, does in fits.items():
        if not does:
            raise _Unsound(f"the weights are not those that {CONFIG} describes ({what})")


def _require_adapter(settings: ModelSettings, said: dict[str, Any], weights: dict[str, tuple[int, ...]]) -> None:
    """A plain LoRA of the config's size on named projections, and nothing that makes peft do any more."""
    for key in said.keys() - _SAID:
        if said[key] and said[key] != _IDLE.get(key):
            raise _Unsound(f"{ADAPTER_CONFIG} sets {key!r}, which no model of mbc does")
    lora = settings.lora
    targets, layers, pattern = (said.get(key) for key in ("target_modules", "layers_to_transform", "layers_pattern"))
    is_plain = (
        said.get("peft_type") == "LORA"
        and tuple(map(said.get, ("r", "lora_alpha", "lora_dropout"))) == (lora.rank, lora.alpha, lora.dropout)
        and isinstance(targets, list)
        and 0 < len(targets) <= 2
        and all(isinstance(target, str) and _WORD.fullmatch(target) for target in targets)
        and isinstance(layers, list)
        and 0 < len(layers) <= lora.layers
        and all(type(layer) is int and layer >= 0 for layer in layers)
        and isinstance(pattern, str)
        and _WORD.fullmatch(pattern)
    )
    if not is_plain:
        raise _Unsound(f"{ADAPTER_CONFIG} is not that of the LoRA in {CONFIG}")
    for name, shape in weights.items():
        found = _LORA_WEIGHT.fullmatch(name)
        if found is None or len(shape) != 2 or shape[0 if found[1] == "A" else 1] != lora.rank:
            raise _Unsound(f"{ADAPTER_WEIGHTS} does not hold a LoRA of rank {lora.rank}")
    if len(weights) != 2 * len(targets or ()) * len(layers or ()):
        raise _Unsound(f"{ADAPTER_WEIGHTS} does not hold the layers of {ADAPTER_CONFIG}")


def _tensors(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes by name. Only the header is read; that it adds up with the file's length safetensors makes sure."""
    try:
        with safe_open(path, framework="np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            other = {part.get_dtype() for part in slices.values()} - _FLOATS
            shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
    except SafetensorError as error:
        raise _Unsound(f"{path.name} is damaged ({error})") from error
    if other:
        raise _Unsound(f"{path.name} holds {', '.join(sorted(other))} numbers")
    return shapes


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise _Unsound(f"{ADAPTER_CONFIG} is not JSON") from error
    if not isinstance(value, dict):
        raise _Unsound(f"{ADAPTER_CONFIG} holds no settings")
    return value


def _text(path: Path) -> str:
    if path.stat().st_size > _LONGEST_TEXT:
        raise _Unsound(f"{path.name} is too long to be settings")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise _Unsound(f"{path.name} is not text") from error
