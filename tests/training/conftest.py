"""Trainings of tiny models, and what they leave."""

import pytest
from safetensors import safe_open

from mbc_engine.training.trainer import train

FROZEN = ["model.documents.frozen=true", "model.questions.frozen=true"]
ROUTED = ["model.routing=true", "training.losses.routing=1.0"]


@pytest.fixture
def start(tmp_path, examples):
    def start(config, run, *, validate=3, until=None, **options):
        """All events of a training on 20 questions, or those until `until`, which is called with each, is true."""
        events = []
        running = train(config, examples(20), examples(validate), tmp_path / run, cache=tmp_path / "cache", **options)
        for event in running:
            events.append(event)
            if until is not None and until(event):
                break
        running.close()
        return events

    return start


def tensors(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]
