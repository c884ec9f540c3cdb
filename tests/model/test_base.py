"""The base LM under a prefix, against forward passes without cache, padding or batch."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import processors
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.model import token_loss
from mbc_engine.model.base import BaseLM, load_base
from mbc_engine.model.families import FAMILIES
from mbc_engine.model.prefix import KVPrefix

QUESTIONS = ["Ada?", "Where did the old painter move to in the winter?", "x", "Who moved?"]
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 96,
    "sliding_window": 60,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def base(request: pytest.FixtureRequest, tiny: Any) -> BaseLM:
    return load_base(str(tiny.bases[request.param]))


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def every_base(request: pytest.FixtureRequest, tiny: Any) -> BaseLM:
    """A base LM of each family; those that can slide see 60 columns."""
    if request.param in tiny.bases:
        return load_base(str(tiny.bases[request.param]))
    tokenizer = AutoTokenizer.from_pretrained(tiny.bases["llama"])
    config = AutoConfig.for_model(request.param, vocab_size=len(tokenizer), **SIZES)
    torch.manual_seed(0)
    return BaseLM(AutoModelForCausalLM.from_config(config).eval(), tokenizer)


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


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[int]]]:
    """The token ids that `generate` gives the model, padding left out."""

    def prompts(base: BaseLM, prefix: KVPrefix, questions: list[str], **options: Any) -> list[list[int]]:
        seen: list[list[int]] = []
        generate = base.model.generate

        def watched(*, input_ids: Tensor, attention_mask: Tensor, **rest: Any) -> Tensor:
            for ids, mask in zip(input_ids, attention_mask[:, prefix.length :], strict=True):
                seen.append(ids[mask.bool()].tolist())
            return generate(input_ids=input_ids, attention_mask=attention_mask, **rest)

        with monkeypatch.context() as patch:
            patch.setattr(base.model, "generate", watched)
            base.generate(prefix, questions, **options)
        return seen

    return prompts


def test_greedy_answers_equal_a_loop_of_whole_forward_passes(base: BaseLM) -> None:
    prefix = prefix_for(base, len(QUESTIONS))
    answers = base.generate(prefix, QUESTIONS, max_new_tokens=8)
    expected = [
        text_of(base, plain_greedy(base, alone(prefix, index), question, 8)) for index, question in enumerate(QUESTIONS)
    ]
    assert answers == expected
    assert len(set(answers)) == len(answers)


def test_an_answer_does_not_depend_on_the_other_questions(every_base: BaseLM) -> None:
    prefix = prefix_for(every_base, len(QUESTIONS))
    together = every_base.generate(prefix, QUESTIONS, max_new_tokens=6)
    for index, question in enumerate(QUESTIONS):
        assert every_base.generate(alone(prefix, index), [question], max_new_tokens=6) == [together[index]]
    assert len(set(together)) > 1


def test_nor_on_the_passages_of_others_when_the_context_is_full(every_base: BaseLM) -> None:
    prefix = prefix_for(every_base, len(QUESTIONS))
    passages = ["Ada moved. " * 40, "", "The river rose.", "Hugo moved to Haifa. " * 2]
    together = every_base.generate(prefix, QUESTIONS, passages=passages, max_new_tokens=6)
    for index, question in enumerate(QUESTIONS):
        answer = every_base.generate(alone(prefix, index), [question], passages=[passages[index]], max_new_tokens=6)
        assert answer == [together[index]]


def test_the_prefix_changes_the_answers(base: BaseLM) -> None:
    one, other = (base.generate(prefix_for(base, 4, seed=seed), QUESTIONS, max_new_tokens=8) for seed in (1, 2))
    assert one != other


def test_generating_twice_with_one_prefix_gives_the_same(base: BaseLM) -> None:
    prefix = prefix_for(base, len(QUESTIONS))
    before = prefix.keys.clone()
    assert base.generate(prefix, QUESTIONS) == base.generate(prefix, QUESTIONS)
    assert torch.equal(prefix.keys, before)


def test_one_beam_is_greedy_and_two_find_a_likelier_answer(base: BaseLM, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = prefix_for(base, 4, size=1.0)

    def likelihood(index: int, answer: list[int]) -> float:
        question = ids_of(base, QUESTIONS[index])
        logits = plain_logits(base, alone(prefix, index), question + answer)[len(question) - 1 : -1]
        return float(logits.log_softmax(-1)[range(len(answer)), answer].sum())

    said: dict[int, list[list[int]]] = {}
    generate = base.model.generate
    for beams in (1, 2):

        def watched(*, input_ids: Tensor, beams: int = beams, **rest: Any) -> Tensor:
            ids: Tensor = generate(input_ids=input_ids, **rest)
            said[beams] = ids[:, input_ids.shape[1] :].tolist()
            return ids

        monkeypatch.setattr(base.model, "generate", watched)
        assert len(base.generate(prefix, QUESTIONS, max_new_tokens=2, beams=beams)) == 4
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


def said(base: BaseLM, monkeypatch: pytest.MonkeyPatch, tokens: list[int], **options: Any) -> tuple[str, int]:
    """The answer when the base LM says `tokens`, and how many steps it took."""
    head = Scripted(tokens, base.model.config.vocab_size)
    monkeypatch.setitem(base.model._modules, "lm_head", head)
    (answer,) = base.generate(prefix_for(base, 1), ["Who?"], **{"max_new_tokens": 40, **options})
    return answer, head.step


def test_an_answer_stops_at_the_end_token(base: BaseLM, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [*ids_of(base, " Ada"), base.tokenizer.eos_token_id, *ids_of(base, " Hugo")]
    assert said(base, monkeypatch, tokens) == ("Ada", len(ids_of(base, " Ada")) + 1)


@pytest.mark.parametrize(("text", "answer"), [(" Ada \n", "Ada"), ("\n \n Ada B.\n", "Ada B."), ("\r\nAda\r\n", "Ada")])
def test_an_answer_stops_where_the_first_line_with_text_ends(
    base: BaseLM, monkeypatch: pytest.MonkeyPatch, text: str, answer: str
) -> None:
    tokens = ids_of(base, text)
    assert said(base, monkeypatch, tokens + ids_of(base, "Hugo")) == (answer, len(tokens))
    assert said(base, monkeypatch, tokens + ids_of(base, "Hugo"), beams=2)[0] == answer


def test_rows_stop_at_their_own_ends(base: BaseLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row ends its line at once, one says EOS, one goes on to the end of the length."""
    line, end, letter = *ids_of(base, "\n"), base.tokenizer.eos_token_id, *ids_of(base, "a")
    script = torch.tensor([[letter, line, letter, letter], [letter, end, letter, letter], [letter] * 4])

    class Rows(Scripted):
        def forward(self, states: Tensor) -> Tensor:
            self.step += 1
            return torch.nn.functional.one_hot(script[:, self.step - 1 : self.step], self.vocabulary).float()

    monkeypatch.setitem(base.model._modules, "lm_head", Rows([], base.model.config.vocab_size))
    assert base.generate(prefix_for(base, 3), QUESTIONS[:3], max_new_tokens=4) == ["a", "a", "aaaa"]


