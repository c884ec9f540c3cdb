"""A fresh base LM for each test, which may change it; where it matters, of another kind of attention too."""

from typing import Any

import pytest

from mbc_engine.lm.base import BaseLM, load_base


@pytest.fixture(params=["llama"])
def base(request: pytest.FixtureRequest, tiny: Any) -> BaseLM:
    return load_base(str(tiny.bases[request.param]))
