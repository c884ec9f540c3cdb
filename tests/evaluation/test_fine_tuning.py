"""Fine-tuning, on a stream and on questions: steps by hand, what is learned, kept and restored, and that an
interruption changes nothing."""

import pytest
import torch
from safetensors.torch import load_file

from mbc_engine.config import LoraSettings
from mbc_engine.datasets.examples import QAExample
from mbc_engine.errors import DataError, ModelError
from mbc_engine.evaluation import fine_tuning
from mbc_engine.evaluation.fine_tuning import FineTuned, add_gradients, batches_by_length, sweep, train_on_questions
from mbc_engine.evaluation.language_models import passage_chunker
from mbc_engine.evaluation.methods import MethodAnswer
from mbc_engine.evaluation.suite import Tuning
from mbc_engine.evaluation.token_weights import salient_spans, uniform
from mbc_engine.events import RateTried, run_to_completion
from mbc_engine.lm.base import load_base
from mbc_engine.paper.kv_lora import adapter_state, add_kv_lora, load_adapter
from tests.evaluation.conftest import assert_resumes

DOCUMENTS = ["Ada moved to Aalen in the spring.", "The river rose, the bridge held.", "Hugo moved to Haifa."]


def tuned(base, weights=uniform, **changes):
    return FineTuned(base, weights, **{"rate": 1e-3, "optimiser": "adam", "window": 64, **changes})


def state(base):
    return {name: value.detach().clone() for name, value in base.named_parameters()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


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


@pytest.mark.parametrize("optimiser", ["adam", "adafactor"])
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


@pytest.mark.parametrize("document", ["", "it rained and it rained"])
def test_what_weighs_nothing_makes_no_step(base, document):
    before, method = state(base), tuned(base, salient_spans() if document else uniform)
    method.adapt([document])
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


# What a method answers by its rate: at 0.1 right, at 0.2 half right twice, at 0.3 one right, one wrong.
BY_RATE = {0.1: ["Aalen", "Bergen"], 0.2: ["Aalen in", "Bergen in"], 0.3: ["Aalen", "Cadiz"], 0.4: ["", ""]}


@pytest.mark.parametrize(
    ("rates", "best"),
    [([0.2, 0.1, 0.3], 0.1), ([0.2, 0.3], 0.2), ([0.4, 0.3], 0.3), ([2.1, 1.1, 3.1], 1.1), ([0.4], 0.4)],
)
def test_sweep_takes_best_f1_then_smallest_rate(tiny, monkeypatch, rates, best):
    monkeypatch.setattr(FineTuned, "answer", lambda own, _: map(MethodAnswer, BY_RATE[round(own._rate % 1, 1)]))
    asked = [
        QAExample("0", "Ada moved.", "Where?", ("Aalen",)),
        QAExample("1", "Bru moved.", "Where?", ("Bergen", "Bergen in Norway")),
    ]
    base, tried = load_base(str(tiny.bases["gpt2"])), []
    before = state(base)

    def note(event):
        tried.append(event)
        assert same(before, state(base))  # each rate starts from the same weights

    assert run_to_completion(sweep(base, uniform, rates, asked, optimiser="adam", window=64), note) == best
    assert [event.rate for event in tried] == rates
    if 0.3 in rates:
        assert RateTried(0.3, exact_match=50.0, f1=50.0) in tried


def train(base, examples, folder, *, validation=None, **changes):
    options = {"epochs": 2, "batch_size": 4, "learning_rate": 1e-3, "seed": 3, **changes}
    settings = Tuning(**{name: options.pop(name) for name in Tuning.model_fields if name in options})
    validation = examples[:4] if validation is None else validation
    return train_on_questions(base, examples, validation, folder, settings, **options)


def test_the_best_validated_weights_are_kept(tiny, examples, tmp_path, monkeypatch):
    """A rate at which training soon makes the held-back questions worse."""
    asked, held_back = examples(40), examples(50)[40:]
    base = load_base(str(tiny.bases["gpt2"]))
    kept, losses = [], []

    def validated(*given):
        losses.append(fine_tuning_loss(*given))
        kept.append(state(base.model))
        return losses[-1]

    fine_tuning_loss = fine_tuning._loss
    monkeypatch.setattr(fine_tuning, "_loss", validated)
    list(train(base, asked, tmp_path, epochs=5, learning_rate=0.02, validation=held_back))
    best = losses.index(min(losses))
    assert 0 < best < 4  # neither the first nor the last: otherwise this tests nothing
    assert same(load_file(tmp_path / "model.safetensors"), kept[best])


def test_gradients_of_parts_add_up(tiny, examples, monkeypatch):
    asked, found, counted = examples(6), [], []
    for tokens in (10_000, 60, 1):
        monkeypatch.setattr("mbc_engine.evaluation.fine_tuning._TOKENS", tokens)
        base = load_base(str(tiny.bases["llama"]))
        base.tune()
        questions = [example.question * (number + 1) for number, example in enumerate(asked)]
        answers = [example.answers[0] for example in asked]
        windows = {"question_window": 64, "answer_window": 16}
        targets = base.prompt_tokenizer.question_answer_targets(questions, answers, **windows)
        counted.append(len(list(targets.by_length(6, tokens))))
        loss = add_gradients(base.eval(), targets, "float32")
        found.append((loss, {name: value.grad for name, value in base.named_parameters() if value.grad is not None}))
    assert counted[0] == 1 < counted[1] < counted[2] == 6
    for loss, gradients in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-5)
        torch.testing.assert_close(gradients, found[0][1], rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("optimiser", "stops_after"), [("adam", 1), ("adafactor", 3), ("adam", 4), ("adafactor", 6)])
