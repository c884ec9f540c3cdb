"""What a shared model is made of: the files that travel. Nothing else is ever read from a hub or written to one."""

import re
from pathlib import Path
from typing import Final

from mbc_engine.errors import ConfigError
from mbc_engine.model_folder import ADAPTER, CONFIG, READER_CONFIG, READER_WEIGHTS, WEIGHTS

ADAPTER_CONFIG: Final = f"{ADAPTER}/adapter_config.json"
ADAPTER_WEIGHTS: Final = f"{ADAPTER}/adapter_model.safetensors"
CARD: Final = "README.md"
MODEL_FILES: Final = (CONFIG, WEIGHTS, ADAPTER_CONFIG, ADAPTER_WEIGHTS)
READER_FILES: Final = (READER_CONFIG, READER_WEIGHTS)
# Those that a model may do without come after those that it may not.
SHARED_FILES: Final = (*MODEL_FILES, *READER_FILES, CARD)
TENSOR_FILES: Final = (WEIGHTS, ADAPTER_WEIGHTS, READER_WEIGHTS)

_PART: Final = r"(?!.*(?:--|\.\.))[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
_HUB_ID: Final = re.compile(f"{_PART}(?:/{_PART})?")
_LONGEST: Final = 96


def files_of(folder: Path) -> tuple[str, ...]:
    """The files of the model in a folder, those that it may do without if one of their kind is there."""
    has_reader = any((folder / name).is_file() for name in READER_FILES)
    return (*MODEL_FILES, *READER_FILES) if has_reader else MODEL_FILES


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
