"""Trainings of tiny models, and what they leave."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from torch import Tensor

from mbc_engine.config import Config
from mbc_engine.events import Event
from mbc_engine.training.trainer import train

FROZEN = ["model.documents.frozen=true", "model.questions.frozen=true"]
ROUTED = ["model.routing=true", "training.losses.routing=1.0"]
Runner = Callable[..., list[Event]]


@pytest.fixture
def start(tmp_path: Path, examples: Any) -> Runner:
    def start(config: Config, run: str, *, validate: int = 3, until: Any = None, **options: Any) -> list[Event]:
        """All events of a training on 20 questions, or those until `until` is true of one."""
        events = []
        running = train(config, examples(20), examples(validate), tmp_path / run, cache=tmp_path / "cache", **options)
        for event in running:
            events.append(event)
            if until is not None and until(event):
                break
        running.close()
        return events

    return start


def tensors(path: Path) -> dict[str, Tensor]:
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def of(kind: type[Event], events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]
