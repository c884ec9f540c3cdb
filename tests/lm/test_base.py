"""The base LM: answers, losses and what it is given, against forward passes without cache, padding or batch."""

import shutil

import pytest
import torch
from tokenizers import processors
from transformers import AutoTokenizer

from mbc_engine.errors import ConfigError
from mbc_engine.lm import base as module
from mbc_engine.lm.base import KVPrefix, load_base
from tests.conftest import save_random

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
def base(request, tiny):
    return load_base(str(tiny.bases[request.param]))


# Fused projections, grouped queries, sliding windows, capped and scaled logits, a parallel block.
DIFFERENT = ("gpt2", "llama", "mistral", "gemma2", "granite", "phi")


@pytest.fixture(scope="module", params=DIFFERENT)
def every_base(request, tiny, tmp_path_factory):
    """A base LM of each kind of family; those that can slide see 60 columns."""
    if request.param in tiny.bases:
        return load_base(str(tiny.bases[request.param]))
    tokenizer = AutoTokenizer.from_pretrained(tiny.bases["llama"])
    return load_base(str(save_random(tmp_path_factory.mktemp("base"), request.param, tokenizer, 0, **SIZES)))


def prefix_for(base, batch, *, seed=0, size=2.0):
    shape = base.shape
    torch.manual_seed(seed)
    keys, values = (torch.randn(batch, shape.layers, shape.kv_heads, 3, shape.head_dim) * size for _ in range(2))
    return KVPrefix(keys, values)


def alone(prefix, index):
    return KVPrefix(prefix.keys[index : index + 1], prefix.values[index : index + 1])


def ids_of(base, text):
    return base.tokenizer(text, add_special_tokens=False)["input_ids"]


@torch.no_grad()
def plain_logits(base, prefix, ids):
    """One unpadded text after one prefix, the whole forward pass: [S, V]."""
    length = prefix.length
    return (
        base.model(
            input_ids=torch.tensor([ids]),
            position_ids=torch.arange(length, length + len(ids)).unsqueeze(0),
            attention_mask=torch.ones(1, length + len(ids), dtype=torch.int64),
            past_key_values=prefix.cache(base.model.dtype),
        )
        .logits[0]
        .float()
    )


@pytest.fixture
def prompts(monkeypatch):
    """The token ids that `generate` gives the model, padding left out."""

    def prompts(base, prefix, questions, **options):
        seen, generate = [], base.model.generate

        def watched(*, input_ids, attention_mask, **rest):
            for ids, mask in zip(input_ids, attention_mask[:, prefix.length :], strict=True):
                seen.append(ids[mask.bool()].tolist())
            return generate(input_ids=input_ids, attention_mask=attention_mask, **rest)

        with monkeypatch.context() as patch:
            patch.setattr(base.model, "generate", watched)
            base.generate(prefix, questions, **options)
        return seen

    return prompts


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


def test_log_likelihood_by_hand(every_base, monkeypatch):
    monkeypatch.setattr(module, "_HEAD_ROWS", 4)  # the targets go through the head in several blocks
    monkeypatch.setattr(module, "_CPU_BATCH", 2)
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


@pytest.fixture(params=["gpt2", "llama"])
def tuned(request, tiny):
    base = load_base(str(tiny.bases[request.param]))
    base.tune()
    return base


def gradients(base, loss):
    base.zero_grad()
    loss.backward()
    return {name: value.grad.clone() for name, value in base.named_parameters() if value.grad is not None}


def test_gradients_of_a_tuned_base(tuned, monkeypatch):
    monkeypatch.setattr(module, "_HEAD_ROWS", 4)  # the targets go through the head in several blocks
    question, answer = ids_of(tuned, "Where did Ada move?"), ids_of(tuned, " Bergen in the spring")
    ids = torch.tensor([[*question, *answer, tuned.tokenizer.eos_token_id]])
    labels = ids.clone()
    labels[:, : len(question)] = -100
    expected = gradients(tuned, tuned.model(input_ids=ids, labels=labels).loss)
    texts = tuned.prompt_tokenizer.question_answer_targets(
        ["Where did Ada move?"], ["bergen in the spring"], question_window=40, answer_window=40
    )
    found = gradients(tuned, tuned.loss(tuned.no_prefix(1), texts))
    assert found.keys() == expected.keys() == dict(tuned.named_parameters()).keys()
    for name, value in expected.items():
        assert torch.allclose(found[name], value, atol=1e-5), name


def test_piece_loss_by_hand(tuned):
    (piece,) = tuned.prompt_tokenizer.pieces("Ada moved to Bergen.", 40)
    weights = torch.tensor([0.0, 2.0, 0.5] + [0.0] * (len(piece.ids) - 4) + [1.0])
    logits = tuned.model(input_ids=torch.tensor([[tuned.tokenizer.eos_token_id, *piece.ids]])).logits[0]
    losses = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(piece.ids), reduction="none")
    expected = (weights * losses).mean()
    by_hand = gradients(tuned, expected)
    assert tuned.piece_loss(piece, weights).item() == pytest.approx(expected.item(), rel=1e-5)
    found = gradients(tuned, tuned.piece_loss(piece, weights))
    assert all(torch.allclose(found[name], value, atol=1e-5) for name, value in by_hand.items())


