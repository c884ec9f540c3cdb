"""Models shared on the hub: which files travel, and how they are checked before anything is built from them. No torch."""

import re
from pathlib import Path
from typing import Final

from safetensors import SafetensorError, safe_open

from mbc_engine.bank import CodeShape
from mbc_engine.config import (
    ADAPTER,
    CONFIG,
    EMBEDDED,
    WEIGHTS,
    Config,
    ModelSettings,
    RetrieverReaderConfig,
    RetrieverReaderSettings,
    packaged_model,
    parse_model_config,
)
from mbc_engine.errors import ConfigError, ModelError

ADAPTER_CONFIG: Final = f"{ADAPTER}/adapter_config.json"
ADAPTER_WEIGHTS: Final = f"{ADAPTER}/adapter_model.safetensors"
CARD: Final = "README.md"
MODEL_FILES: Final = (CONFIG, WEIGHTS, ADAPTER_CONFIG, ADAPTER_WEIGHTS)

_PART: Final = r"(?!.*(?:--|\.\.))[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
_HUB_ID: Final = re.compile(f"{_PART}(?:/{_PART})?")
_LONGEST_CONFIG: Final = 1 << 20
_FLOATS: Final = frozenset(("F16", "BF16", "F32"))
_PARTS: Final = frozenset(("documents", "questions", "codebook", "aggregator", "prefix", "router"))

Shapes = dict[str, tuple[int, ...]]


def is_hub_id(text: str) -> bool:
    """Whether a text has the form NAME or OWNER/NAME, which no absolute path and no way upwards has."""
    return len(text) <= 96 and _HUB_ID.fullmatch(text) is not None


def code_shape(settings: ModelSettings | RetrieverReaderSettings) -> CodeShape:
    """The shape of a chunk's codes, or what it would be without codes. Raises ConfigError if no bank can hold them."""
    try:
        return CodeShape(*settings.code_numbers)
    except ValueError as error:
        raise ConfigError(f"No bank can hold these codes: {error}.") from error


def check(folder: Path, what: str, hint: str) -> Config:
    """The config of the model in a folder, after checking settings and the headers of weights; `what` names it in errors.

    Raises ModelError if something is missing, damaged, inconsistent or unsafe, or it is a retriever-reader.
    """
    try:
        config = _parsed(folder / CONFIG)
        if isinstance(config, RetrieverReaderConfig):
            raise ModelError(
                "Retriever-readers such as mini cannot be shared yet.",
                hint="mini comes with mbc; models trained with `mbc train` can be shared.",
            )
        _check_settings(config.model)
        if missing := [name for name in MODEL_FILES if not (folder / name).is_file()]:
            raise ValueError(f"it has no {missing[0]}")
        _check_weights(config.model, _tensors(folder / WEIGHTS))
        _check_adapter(config.model, _tensors(folder / ADAPTER_WEIGHTS))
    except ValueError as error:
        raise ModelError(f"{what} cannot be used: {error}.", hint=hint) from error
    except OSError as error:
        raise ModelError(f"{what} cannot be read: {error}.", hint=hint) from error
    return config


# The checks below raise ValueError with what is wrong, worded to follow a colon.


def _parsed(path: Path) -> Config | RetrieverReaderConfig:
    if path.stat().st_size > _LONGEST_CONFIG:
        raise ValueError(f"{path.name} is too long")
    try:
        return parse_model_config(path.read_text(encoding="utf-8"), path.name)
    except (ValueError, RecursionError, ConfigError) as error:
        raise ValueError(f"{path.name} cannot be parsed: {str(error).rstrip('.')}") from error


def _check_settings(settings: ModelSettings) -> None:
    """Banks can be made with it, and its pretrained parts are on the hub or in mbc."""
    if not settings.quantised:
        raise ValueError("it makes no codes (model.quantised = false), so no bank can be made with it")
    if not settings.lora.layers:
        raise ValueError("it has no KV-LoRA (model.lora.layers = 0), which shared models have")
    inside = settings.base.removeprefix(EMBEDDED)
    if inside != settings.base and not (is_hub_id(inside) and packaged_model(inside).is_dir()):
        raise ValueError(f"this version of mbc has no {settings.base}")
    for name in (inside, settings.documents.name, settings.questions.name):
        if not is_hub_id(name):
            raise ValueError(f"{name!r} is a path on one machine, not a hub id")
    try:
        code_shape(settings)
    except ConfigError as error:
        raise ValueError(error.message.rstrip(".")) from error


def _check_weights(settings: ModelSettings, weights: Shapes) -> None:
    """The sizes in the config are those of the weights, which bound what is built from them."""
    parts = {name.partition(".")[0] for name in weights}
    expected = _PARTS if settings.routing else _PARTS - {"router"}
    if parts != expected:
        raise ValueError(f"{WEIGHTS} holds {', '.join(sorted(parts))[:200]} and not {', '.join(sorted(expected))}")
    shape, aggregator, prefix = code_shape(settings), settings.aggregator, settings.prefix
    books, up = weights.get("codebook.books", ()), weights.get("prefix.up", ())
    dim = books[-1] if books else 0
    book = (shape.levels, shape.positions, shape.num_codes)
    inner, hidden = aggregator.heads * aggregator.head_dim, min(aggregator.hidden, dim)
    blocks = {name.split(".")[2] for name in weights if name.startswith("aggregator.blocks.")}
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
    for setting, does_fit in fits.items():
        if not does_fit:
            raise ValueError(f"the weights do not match {CONFIG} ({setting})")


def _check_adapter(settings: ModelSettings, weights: Shapes) -> None:
    """The rank in the config is that of the weights. peft's own settings are written, never read."""
    rank = settings.lora.rank
    if not weights or not all(len(shape) == 2 and rank in shape for shape in weights.values()):
        raise ValueError(f"{ADAPTER_WEIGHTS} does not hold a LoRA of rank {rank}")


def _tensors(path: Path) -> Shapes:
    """Shapes by name. Only the header is read; safetensors makes sure that it adds up with the file's length."""
    try:
        with safe_open(path, framework="np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            other = {part.get_dtype() for part in slices.values()} - _FLOATS
            shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
    except SafetensorError as error:
        raise ValueError(f"{path.name} is damaged ({error})") from error
    if other:
        raise ValueError(f"{path.name} holds {', '.join(sorted(other))} numbers")
    return shapes
