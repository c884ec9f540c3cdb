"""What a shared model is made of: the files that travel. Nothing else is ever read from a hub or written to one."""

import re
from typing import Final

from mbc_engine.errors import ConfigError
from mbc_engine.model_folder import ADAPTER, CONFIG, WEIGHTS

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
