"""The base LM under a prefix, against forward passes without cache, padding or batch."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mbc_engine.errors import ModelError
from mbc_engine.model.base import BaseLM, load_base
from mbc_engine.model.prefix import KVPrefix

QUESTIONS = ["Ada?", "Where did the old painter move to in the winter?", "x", "Who moved?"]


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def base(request: pytest.FixtureRequest, tiny: Any) -> BaseLM:
    return load_base(str(tiny.bases[request.param]))


def prefix_for(base: BaseLM, batch: int, *, seed: int = 0, size: float = 2.0) -> KVPrefix:
    shape = base.shape
    torch.manual_seed(seed)
    keys, values = (torch.randn(batch, shape.layers, shape.kv_heads, 3, shape.head_dim) * size for _ in range(2))
    return KVPrefix(keys, values)


def alone(prefix: KVPrefix, index: int) -> KVPrefix:
    return KVPrefix(prefix.keys[index : index + 1], prefix.values[index : index + 1])


def ids_of(base: BaseLM, text: str) -> list[int]:
    return base.tokenizer(text, add_special_tokens=False)["input_ids"]


@torch.no_grad()
def plain_logits(base: BaseLM, prefix: KVPrefix, ids: list[int]) -> Tensor:
    """One unpadded text after one prefix, the whole forward pass: [S, V]."""
    length = prefix.length
    return base.model(
        input_ids=torch.tensor([ids]),
        position_ids=torch.arange(length, length + len(ids)).unsqueeze(0),
        attention_mask=torch.ones(1, length + len(ids), dtype=torch.int64),
        past_key_values=prefix.cache(torch.float32),
    ).logits[0]


def plain_greedy(base: BaseLM, prefix: KVPrefix, question: str, most: int) -> list[int]:
    """Greedy decoding that recomputes everything for each token."""
    ids, said = ids_of(base, question), []
    for _ in range(most):
        said.append(int(plain_logits(base, prefix, ids + said)[-1].argmax()))
        if said[-1] == base.tokenizer.eos_token_id:
            break
    return said


def text_of(base: BaseLM, ids: list[int]) -> str:
    return base.tokenizer.decode(ids, skip_special_tokens=True).strip().split("\n")[0].strip()


def test_greedy_answers_equal_a_loop_of_whole_forward_passes(base: BaseLM) -> None:
    prefix = prefix_for(base, len(QUESTIONS))
    answers = base.generate(prefix, QUESTIONS, max_new_tokens=8)
    expected = [
        text_of(base, plain_greedy(base, alone(prefix, index), question, 8)) for index, question in enumerate(QUESTIONS)
    ]
    assert answers == expected
    assert len(set(answers)) == len(answers)


def test_an_answer_does_not_depend_on_the_other_questions(base: BaseLM) -> None:
    prefix = prefix_for(base, len(QUESTIONS))
    together = base.generate(prefix, QUESTIONS, max_new_tokens=6)
    for index, question in enumerate(QUESTIONS):
        assert base.generate(alone(prefix, index), [question], max_new_tokens=6) == [together[index]]


def test_the_prefix_changes_the_answers(base: BaseLM) -> None:
    one, other = (base.generate(prefix_for(base, 4, seed=seed), QUESTIONS, max_new_tokens=8) for seed in (1, 2))
    assert one != other


def test_generating_twice_with_one_prefix_gives_the_same(base: BaseLM) -> None:
    prefix = prefix_for(base, len(QUESTIONS))
    before = prefix.keys.clone()
    assert base.generate(prefix, QUESTIONS) == base.generate(prefix, QUESTIONS)
    assert torch.equal(prefix.keys, before)


def test_one_beam_is_greedy_and_two_find_a_likelier_answer(base: BaseLM) -> None:
    prefix = prefix_for(base, 4, size=1.0)

    def likelihood(index: int, answer: list[int]) -> float:
        question = ids_of(base, QUESTIONS[index])
        logits = plain_logits(base, alone(prefix, index), question + answer)[len(question) - 1 : -1]
        return float(logits.log_softmax(-1)[range(len(answer)), answer].sum())

    said: dict[int, list[list[int]]] = {}
    decode = base.tokenizer.batch_decode
    for beams in (1, 2):
        ids: list[Any] = []
        base.tokenizer.batch_decode = lambda generated, ids=ids, **rest: (
            ids.extend(generated.tolist()) or decode(generated, **rest)
        )
        try:
            texts = base.generate(prefix, QUESTIONS, max_new_tokens=2, beams=beams)
        finally:
            del base.tokenizer.batch_decode
        assert len(texts) == 4
        said[beams] = ids
    greedy = [plain_greedy(base, alone(prefix, index), question, 2) for index, question in enumerate(QUESTIONS)]
    end = base.tokenizer.eos_token_id
    assert [[token for token in row if token != end] for row in said[1]] == [
        [token for token in row if token != end] for row in greedy
    ]
    chosen = [(likelihood(index, said[1][index]), likelihood(index, said[2][index])) for index in range(4)]
    assert all(two >= one - 1e-4 for one, two in chosen)


class Scripted(torch.nn.Module):
    """Stands for a model's head: makes it say given tokens, one a step."""

    def __init__(self, tokens: list[int], vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.vocabulary, self.step = tokens, vocabulary, 0

    def forward(self, states: Tensor) -> Tensor:
        logits = torch.zeros(*states.shape[:-1], self.vocabulary)
        logits[..., self.tokens[min(self.step, len(self.tokens) - 1)]] = 10.0
        self.step += 1
        return logits


def said(base: BaseLM, monkeypatch: pytest.MonkeyPatch, tokens: list[int], most: int = 16) -> tuple[str, int]:
    """The answer when the base LM says `tokens`, and how many steps it took."""
    head = Scripted(tokens, base.model.config.vocab_size)
    monkeypatch.setitem(base.model._modules, "lm_head", head)
    (answer,) = base.generate(prefix_for(base, 1), ["Who?"], max_new_tokens=most)
    return answer, head.step


def test_an_answer_stops_at_the_end_token(base: BaseLM, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [*ids_of(base, " Ada"), base.tokenizer.eos_token_id, *ids_of(base, " Hugo")]
    answer, steps = said(base, monkeypatch, tokens)
    assert answer == "Ada"
    assert steps == len(ids_of(base, " Ada")) + 1


def test_an_answer_ends_at_the_first_line_with_text(base: BaseLM, monkeypatch: pytest.MonkeyPatch) -> None:
    end = base.tokenizer.eos_token_id
    assert said(base, monkeypatch, [*ids_of(base, "\n Ada \nHugo"), end], most=40)[0] == "Ada"


def test_an_answer_has_at_most_the_tokens_asked_for(base: BaseLM, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(base, monkeypatch, ids_of(base, "a"), most=5) == ("aaaaa", 5)


def test_a_models_own_generation_settings_do_not_change_answers(tiny: Any, tmp_path: Path) -> None:
    for file in tiny.bases["llama"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "generation_config.json").write_text('{"repetition_penalty": 20.0, "no_repeat_ngram_size": 1}')
    plain, opinionated = load_base(str(tiny.bases["llama"])), load_base(str(tmp_path))
    prefix = prefix_for(plain, 4)
    assert opinionated.generate(prefix, QUESTIONS) == plain.generate(prefix, QUESTIONS)


def test_a_question_is_cut_after_its_window(base: BaseLM) -> None:
    prefix = prefix_for(base, 1)
    window = len(ids_of(base, "Who moved"))
    assert base.generate(prefix, ["Who moved to Bergen?"], window=window) == base.generate(prefix, ["Who moved"])


def test_an_empty_question_still_gets_an_answer(base: BaseLM) -> None:
    assert len(base.generate(prefix_for(base, 2), ["", "Who?"], max_new_tokens=3)) == 2


def test_the_loss_is_the_mean_over_answer_tokens_by_hand(base: BaseLM) -> None:
    questions, answers = [QUESTIONS[1], "Ada?", "x"], ["bergen", "Cadiz in the spring", "élan"]
    prefix = prefix_for(base, 3)
    texts = base.asked(questions, answers, question_window=40, answer_window=40)
    losses = []
    for index, (question, target) in enumerate(
        zip(questions, [" Bergen", " Cadiz in the spring", " Élan"], strict=True)
    ):
        given, wanted = ids_of(base, question), [*ids_of(base, target), base.tokenizer.eos_token_id]
        logits = plain_logits(base, alone(prefix, index), given + wanted)
        chances = logits.log_softmax(-1)
        losses += [-chances[len(given) + place - 1, token].item() for place, token in enumerate(wanted)]
    assert base.loss(prefix, texts).item() == pytest.approx(sum(losses) / len(losses), rel=1e-4)


def test_targets_are_the_answer_and_the_end_never_the_question(base: BaseLM) -> None:
    end = base.tokenizer.eos_token_id
    texts = base.asked(["Ada?", "Who moved?"], ["Delft", "Delft in the spring"], question_window=9, answer_window=9)
    width = texts.target_mask.shape[1]
    for row, (question, answer) in enumerate([("Ada?", " Delft"), ("Who moved?", " Delft in the spring")]):
        wanted = texts.ids[row, -width:][texts.target_mask[row].bool()].tolist()
        assert wanted == [*ids_of(base, answer), end]
        assert texts.ids[row][texts.mask[row].bool()].tolist() == ids_of(base, question) + wanted
    assert texts.target_mask[:, 0].tolist() == [1, 1]


def test_an_answer_longer_than_its_window_is_cut_and_still_ends(base: BaseLM) -> None:
    texts = base.asked(["Ada?"], ["Delft in the spring"], question_window=9, answer_window=4)
    assert texts.ids[0, -4:].tolist() == [*ids_of(base, " Delft in the spring")[:3], base.tokenizer.eos_token_id]


def test_writing_a_text_back_predicts_all_of_it_from_the_end_token(base: BaseLM) -> None:
    end, prefix = base.tokenizer.eos_token_id, prefix_for(base, 2)
    texts = base.written(["Ada moved to Bergen.", "Hugo"], window=4)
    losses = []
    for index, text in enumerate(["Ada moved to Bergen.", "Hugo"]):
        wanted = ids_of(base, text)[:4]
        chances = plain_logits(base, alone(prefix, index), [end, *wanted]).log_softmax(-1)
        losses += [-chances[place, token].item() for place, token in enumerate(wanted)]
    assert base.loss(prefix, texts).item() == pytest.approx(sum(losses) / len(losses), rel=1e-4)


def test_the_attention_shape_is_the_models(tiny: Any) -> None:
    gpt2, llama = (load_base(str(tiny.bases[family])).shape for family in ("gpt2", "llama"))
    assert (gpt2.dim, gpt2.layers, gpt2.kv_heads, gpt2.head_dim) == (32, 2, 4, 8)
    assert (llama.dim, llama.layers, llama.kv_heads, llama.head_dim) == (32, 2, 2, 12)


def test_a_loaded_base_is_frozen(base: BaseLM) -> None:
    assert not any(parameter.requires_grad for parameter in base.parameters())


def test_a_missing_base_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="could not be opened") as caught:
        load_base(str(tmp_path / "nowhere"))
    assert caught.value.hint


def test_an_unknown_family_is_refused(tiny: Any) -> None:
    with pytest.raises(ModelError):
        load_base(str(tiny.encoders["bert"]))