def test_interrupted_training_is_identical(tiny, examples, tmp_path, optimiser, stops_after):
    def training(folder):
        base = load_base(str(tiny.bases["gpt2"]))
        return train(base, examples(12), folder, optimiser=optimiser, snapshot_seconds=0)

    assert_resumes(training, tmp_path, stops_after, "model.safetensors")


def test_what_cannot_be_trained_is_refused(tiny, examples, tmp_path):
    with pytest.raises(DataError, match="no questions"):
        list(train(load_base(str(tiny.bases["gpt2"])), [], tmp_path))
    with pytest.raises(ModelError, match="float32"):
        list(train(load_base(str(tiny.bases["gpt2"]), weights="bf16"), examples(8), tmp_path))


def test_batches_have_similar_lengths():
    asked = [QAExample(str(n), "y" * (n * 53 % 401), "x" * (n * 37 % 101), ("a",)) for n in range(101)]
    for reads in (False, True):
        one, again, another = (batches_by_length(asked, 4, seed=seed, reads=reads) for seed in (1, 1, 2))
        assert one == again != another
        assert sorted(int(example.id) for batch in one for example in batch) == list(range(101))
        lengths = [[len(own.question) + reads * len(own.text) for own in batch] for batch in one]
        assert sum(max(batch) * len(batch) for batch in lengths) < 1.1 * sum(map(sum, lengths))  # little padding


def test_reader_trains_on_the_chunk_with_the_answer(tiny, tmp_path, monkeypatch):
    """As when answering; given the beginning, it would learn to answer what it did not read."""
    base = load_base(str(tiny.bases["gpt2"]))
    text = "The river rose, and the bridge held. " * base.context + "Ada moved to Aalen."
    asked = [
        QAExample("", text, "Where did Ada move?", ("Aalen",)),
        QAExample("", "Hugo moved to Haifa.", "Where did Hugo move?", ("Haifa",)),
    ]
    read = set()
    usual = base.prompt_tokenizer.question_answer_targets

    def noted(*given, passages, **rest):
        read.update(passages)
        return usual(*given, passages=passages, **rest)

    monkeypatch.setattr(base.prompt_tokenizer, "question_answer_targets", noted)
    list(train(base, asked, tmp_path, reads=True, epochs=1, validation=asked))
    chunks = passage_chunker(base)(text)
    assert len(chunks) > 1
    assert read == {chunks[-1], "Hugo moved to Haifa."}


def test_a_kv_lora_alone_is_trained(tiny, examples, tmp_path):
    lora = LoraSettings(rank=2, alpha=4, layers=1, dropout=0.0)
    base, other = (load_base(str(tiny.bases["llama"])) for _ in range(2))
    before = state(base)
    list(train(base, examples(8), tmp_path, reads=True, lora=lora))
    kept = {name.replace(".base_layer", ""): value for name, value in base.named_parameters() if "lora_" not in name}
    assert same(kept, before)
    add_kv_lora(other.model, **lora.model_dump())
    load_adapter(other.model, tmp_path)
    changed = [value for name, value in adapter_state(other.model).items() if "lora_B" in name]
    assert changed and all(value.any() for value in changed)
    assert same(adapter_state(other.model), adapter_state(base.model))
