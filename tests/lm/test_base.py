"""The base LM under a prefix, against forward passes without cache, padding or batch."""

import pytest
import torch

from mbc_engine.lm.base import load_base
from tests.lm.conftest import QUESTIONS, alone, ids_of, prefix_for


def text_of(base, ids):
    return base.tokenizer.decode(ids, skip_special_tokens=True).strip().split("\n")[0].strip()


def test_batches_with_full_contexts(every_base):
    prefix = prefix_for(every_base, len(QUESTIONS))
    passages = ["Ada moved. " * 40, "", "The river rose.", "Hugo moved to Haifa. " * 2]
    together = every_base.generate(prefix, QUESTIONS, passages=passages, max_new_tokens=6)
    for index, question in enumerate(QUESTIONS):
        answer = every_base.generate(alone(prefix, index), [question], passages=[passages[index]], max_new_tokens=6)
        assert answer == [together[index]]


class Scripted(torch.nn.Module):
    """Replaces a model's head: generates given tokens, one per step."""

    def __init__(self, tokens, vocabulary):
        super().__init__()
        self.tokens, self.vocabulary, self.step = tokens, vocabulary, 0

    def forward(self, states):
        logits = torch.zeros(*states.shape[:-1], self.vocabulary)
        logits[..., self.tokens[min(self.step, len(self.tokens) - 1)]] = 10.0
        self.step += 1
        return logits


def scripted_answer(base, monkeypatch, tokens, **options):
    """The answer when the base LM generates `tokens`, and how many steps it took."""
    head = Scripted(tokens, base.model.config.vocab_size)
    monkeypatch.setitem(base.model._modules, "lm_head", head)
    (answer,) = base.generate(prefix_for(base, 1), ["Who?"], **{"max_new_tokens": 40, **options})
    return answer, head.step


def test_stop_at_end_token(base, monkeypatch):
    tokens = [*ids_of(base, " Ada"), base.tokenizer.eos_token_id, *ids_of(base, " Hugo")]
    assert scripted_answer(base, monkeypatch, tokens) == ("Ada", len(ids_of(base, " Ada")) + 1)


@pytest.mark.parametrize(("text", "answer"), [(" Ada \n", "Ada"), ("\n \n Ada B.\n", "Ada B."), ("\r\nAda\r\n", "Ada")])
def test_stop_after_first_line(base, monkeypatch, text, answer):
    tokens = ids_of(base, text)
    assert scripted_answer(base, monkeypatch, tokens + ids_of(base, "Hugo")) == (answer, len(tokens))
    assert scripted_answer(base, monkeypatch, tokens + ids_of(base, "Hugo"), beams=2)[0] == answer


def test_all_lines(base, monkeypatch):
    pieces: list[str] = []
    tokens = [*ids_of(base, "\n Ada [1]\n\nHugo [2]\n"), base.tokenizer.eos_token_id, *ids_of(base, "Bo")]
    monkeypatch.setitem(base.model._modules, "lm_head", Scripted(tokens, base.model.config.vocab_size))
    row = ids_of(base, "Who?")
    (answer,) = base.complete(prefix_for(base, 1), [row], max_new_tokens=40, on_token=pieces.append, has_lines=True)
    assert answer == "".join(pieces).strip() == "Ada [1]\n\nHugo [2]"


def test_only_one_greedy_answer_is_streamed(base):
    for questions, beams in ((["Who?"], 2), (["Who?", "Ada?"], 1)):
        with pytest.raises(ValueError, match="one greedy answer"):
            base.generate(prefix_for(base, 1), questions, beams=beams, on_token=print)


def test_generation_config_is_ignored(tiny, tmp_path):
    for file in tiny.bases["llama"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "generation_config.json").write_text('{"repetition_penalty": 20.0, "no_repeat_ngram_size": 1}')
    plain, opinionated = load_base(str(tiny.bases["llama"])), load_base(str(tmp_path))
    prefix = prefix_for(plain, 4)
    assert opinionated.generate(prefix, QUESTIONS) == plain.generate(prefix, QUESTIONS)


def test_no_prefix(every_base):
    base, expected = every_base, []
    for question in QUESTIONS:
        ids = ids_of(base, question)
        given = torch.tensor([ids])
        generated = base.model.generate(
            given, attention_mask=torch.ones_like(given), max_new_tokens=6, do_sample=False, pad_token_id=0
        )
        expected.append(text_of(base, generated[0, len(ids) :].tolist()))
    assert base.generate(base.no_prefix(len(QUESTIONS)), QUESTIONS, max_new_tokens=6) == expected
    assert base.generate(base.no_prefix(2), QUESTIONS[:2], max_new_tokens=6, beams=2)
