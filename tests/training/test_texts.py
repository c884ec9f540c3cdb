"""Cached token states against computed ones, and caches that were cut off."""

from pathlib import Path
from typing import Any

import pytest
import torch

from mbc_engine.events import Progressed
from mbc_engine.training.data import TextStates

TEXTS = [
    "Where did the old painter move to in the spring, and who left the town in the winter?",
    "Ada moved.",
    "",
    "Hugo moved to Haifa and nobody was hurt.",
    "Ada moved.",
    "Which town?",
]


@pytest.fixture(params=["bert", "t5"])
def encoder(request: pytest.FixtureRequest, tiny: Any) -> Any:
    frozen = ["model.documents.frozen=true", "model.questions.frozen=true", "model.documents.window=12"]
    return tiny.model("gpt2", request.param, *frozen).documents


def filled(encoder: Any, folder: Path) -> tuple[TextStates, list[Progressed]]:
    cached = TextStates(encoder, TEXTS, folder)
    return cached, list(cached.fill())


def test_cached_states_equal_computed_ones(encoder: Any, tmp_path: Path) -> None:
    cached, _ = filled(encoder, tmp_path)
    live = TextStates(encoder, TEXTS)
    for chosen in ([0], [1, 5, 4], [3, 2, 0, 1], [5] * 2):
        (states, mask), (expected, expected_mask) = cached.states(chosen), live.states(chosen)
        assert torch.equal(mask, expected_mask)
        assert states.dtype == torch.float32
        real = mask.bool()
        torch.testing.assert_close(states[real], expected.detach()[real], rtol=2e-3, atol=2e-3)


def test_fill_reports_progress(encoder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextStates, "BATCH", 4)
    _, events = filled(encoder, tmp_path)
    assert events == [Progressed("read texts", 4, 6), Progressed("read texts", 6, 6)]
    (file,) = tmp_path.glob("*.f16")
    content = file.read_bytes()
    cached, again = filled(encoder, tmp_path)
    assert again == []
    assert file.read_bytes() == content
    assert cached.states([0])[0].shape == (1, 12, encoder.amortizer.pretrained.config.hidden_size)


@pytest.mark.parametrize("batch", [1, 4])
def test_interrupted_fill_is_completed(
    encoder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(TextStates, "BATCH", batch)
    filled(encoder, tmp_path)
    (file,) = tmp_path.glob("*.f16")
    content = file.read_bytes()
    row = 2 * encoder.amortizer.pretrained.config.hidden_size
    for left in (0, 1, row, 5 * row, 5 * row + 7, len(content) - row, len(content) - 1):
        file.write_bytes(content[:left])
        cached, events = filled(encoder, tmp_path)
        assert file.read_bytes() == content
        assert events[-1] == Progressed("read texts", 6, 6)
        live = TextStates(encoder, TEXTS)
        for index in range(6):
            states, expected = cached.states([index])[0], live.states([index])[0]
            torch.testing.assert_close(states, expected.detach(), rtol=2e-3, atol=2e-3)


def test_cache_depends_on_texts_and_window(encoder: Any, tmp_path: Path) -> None:
    list(TextStates(encoder, TEXTS, tmp_path).fill())
    list(TextStates(encoder, TEXTS[:3], tmp_path).fill())
    encoder.window = 9
    list(TextStates(encoder, TEXTS, tmp_path).fill())
    assert len(list(tmp_path.glob("*.f16"))) == 3


def test_computed_states_have_gradients(tiny: Any) -> None:
    encoder = tiny.model("gpt2", "bert").documents
    states, _ = TextStates(encoder, TEXTS).states([0, 3])
    states.square().sum().backward()
    assert any(parameter.grad is not None for parameter in encoder.amortizer.pretrained.parameters())
