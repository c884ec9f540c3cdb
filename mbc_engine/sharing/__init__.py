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
    """The config of the model in a folder, after checking its settings and files; `what` names it in errors.

    Raises ModelError if something is missing, damaged or unsafe, or it is a retriever-reader. That the weights are
    those of the config is checked when they are loaded.
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
        _require_sound(folder / WEIGHTS)
        _require_sound(folder / ADAPTER_WEIGHTS)
    except ValueError as error:
        raise ModelError(f"{what} cannot be used: {error}.", hint=hint) from error
    except OSError as error:
        raise ModelError(f"{what} cannot be read: {error}.", hint=hint) from error
    return config


# The checks below raise ValueError with what is wrong, worded to follow a colon.


def _parsed(path: Path) -> Config | RetrieverReaderConfig:
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
    CodeShape(*settings.code_numbers)


def _require_sound(path: Path) -> None:
    """Only the header is read; safetensors makes sure that it agrees with the file's length."""
    try:
        with safe_open(path, framework="np"):
            pass
    except SafetensorError as error:
        raise ValueError(f"{path.name} is damaged ({error})") from error