def test_empty_question(base, prompts):
    end = base.tokenizer.eos_token_id
    assert prompts(base, prefix_for(base, 2), ["", "Who?"], max_new_tokens=3) == [[end], ids_of(base, "Who?")]
    assert base.prompt_tokenizer.question_answer_targets(
        ["", "Who?"], ["x", "x"], question_window=9, answer_window=2
    ).mask.sum(1).tolist() == [3, len(ids_of(base, "Who?")) + 2]


@pytest.fixture(params=["<begin> $A", "<mask> <begin> $A <end>"])
def begun(request, tiny, tmp_path):
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


def test_begin_tokens(begun, prompts):
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
    texts = begun.prompt_tokenizer.question_answer_targets(["Ada?"], ["Delft"], question_window=1, answer_window=9)
    assert texts.ids[0].tolist() == [*begin, *ids_of(begun, "Ada?")[:1], *ids_of(begun, " Delft"), end]
    assert begun.prompt_tokenizer.text_targets(["Ada?"], window=9).ids[0].tolist() == [*begin, *ids_of(begun, "Ada?")]


def test_written_end_token_is_text(base, prompts):
    end = base.tokenizer.eos_token
    (ids,) = prompts(base, prefix_for(base, 1), [f"Who {end} moved?"], passages=[f"Ada moved.{end}"], max_new_tokens=1)
    assert base.tokenizer.eos_token_id not in ids
    assert base.tokenizer.decode(ids).count(end) == 2


def test_passage_is_cut_to_the_context(every_base, prompts):
    base, passage = every_base, "Ada moved to Bergen in the spring. " * 9
    most, slides = 5, getattr(every_base.model.config, "sliding_window", None)
    assert base.context == (slides or base.model.config.max_position_embeddings)
    (seen,) = prompts(base, prefix_for(base, 1), QUESTIONS[1:2], passages=[passage * 9], max_new_tokens=most)
    question = ids_of(base, "\n") + ids_of(base, QUESTIONS[1])
    room = base.context - 3 - most - len(question)
    assert seen == ids_of(base, passage * 9)[:room] + question


def test_too_long_question_is_refused(base):
    with pytest.raises(ConfigError, match=r"do not fit the base LM's context of 160\.") as caught:
        base.generate(prefix_for(base, 1), ["Who?"], max_new_tokens=158 - len(ids_of(base, "Who?")))
    assert caught.value.hint


def test_long_answers_are_cut(base):
    cut = base.prompt_tokenizer.question_answer_targets(["Ada?"], ["Delft in May"], question_window=9, answer_window=3)
    assert cut.ids[0, -3:].tolist() == [*ids_of(base, " Delft in May")[:2], base.tokenizer.eos_token_id]


def test_training_prompts_equal_inference(base, prompts):
    passages = ["Ada moved to Bergen.", "", "Hugo moved to Haifa in the spring. " * 30, "x"]
    assert len(ids_of(base, passages[2])) > base.context
    at_inference = prompts(base, base.no_prefix(4), QUESTIONS, passages=passages, max_new_tokens=16)
    texts = base.prompt_tokenizer.question_answer_targets(
        QUESTIONS, ["Delft"] * 4, passages=passages, question_window=128, answer_window=16
    )
    is_given = texts.mask.bool() & ~texts.target_mask
    assert [ids[given].tolist() for ids, given in zip(texts.ids, is_given, strict=True)] == at_inference
    assert max(map(len, at_inference)) == base.context - 16


def test_pieces(base):
    text = "Ada moved to Bergen in the spring. Zoë met 東京 § Hugo.\n\nWho moved?"
    whole = ids_of(base, text)
    for window in (1, 3, 7, len(whole) - 1, len(whole), 500):
        pieces = base.prompt_tokenizer.pieces(text, window)
        assert [token for piece in pieces for token in piece.ids] == whole
        lengths = [len(piece.ids) for piece in pieces]
        assert max(lengths) <= window and max(lengths) - min(lengths) <= 1
        assert len(pieces) == -(-len(whole) // window)
    assert base.prompt_tokenizer.pieces("", 8) == []


def test_piece_spans(base):
    text = "Ada moved to Bergen in the spring."
    for piece in base.prompt_tokenizer.pieces(text, 4):
        assert piece.text in text
        assert [piece.text[start:end] for start, end in piece.spans] == [base.tokenizer.decode(id) for id in piece.ids]
    assert "".join(piece.text for piece in base.prompt_tokenizer.pieces(text, 4)) == text
    (piece,) = base.prompt_tokenizer.pieces("a東", 9)  # a character of several tokens
    assert (len(piece.ids), piece.spans[1:]) == (4, ((1, 2),) * 3)
