"""A base LM of each kind of attention, a fresh one for each test, which may change it."""

from typing import Any

import pytest

from mbc_engine.lm.base import BaseLM, load_base


@pytest.fixture(params=["gpt2", "llama"])
def base(request: pytest.FixtureRequest, tiny: Any) -> BaseLM:
    return load_base(str(tiny.bases[request.param]))