def test_an_answer_is_said_in_pieces_that_stay(base: BaseLM, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[str] = []
    tokens = ids_of(base, "\n Zoë met 東京 § Hugo.\nAda")
    assert said(base, monkeypatch, tokens, said=pieces.append)[0] == "Zoë met 東京 § Hugo."
    assert pieces == ["Zoë ", "met ", "東", "京", " ", "§ ", "Hugo."]


@pytest.mark.parametrize("seed", range(8))
def test_the_pieces_are_the_answer(base: BaseLM, seed: int) -> None:
    pieces: list[str] = []
    prefix = prefix_for(base, 1, seed=seed)
    (answer,) = base.generate(prefix, ["Who moved?"], max_new_tokens=30, said=pieces.append)
    assert "".join(pieces).strip() == answer
    assert [answer] == base.generate(prefix, ["Who moved?"], max_new_tokens=30)
    assert all(pieces)


def test_only_one_greedy_answer_can_be_said(base: BaseLM) -> None:
    for questions, beams in ((["Who?"], 2), (["Who?", "Ada?"], 1), ([], 1)):
        with pytest.raises(ValueError, match="one greedy answer"):
            base.generate(prefix_for(base, 1), questions, beams=beams, said=print)


def test_an_answer_has_at_most_the_tokens_asked_for(base: BaseLM, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(base, monkeypatch, ids_of(base, "a"), max_new_tokens=5) == ("aaaaa", 5)


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


def test_an_empty_question_is_one_end_token(base: BaseLM, prompts: Any) -> None:
    end = base.tokenizer.eos_token_id
    assert prompts(base, prefix_for(base, 2), ["", "Who?"], max_new_tokens=3) == [[end], ids_of(base, "Who?")]
    assert base.asked(["", "Who?"], ["x", "x"], question_window=9, answer_window=2).mask.sum(1).tolist() == [
        3,
        len(ids_of(base, "Who?")) + 2,
    ]


@pytest.fixture(params=["<begin> $A", "<mask> <begin> $A <end>"])
def begun(request: pytest.FixtureRequest, tiny: Any, tmp_path: Path) -> BaseLM:
    """A base LM whose tokenizer begins texts with BOS, or as GLM's does with two tokens of its own."""
    shutil.copytree(tiny.bases["llama"], tmp_path / "begun")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "begun")
    tokenizer.add_special_tokens({"bos_token": "Q"})  # any token that the vocabulary has
    special = [("<begin>", tokenizer.bos_token_id), ("<mask>", 7), ("<end>", tokenizer.eos_token_id)]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=request.param, special_tokens=special
    )
    tokenizer.save_pretrained(tmp_path / "begun")
    return load_base(str(tmp_path / "begun"))


