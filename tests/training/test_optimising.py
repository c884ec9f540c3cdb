"""Steps: gradients over the parts of a batch, resets of dead codes, clipping, the learning rate."""

from typing import Any

import pytest
import torch
from torch import Tensor

from mbc_engine.config import TrainingSettings
from mbc_engine.events import TrainStep
from mbc_engine.paper.builder import build, load_pretrained
from mbc_engine.training import objective as optimising
from mbc_engine.training.data import TextStates, TrainingSet
from mbc_engine.training.objective import Objective, adam, learning_rate
from mbc_engine.training.processes import processes_on
from tests.training.conftest import Runner, of


def test_reset_codes_setting(tiny: Any, start: Runner) -> None:
    with_reset = start(tiny.config("gpt2", "bert", "training.reset_codes=true"), "with")
    assert 0 < of(TrainStep, with_reset)[0].reset_codes <= 7
    without = start(tiny.config("gpt2", "bert", "training.reset_codes=false"), "without")
    assert not any(step.reset_codes for step in of(TrainStep, without))
    assert of(TrainStep, with_reset)[0].dead_codes == 0
    assert of(TrainStep, without)[0].dead_codes > 0


def test_accumulated_gradient(tiny: Any, start: Runner, examples: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three questions in two parts: two thirds of the first part's loss and one of the second's, each its own bank."""
    config = tiny.config("gpt2", "bert", "training.batch_size=3", "training.accumulate=2", "training.reset_codes=false")
    seen: list[dict[str, Tensor]] = []

    def keep(parameters: Any, norm: float) -> None:
        seen.append({str(tuple(value.shape)): value.grad.clone() for value in parameters if value.grad is not None})

    monkeypatch.setattr(optimising, "clip_gradients", keep)
    start(config, "run", until=lambda event: isinstance(event, TrainStep))

    data = TrainingSet(examples(20))
    torch.manual_seed(0)
    model = build(config.model, load_pretrained(config.model)).train()
    states = TextStates(model.documents, data.documents), TextStates(model.questions, data.questions)
    objective = Objective(model, data, *states, config.training, processes_on("cpu"))
    order = next(data.epoch(0, 3, seed=0)).examples
    torch.manual_seed(0)  # the first step's
    generator = torch.Generator()
    first, last = (objective(data.batch(part), generator).total for part in (order[:2], order[2:]))
    total = first * (2 / 3) + last * (1 / 3)
    total.backward()
    (gradients,) = seen
    torch.testing.assert_close(gradients[str(tuple(model.prefix.up.shape))], model.prefix.up.grad)
    torch.testing.assert_close(gradients[str(tuple(model.codebook.books.shape))], model.codebook.books.grad)


def test_optimiser_settings(tiny: Any, start: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    clips: list[float] = []
    monkeypatch.setattr(optimising, "clip_gradients", lambda values, norm: clips.append(norm))
    start(tiny.config("gpt2", "bert", "training.clip=7.0"), "run", until=lambda event: isinstance(event, TrainStep))
    assert clips == [7.0]
    optimizer = adam(tiny.model(), 1e-5)
    assert type(optimizer) is torch.optim.Adam
    for group in optimizer.param_groups:
        settings = (group["lr"], group["betas"], group["eps"], group["weight_decay"], group["amsgrad"])
        assert settings == (1e-5, (0.9, 0.999), 1e-8, 0, False)


@pytest.mark.parametrize(
    ("total", "warmup", "expected"),
    [
        (1000, 0.01, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0]),
        (10, 0.3, [1 / 3, 2 / 3, 1.0, 1.0]),
        (10, 0.0, [1.0, 1.0]),
        (3, 0.01, [1.0, 1.0]),
    ],
)
def test_warmup(total: int, warmup: float, expected: list[float]) -> None:
    settings = TrainingSettings(learning_rate=2e-5, warmup=warmup)
    rates = [learning_rate(step, total, settings) / 2e-5 for step in range(len(expected))]
    assert rates == pytest.approx(expected)
    assert learning_rate(total - 1, total, settings) == 2e-5


def test_decay() -> None:
    settings = TrainingSettings(learning_rate=2e-5, warmup=0.2, decay=0.4)
    rates = [learning_rate(step, 10, settings) / 2e-5 for step in range(10)]
    assert rates == pytest.approx([0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25])


def test_scheduled_rate_is_used(tiny: Any, start: Runner) -> None:
    events = start(tiny.config("gpt2", "bert", "training.warmup=0.5"), "run")
    rates = [event.learning_rate for event in of(TrainStep, events)]
    assert rates == pytest.approx([0.0002, 0.0004, 0.0006, 0.0008, *[0.001] * 6])
