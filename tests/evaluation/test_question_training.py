"""Training on questions: what is learned, what is kept, and that an interruption changes nothing."""

import pytest
import torch
from safetensors.torch import load_file

from mbc_engine.config import LoraSettings
from mbc_engine.datasets.layout import QAExample
from mbc_engine.errors import DataError, ModelError
from mbc_engine.evaluation import fine_tuning
from mbc_engine.evaluation.fine_tuning import add_gradients, batches_by_length, train_on_questions
from mbc_engine.evaluation.language_models import answers, passage_chunker
from mbc_engine.evaluation.suite import Tuning
from mbc_engine.events import TuningStep
from mbc_engine.lm.base import load_base
from mbc_engine.paper.kv_lora import adapter_state, add_kv_lora, load_adapter


def train(base, examples, folder, *, validation=None, **changes):
    options = {"epochs": 2, "batch_size": 4, "learning_rate": 1e-3, "seed": 3, **changes}
    settings = Tuning(**{name: options.pop(name) for name in Tuning.model_fields if name in options})
    validation = examples[:4] if validation is None else validation
    return train_on_questions(base, examples, validation, folder, settings, **options)


def weights_of(folder):
    return load_file(folder / "model.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_saved_model_answers_its_training_questions(tiny, examples, tmp_path):
    asked = examples(8)
    base = load_base(str(tiny.bases["llama"]))
    questions = [example.question for example in asked]
    assert answers(base, questions) != [example.answers[0] for example in asked]
    list(train(base, asked, tmp_path / "out", epochs=40, learning_rate=1e-2, batch_size=8, validation=asked))
    trained = load_base(str(tmp_path / "out"))
    assert answers(trained, questions) == [example.answers[0] for example in asked]


def test_the_best_validated_weights_are_kept(tiny, examples, tmp_path, monkeypatch):
    """A rate at which training soon makes the held-back questions worse."""
    asked, held_back = examples(40), examples(50)[40:]
    base = load_base(str(tiny.bases["gpt2"]))
    kept, losses = [], []

    def validated(*given):
        losses.append(fine_tuning_loss(*given))
        kept.append({name: value.detach().clone() for name, value in base.model.named_parameters()})
        return losses[-1]

    fine_tuning_loss = fine_tuning._loss
    monkeypatch.setattr(fine_tuning, "_loss", validated)
    list(train(base, asked, tmp_path, epochs=5, learning_rate=0.02, validation=held_back))
    best = losses.index(min(losses))
    assert 0 < best < 4  # neither the first nor the last: otherwise this tests nothing
    assert same(weights_of(tmp_path), kept[best])


def test_gradients_of_parts_add_up(tiny, examples, monkeypatch):
    found, counted = [], []
    for tokens in (10_000, 60, 1):
        monkeypatch.setattr("mbc_engine.evaluation.fine_tuning._TOKENS", tokens)
        base = load_base(str(tiny.bases["llama"]))
        base.tune()
        asked = base.prompt_tokenizer.question_answer_targets(
            [example.question * (number + 1) for number, example in enumerate(examples(6))],
            [example.answers[0] for example in examples(6)],
            question_window=64,
            answer_window=16,
        )
        counted.append(len(list(asked.by_length(6, tokens))))
        loss = add_gradients(base.eval(), asked, "float32")
        found.append((loss, {name: value.grad for name, value in base.named_parameters() if value.grad is not None}))
    assert counted[0] == 1
    assert counted[2] == 6
    assert 1 < counted[1] < 6
    for loss, gradients in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-5)
        torch.testing.assert_close(gradients, found[0][1], rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("optimiser", "stops_after"), [("adam", 1), ("adafactor", 3), ("adam", 4), ("adafactor", 6)])
def test_interrupted_training_is_identical(tiny, examples, tmp_path, optimiser, stops_after):
    asked = examples(12)

    def begun(folder):
        base = load_base(str(tiny.bases["gpt2"]))
        return train(base, asked, tmp_path / folder, optimiser=optimiser, snapshot_seconds=0)

    whole = [event.loss for event in begun("whole") if isinstance(event, TuningStep)]
    interrupted, losses = begun("parts"), []
    for _ in range(stops_after):
        event = next(interrupted)
        losses += [event.loss] if isinstance(event, TuningStep) else []
    del interrupted  # like a kill: only what is on the disk is left
    rest = [event for event in begun("parts") if isinstance(event, TuningStep)]
    assert [*losses[: rest[0].step - 1], *(event.loss for event in rest)] == whole
    assert same(weights_of(tmp_path / "whole"), weights_of(tmp_path / "parts"))


def test_what_cannot_be_trained_is_refused(tiny, examples, tmp_path):
    with pytest.raises(DataError, match="no questions"):
        list(train(load_base(str(tiny.bases["gpt2"])), [], tmp_path))
    with pytest.raises(ModelError, match="float32"):
        list(train(load_base(str(tiny.bases["gpt2"]), weights="bf16"), examples(8), tmp_path))


@pytest.mark.parametrize("reads", [False, True])
def test_batches_have_similar_lengths(reads):
    long = ["x" * (number * 37 % 101) for number in range(101)]
    other = ["y" * (number * 53 % 401) for number in range(101)]  # what is not read is no length to go by
    asked = [
        QAExample(str(number), *(("y" * 400 + x, "") if reads else (y, x)), ("a",))
        for number, (x, y) in enumerate(zip(long, other, strict=True))
    ]

    def padding(batch):
        lengths = [len(one.text if reads else one.question) for one in batch]
        return max(lengths) * len(lengths) - sum(lengths)

    for seed in (1, 2):
        batches = batches_by_length(asked, 4, seed=seed, reads=reads)
        assert sorted(int(example.id) for batch in batches for example in batch) == list(range(101))
        assert sum(map(padding, batches)) / sum(map(len, long)) < 0.1
    one, again, another = (batches_by_length(asked, 4, seed=seed, reads=reads) for seed in (1, 1, 2))
    assert one == again != another


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
    before = {name: value.clone() for name, value in base.named_parameters()}
    list(train(base, examples(8), tmp_path, reads=True, lora=lora))
    kept = {name.replace(".base_layer", ""): value for name, value in base.named_parameters() if "lora_" not in name}
    assert same(kept, before)
    add_kv_lora(other.model, **lora.model_dump())
    load_adapter(other.model, tmp_path)
    changed = [value for name, value in adapter_state(other.model).items() if "lora_B" in name]
    assert changed and all(value.any() for value in changed)
    assert same(adapter_state(other.model), adapter_state(base.model))
