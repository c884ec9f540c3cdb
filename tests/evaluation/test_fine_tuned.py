"""Fine-tuning on a stream: steps by hand, what is restored, and that it learns what the model alone cannot know."""

from typing import ClassVar

import pytest
import torch

from mbc_engine.datasets.layout import QAExample
from mbc_engine.evaluation import fine_tuning
from mbc_engine.evaluation.fine_tuning import FineTuned, sweep
from mbc_engine.evaluation.methods import MethodAnswer
from mbc_engine.evaluation.token_weights import salient_spans, uniform
from mbc_engine.events import RateTried
from mbc_engine.lm.base import load_base
from tests.conftest import qa_examples

DOCUMENTS = ["Ada moved to Aalen in the spring.", "The river rose, the bridge held.", "Hugo moved to Haifa."]
PEOPLE = qa_examples(50)
KNOWN, STRANGERS = PEOPLE[:30], PEOPLE[30:]
OPTIMISERS = ["adam", "adafactor"]


def tuned(base, weights=uniform, **changes):
    return FineTuned(base, weights, **{"rate": 1e-3, "optimiser": "adam", "window": 64, **changes})


def state(base):
    return {name: value.detach().clone() for name, value in base.named_parameters()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("base", ["gpt2", "llama"], indirect=True)
def test_a_step_on_each_document_in_order_by_hand(base, tiny):
    other = load_base(base.model.name_or_path).model.requires_grad_(True)
    plain = torch.optim.Adam(other.parameters(), lr=1e-3)
    for document in DOCUMENTS:
        ids = torch.tensor([[base.tokenizer.eos_token_id, *base.tokenizer(document)["input_ids"]]])
        other(input_ids=ids, labels=ids).loss.backward()
        plain.step()
        plain.zero_grad()
    tuned(base).adapt(DOCUMENTS)
    width = base.shape.dim
    for name, value in other.named_parameters():
        equal = torch.isclose(base.model.get_parameter(name), value, atol=1e-5)
        if name.endswith("c_attn.bias"):
            equal[width : 2 * width] = True  # a bias of keys changes nothing: Adam makes steps of rounding errors
        assert equal.all(), name


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_a_reset_restores_weights_and_optimiser(base, optimiser):
    before = state(base)
    method = tuned(base, optimiser=optimiser)
    method.adapt(DOCUMENTS[:2])
    first = state(base)
    assert not same(before, first)
    method.reset()
    assert same(before, state(base))
    method.adapt(DOCUMENTS[:2])
    assert same(first, state(base))


@pytest.mark.parametrize("documents", [["", " "], ["it rained and it rained"]])
def test_what_weighs_nothing_makes_no_step(base, documents):
    before, method = state(base), tuned(base, salient_spans() if documents[0] else uniform)
    method.adapt(documents[:1])
    assert same(before, state(base))
    assert method.footprint().on_disk == 0


def test_the_footprint_is_the_changed_weights_as_stored(base, tmp_path):
    method = tuned(base)
    assert (method.footprint().on_disk, method.footprint().paper_row) == (0, None)
    method.adapt(DOCUMENTS)
    base.save(tmp_path)
    stored = (tmp_path / "model.safetensors").stat().st_size
    assert 0.9 * stored < method.footprint().on_disk <= stored  # a header is stored too
    method.reset()
    assert method.footprint().on_disk == 0


class RecordedFineTuned(FineTuned):
    """A method that answers by its rate: at 0.1 right, at 0.2 half right twice, at 0.3 one right, one wrong."""

    answers_by_rate: ClassVar = {
        0.1: ["Aalen", "Bergen"],
        0.2: ["Aalen in", "Bergen in"],
        0.3: ["Aalen", "Cadiz"],
        0.4: ["", ""],
    }

    def __init__(self, *arguments, rate, **options):
        super().__init__(*arguments, rate=rate, **options)
        self.answers = self.answers_by_rate[round(rate % 1, 1)]

    def answer(self, questions):
        return [MethodAnswer(text) for text in self.answers]


@pytest.mark.parametrize(
    ("rates", "best"),
    [([0.2, 0.1, 0.3], 0.1), ([0.2, 0.3], 0.2), ([0.4, 0.3], 0.3), ([2.1, 1.1, 3.1], 1.1), ([0.4], 0.4)],
)
def test_sweep_takes_best_f1_then_smallest_rate(tiny, monkeypatch, rates, best):
    monkeypatch.setattr(fine_tuning, "FineTuned", RecordedFineTuned)
    asked = [
        QAExample("0", "Ada moved.", "Where?", ("Aalen",)),
        QAExample("1", "Bru moved.", "Where?", ("Bergen", "Bergen in Norway")),
    ]
    base = load_base(str(tiny.bases["gpt2"]))
    before = state(base)
    tried, trying = [], sweep(base, uniform, rates, asked, optimiser="adam", window=64)
    while True:
        try:
            tried.append(next(trying))
        except StopIteration as stopped:
            assert stopped.value == best
            break
        assert same(before, state(base))  # each rate starts from the same weights
    assert [event.rate for event in tried] == rates
    if 0.3 in rates:
        assert RateTried(0.3, exact_match=50.0, f1=50.0) in tried
