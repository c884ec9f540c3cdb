"""The paper's model: each part of section 3 in its own file, composed by `model.py`."""

from mbc_engine.machine import require_extra

require_extra("train", "peft", asked_by="A model of the paper's method")