def test_texts_begin_as_the_tokenizer_begins_them(begun: BaseLM, prompts: Any) -> None:
    begin, end, line = [begun.tokenizer.bos_token_id], begun.tokenizer.eos_token_id, ids_of(begun, "\n")
    if begun.tokenizer("")["input_ids"] != begin:
        begin = [7, *begin]
    assert begun.tokenizer("Ada?")["input_ids"][: -1 if begin[1:] else None] == [*begin, *ids_of(begun, "Ada?")]
    passages = ["Ada moved.", "", "x"]
    assert prompts(begun, prefix_for(begun, 3), ["Ada?", "Who?", ""], passages=passages, max_new_tokens=2) == [
        [*begin, *ids_of(begun, "Ada moved."), *line, *ids_of(begun, "Ada?")],
        [*begin, *ids_of(begun, "Who?")],
        [*begin, *ids_of(begun, "x"), *line],
    ]
    texts = begun.asked(["Ada?"], ["Delft"], question_window=1, answer_window=9)
    assert texts.ids[0].tolist() == [*begin, *ids_of(begun, "Ada?")[:1], *ids_of(begun, " Delft"), end]
    assert begun.written(["Ada?"], window=9).ids[0].tolist() == [*begin, *ids_of(begun, "Ada?")]


def test_an_end_token_that_is_written_out_is_text(base: BaseLM, prompts: Any) -> None:
    end = base.tokenizer.eos_token
    (ids,) = prompts(base, prefix_for(base, 1), [f"Who {end} moved?"], passages=[f"Ada moved.{end}"], max_new_tokens=1)
    assert base.tokenizer.eos_token_id not in ids
    assert base.tokenizer.decode(ids).count(end) == 2


