"""Memorising and answering, end to end; and that layers computed twice, and compiled parts, give the same."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.lm.pretrained import checkpoint_layers
from mbc_engine.paper.memories import CodeMemory
from mbc_engine.paper.model import compile_parts

TEXTS = [
    "The river rose, the bridge held, and nobody was hurt.",
    "Ada moved.",
    "Hugo moved to Haifa in the spring.",
    "Which town did the old painter leave?",
    "Irene moved to Izmir.",
]
QUESTIONS = ["Where did Ada move in the spring?", "Who?"]


@pytest.mark.parametrize("encoder", ["bert", "t5"])
def test_codes_do_not_depend_on_the_batch(tiny, encoder):
    """With codes so alike that the last bits of vectors, which depend on the batch, decide between them."""
    model = tiny.model("gpt2", encoder, "model.codebook.codes=512")
    torch.nn.init.normal_(model.codebook.books, mean=1.0, std=1e-7)
    alone = {text: model.memorise([text])[0].tolist() for text in TEXTS}

    @given(st.lists(st.sampled_from(TEXTS), max_size=12))
    def check(texts):
        assert model.memorise(texts).tolist() == [alone[text] for text in texts]

    check()


@pytest.mark.parametrize("base", ["gpt2", "llama"])
@pytest.mark.parametrize("mode", ["flat", "routed"])
def test_answers_equal_the_parts_by_hand(tiny, base, mode):
    model = tiny.model(base, "bert", "model.routing=true", "model.codebook.per_position=true")
    torch.nn.init.normal_(model.codebook.books)
    memory = CodeMemory(model.memorise(TEXTS), model.codebook)
    answers = model.answer_from(QUESTIONS, memory, read_mode=mode, top=3)
    with torch.no_grad():
        question, bank = model.questions(QUESTIONS), memory.vectors_at(np.arange(5))
        scores = model.router.scores(question, bank)
        for index, (answer, hits) in enumerate(answers):
            best = scores[index].topk(2).indices if mode == "routed" else torch.arange(5)
            rows = bank[best].flatten(0, 1).unsqueeze(0)
            read = model.aggregator(question[index : index + 1], rows)
            assert [answer] == model.base.generate(model.prefix(read.modulation), [QUESTIONS[index]])
            shares = scores[index].softmax(-1) if mode == "routed" else read.attention[0].view(5, 4).sum(-1)
            best_first = shares.argsort(descending=True, stable=True)
            assert [hit.chunk for hit in hits] == best_first[:3].tolist()
            found = [hit.share for hit in hits]
            assert found == pytest.approx(shares[best_first[:3]].tolist(), rel=1e-4)


def test_frozen_parts_have_no_dropout(tiny):
    model = tiny.model("llama", "bert", "model.documents.frozen=true", "model.lora.dropout=0.1").train()
    assert not any(part.training for part in model.documents.amortizer.pretrained.modules())
    assert all(part.training for part in model.questions.amortizer.pretrained.modules())
    trained = {type(part) for part in model.base.model.modules() if part.training and not [*part.children()]}
    assert trained == {torch.nn.Dropout}  # of the LoRA
    assert not any(part.training for part in model.eval().modules())


DIFFERENT_TEXTS = ["Mara Quist won the regatta", "Ivo Lenn lost it in the rain of the north"]


def outcome(model, texts):
    """The loss of answers that are read from texts, every gradient, and how many numbers are kept for the gradients."""
    kept = {}

    def keep(value):
        kept[value.data_ptr()] = value.numel()
        return value

    questions, windows = ["Who won it in the rain?", "Who lost it then?"], {"question_window": 32, "answer_window": 16}
    targets = model.base.prompt_tokenizer.question_answer_targets(questions, ["Mara Quist", "Ivo Lenn"], **windows)
    model.zero_grad()
    torch.manual_seed(0)  # of dropout
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        memory = model.documents(texts).flatten(0, 1).expand(2, -1, -1)
        read = model.aggregator(model.questions(questions), memory).modulation
        loss = model.base.loss(model.prefix(read), targets)
    loss.backward()
    gradients = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
    return loss.detach(), gradients, sum(kept.values())


@pytest.mark.parametrize("base", ["gpt2", "llama"])
@pytest.mark.parametrize("encoder", ["bert", "t5"])
def test_checkpointed_layers_give_the_same_gradients_and_keep_less(tiny, base, encoder):
    plain, checkpointed = (tiny.model(base, encoder, "model.lora.dropout=0.2").train() for _ in range(2))
    checkpoint_layers(checkpointed)
    *expected, kept = outcome(plain, DIFFERENT_TEXTS)
    *found, fewer = outcome(checkpointed, DIFFERENT_TEXTS)
    torch.testing.assert_close(found, expected)
    assert any("lora" in name for name in expected[1])
    assert any("documents" in name for name in expected[1])
    assert fewer < kept / 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # looked at by the compiler
@pytest.mark.parametrize("encoder", ["bert", "t5"])
def test_compiled_parts_give_the_same_result_and_gradients(tiny, encoder):
    plain, compiled = tiny.model("gpt2", encoder), tiny.model("gpt2", encoder)
    names = list(compiled.state_dict())
    compile_parts(compiled, backend="eager")  # everything but compiling kernels
    assert list(compiled.state_dict()) == names
    for texts in (DIFFERENT_TEXTS, DIFFERENT_TEXTS[:1]):  # other shapes
        torch.testing.assert_close(outcome(compiled, texts)[:2], outcome(plain, texts)[:2])
