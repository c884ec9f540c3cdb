"""Training: data, token states, objective, loop, snapshots."""

from mbc_engine.machine import require_extra

require_extra("train", "accelerate", "peft", asked_by="Training")