def test_a_passage_stands_on_the_line_before_its_question(base: BaseLM, prompts: Any) -> None:
    passages = ["Ada moved to Bergen.", "", "x"]
    seen = prompts(base, prefix_for(base, 3), QUESTIONS[:3], passages=passages)
    line_end = ids_of(base, "\n")
    assert seen == [
        ids_of(base, passages[0]) + line_end + ids_of(base, QUESTIONS[0]),
        ids_of(base, QUESTIONS[1]),
        ids_of(base, "x") + line_end + ids_of(base, "x"),
    ]


def test_a_passage_is_cut_where_the_context_is_full_and_its_question_is_not(every_base: BaseLM, prompts: Any) -> None:
    base, passage = every_base, "Ada moved to Bergen in the spring. " * 9
    most, slides = 5, getattr(every_base.model.config, "sliding_window", None)
    assert base.context == (slides or base.model.config.max_position_embeddings)
    (seen,) = prompts(base, prefix_for(base, 1), QUESTIONS[1:2], passages=[passage * 9], max_new_tokens=most)
    question = ids_of(base, "\n") + ids_of(base, QUESTIONS[1])
    room = base.context - 3 - most - len(question)
    assert seen == ids_of(base, passage * 9)[:room] + question


def test_a_full_context_can_be_used_to_the_last_token(base: BaseLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPT-2 has no position after its last: one token more would be an index error."""
    letter = ids_of(base, "a")
    assert said(base, monkeypatch, letter, max_new_tokens=9, passages=["Ada moved. " * 99]) == ("a" * 9, 9)
    room = base.context - 3 - len(ids_of(base, "Who?"))
    assert said(base, monkeypatch, letter, max_new_tokens=room, passages=["Ada moved."]) == ("a" * room, room)


def test_a_question_that_leaves_no_room_for_its_answer_is_refused(base: BaseLM) -> None:
    with pytest.raises(ConfigError, match=r"do not fit the base LM's context of 160\.") as caught:
        base.generate(prefix_for(base, 1), ["Who?"], max_new_tokens=158 - len(ids_of(base, "Who?")))
    assert caught.value.hint


def test_each_question_has_a_passage_or_none(base: BaseLM) -> None:
    with pytest.raises(ValueError, match="shorter"):
        base.generate(prefix_for(base, 2), QUESTIONS[:2], passages=["x"])


def test_the_likelihood_of_answers_by_hand(every_base: BaseLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_loss, "ROWS", 4)  # the targets go through the head in several blocks
    base, prefix, expected = every_base, prefix_for(every_base, 3), []
    questions, answers = [QUESTIONS[1], "Ada?", ""], ["bergen", "Cadiz in the spring", "élan"]
    for index, target in enumerate([" Bergen", " Cadiz in the spring", " Élan"]):
        given = ids_of(base, questions[index]) or [base.tokenizer.eos_token_id]
        wanted = [*ids_of(base, target), base.tokenizer.eos_token_id]
        chances = plain_logits(base, alone(prefix, index), given + wanted).log_softmax(-1)
        places = range(len(given) - 1, len(given) + len(wanted) - 1)
        expected.append(
            sum(chances[place, token].item() for place, token in zip(places, wanted, strict=True)) / len(wanted)
        )
    likelihood = base.log_likelihood(prefix, questions, answers)
    assert likelihood.tolist() == pytest.approx(expected, rel=1e-4)
    assert not likelihood.requires_grad


def test_one_forward_pass_judges_a_batch(base: BaseLM) -> None:
    passes: list[int] = []
    handle = base.model.get_decoder().register_forward_pre_hook(lambda *_: passes.append(1))
    base.log_likelihood(prefix_for(base, 4), QUESTIONS, ["Ada", "Hugo", "x", "Bergen"])
    handle.remove()
    assert passes == [1]


def test_the_loss_of_one_answer_is_its_unlikelihood(base: BaseLM) -> None:
    prefix = prefix_for(base, 1)
    texts = base.asked(["Ada?"], ["Bergen in the spring"], question_window=3, answer_window=4)
    judged = base.log_likelihood(prefix, ["Ada?"], ["Bergen in the spring"], question_window=3, answer_window=4)
    assert judged.item() == pytest.approx(-base.loss(prefix, texts).item(), rel=1e-5)


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


@torch.no_grad()
def by_itself(base: BaseLM, ids: list[int]) -> Tensor:
    """The logits of one unpadded text as plain Hugging Face computes them: [S, V]."""
    return base.model(input_ids=torch.tensor([ids])).logits[0]


def test_without_a_prefix_answers_are_those_of_the_plain_model(every_base: BaseLM) -> None:
    base, expected = every_base, []
    for question in QUESTIONS:
        ids = ids_of(base, question)
        given = torch.tensor([ids])
        said = base.model.generate(
            given, attention_mask=torch.ones_like(given), max_new_tokens=6, do_sample=False, pad_token_id=0
        )
        expected.append(text_of(base, said[0, len(ids) :].tolist()))
    assert base.generate(base.no_prefix(len(QUESTIONS)), QUESTIONS, max_new_tokens=6) == expected
    assert base.generate(base.no_prefix(2), QUESTIONS[:2], max_new_tokens=6, beams=2)


def test_without_a_prefix_the_loss_is_that_of_the_plain_model(every_base: BaseLM) -> None:
    base, losses = every_base, []
    questions, answers = [QUESTIONS[1], "Ada?"], ["Bergen", "Cadiz in the spring"]
    for question, answer in zip(questions, answers, strict=True):
        given, wanted = ids_of(base, question), [*ids_of(base, f" {answer}"), base.tokenizer.eos_token_id]
        chances = by_itself(base, given + wanted).log_softmax(-1)
        losses += [-chances[len(given) + place - 1, token].item() for place, token in enumerate(wanted)]
    texts = base.asked(questions, answers, question_window=40, answer_window=40)
    assert base.loss(base.no_prefix(2), texts).item() == pytest.approx(sum(losses) / len(losses), rel=1e-4)


def test_questions_for_training_are_those_of_inference(base: BaseLM, prompts: Any) -> None:
    passages = ["Ada moved to Bergen.", "", "Hugo moved to Haifa in the spring. " * 30, "x"]
    assert len(ids_of(base, passages[2])) > base.context
    at_inference = prompts(base, base.no_prefix(4), QUESTIONS, passages=passages, max_new_tokens=16)
    texts = base.asked(QUESTIONS, ["Delft"] * 4, passages=passages, question_window=128, answer_window=16)
    width = texts.target_mask.shape[1]
    given = [ids[:-width][mask[:-width].bool()].tolist() for ids, mask in zip(texts.ids, texts.mask, strict=True)]
    assert given == at_inference
    assert max(map(len, at_inference)) == base.context - 16


@pytest.fixture(params=["gpt2", "llama"])
def tuned(request: pytest.FixtureRequest, tiny: Any) -> BaseLM:
    base = load_base(str(tiny.bases[request.param]))
    base.tune()
    return base


def gradients(base: BaseLM, loss: Tensor) -> dict[str, Tensor]:
    base.zero_grad()
    loss.backward()
    return {name: value.grad.clone() for name, value in base.named_parameters() if value.grad is not None}


def test_the_gradients_of_a_tuned_base_are_those_of_the_plain_model(
    tuned: BaseLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_loss, "ROWS", 4)  # the targets go through the head in several blocks
    question, answer = ids_of(tuned, "Where did Ada move?"), ids_of(tuned, " Bergen in the spring")
    ids = torch.tensor([[*question, *answer, tuned.tokenizer.eos_token_id]])
    labels = ids.clone()
    labels[:, : len(question)] = -100
    expected = gradients(tuned, tuned.model(input_ids=ids, labels=labels).loss)
    texts = tuned.asked(["Where did Ada move?"], ["bergen in the spring"], question_window=40, answer_window=40)
    found = gradients(tuned, tuned.loss(tuned.no_prefix(1), texts))
    assert found.keys() == expected.keys() == dict(tuned.named_parameters()).keys()
    for name, value in expected.items():
        assert torch.allclose(found[name], value, atol=1e-5), name


def test_the_loss_of_a_piece_by_hand(tuned: BaseLM) -> None:
    (piece,) = tuned.pieces("Ada moved to Bergen.", 40)
    weights = torch.tensor([0.0, 2.0, 0.5] + [0.0] * (len(piece.ids) - 4) + [1.0])
    logits = tuned.model(input_ids=torch.tensor([[tuned.tokenizer.eos_token_id, *piece.ids]])).logits[0]
    losses = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(piece.ids), reduction="none")
    expected = (weights * losses).mean()
    by_hand = gradients(tuned, expected)
    assert tuned.piece_loss(piece, weights).item() == pytest.approx(expected.item(), rel=1e-5)
    found = gradients(tuned, tuned.piece_loss(piece, weights))
    assert all(torch.allclose(found[name], value, atol=1e-5) for name, value in by_hand.items())


def test_a_piece_of_even_weights_has_the_loss_of_writing_it(tuned: BaseLM) -> None:
    (piece,) = tuned.pieces("Ada moved to Bergen.", 40)
    written = tuned.loss(tuned.no_prefix(1), tuned.written([piece.text], window=40))
    assert tuned.piece_loss(piece, torch.ones(len(piece.ids))).item() == pytest.approx(written.item(), rel=1e-5)


def test_pieces_are_the_text_in_order_and_equally_long(base: BaseLM) -> None:
    text = "Ada moved to Bergen in the spring. Zoë met 東京 § Hugo.\n\nWho moved?"
    whole = ids_of(base, text)
    for window in (1, 3, 7, len(whole) - 1, len(whole), 500):
        pieces = base.pieces(text, window)
        assert [token for piece in pieces for token in piece.ids] == whole
        lengths = [len(piece.ids) for piece in pieces]
        assert max(lengths) <= window and max(lengths) - min(lengths) <= 1
        assert len(pieces) == -(-len(whole) // window)
    assert base.pieces("", 8) == []


def test_a_piece_knows_where_its_tokens_lie(base: BaseLM) -> None:
    text = "Ada moved to Bergen in the spring."
    for piece in base.pieces(text, 4):
        assert piece.text in text
        assert [piece.text[start:end] for start, end in piece.spans] == [base.tokenizer.decode(id) for id in piece.ids]
    assert "".join(piece.text for piece in base.pieces(text, 4)) == text


def test_a_character_of_several_tokens_belongs_to_each(base: BaseLM) -> None:
    (piece,) = base.pieces("a東", 9)
    assert len(piece.ids) == 4
    assert piece.spans[1:] == ((1, 2),) * 3


def test_a_piece_fits_the_context(base: BaseLM) -> None:
    pieces = base.pieces("Ada moved. " * 200, 10_000)
    assert max(len(piece.ids) for piece in pieces) < base.context
    assert base.piece_loss(pieces[0], torch.ones(len(pieces[0].ids))).isfinite()


def test_rounded_weights_cannot_be_tuned(tiny: Any) -> None:
    base = load_base(str(tiny.bases["llama"]), weights="bf16")
    with pytest.raises(ModelError, match=r"only be tuned in float32, and weights of this one are bfloat16\.") as caught:
        base.tune()
    assert caught.value.hint
    assert not any(parameter.requires_grad for parameter in base.parameters())


def test_a_saved_base_opens_again(tuned: BaseLM, tmp_path: Path) -> None:
    with torch.no_grad():
        next(tuned.parameters()).add_(0.5)
    tuned.save(tmp_path)
    opened = load_base(str(tmp_path))
    assert all(torch.equal(value, again) for value, again in zip(tuned.parameters(), opened.parameters(), strict=True))
    assert opened.generate(opened.no_prefix(4), QUESTIONS) == tuned.generate(tuned.no_prefix(4), QUESTIONS)
