"""Training sets: documents kept once, epochs that can be entered anywhere, and cached states of their texts."""

import pytest
import torch

from mbc_engine.datasets.examples import QAExample
from mbc_engine.events import Progressed
from mbc_engine.training.data import TextStates, TrainingSet


def example(text, question, *answers):
    return QAExample(question, text, question, answers or ("yes",))


@pytest.fixture
def data():
    return TrainingSet(
        [example("A", "a1"), example("B", "b1", "long answer", "short"), example("A", "a2"), example("C", "c")]
    )


def test_batch(data):
    batch = data.batch([3, 2, 0])
    assert (batch.examples, batch.documents, batch.positions) == ([3, 2, 0], [2, 0], [0, 1, 1])


def test_order_of_an_epoch():
    data = TrainingSet([example(str(index), str(index)) for index in range(32)])

    def order(epoch, seed, skip=0):
        return [batch.examples for batch in data.epoch(epoch, 5, seed=seed, skip=skip)]

    assert order(0, 7) == order(0, 7)
    assert len({index for batch in order(0, 7) for index in batch}) == 30  # the last two would be a partial batch
    assert order(0, 7) != order(1, 7)
    assert order(0, 7) != order(0, 8)
    assert order(0, 7, skip=2) == order(0, 7)[2:]
    assert order(0, 7, skip=6) == []


TEXTS = [
    "Where did the old painter move to in the spring, and who left the town in the winter?",
    "Ada moved.",
    "",
    "Hugo moved to Haifa and nobody was hurt.",
    "Ada moved.",
    "Which town?",
]


@pytest.fixture(params=["bert", "t5"])
def encoder(request, tiny):
    frozen = ["model.documents.frozen=true", "model.questions.frozen=true", "model.documents.window=12"]
    return tiny.model("gpt2", request.param, *frozen).documents


def filled(encoder, folder):
    cached = TextStates(encoder, TEXTS, folder)
    return cached, list(cached.fill())


def test_cached_states_equal_computed_ones(encoder, tmp_path):
    cached, _ = filled(encoder, tmp_path)
    live = TextStates(encoder, TEXTS)
    for chosen in ([0], [1, 5, 4], [3, 2, 0, 1], [5] * 2):
        (states, mask), (expected, expected_mask) = cached.states(chosen), live.states(chosen)
        assert torch.equal(mask, expected_mask)
        assert states.dtype == torch.float32
        real = mask.bool()
        torch.testing.assert_close(states[real], expected.detach()[real], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("batch", [1, 4])
def test_interrupted_fill_is_completed(encoder, tmp_path, monkeypatch, batch):
    monkeypatch.setattr(TextStates, "BATCH", batch)
    filled(encoder, tmp_path)
    (file,) = tmp_path.glob("*.f16")
    content = file.read_bytes()
    row = 2 * encoder.amortizer.pretrained.config.hidden_size
    for left in (0, 1, row, 5 * row, 5 * row + 7, len(content) - row, len(content) - 1):
        file.write_bytes(content[:left])
        _, events = filled(encoder, tmp_path)
        assert file.read_bytes() == content
        assert events[-1] == Progressed("read texts", 6, 6)


def test_cache_depends_on_texts_and_window(encoder, tmp_path):
    list(TextStates(encoder, TEXTS, tmp_path).fill())
    list(TextStates(encoder, TEXTS[:3], tmp_path).fill())
    encoder.window = 9
    list(TextStates(encoder, TEXTS, tmp_path).fill())
    assert len(list(tmp_path.glob("*.f16"))) == 3
