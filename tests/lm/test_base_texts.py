"""What the base LM is given: questions, passages, targets and pieces of texts as tokens."""

import shutil

import pytest
from tokenizers import processors
from transformers import AutoTokenizer

from mbc_engine.errors import ConfigError
from mbc_engine.lm.base import load_base
from tests.lm.conftest import QUESTIONS, ids_of, prefix_for


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


def test_targets(base):
    end = base.tokenizer.eos_token_id
    texts = base.prompt_tokenizer.question_answer_targets(
        ["Ada?", "Who moved?"], ["Delft", "Delft in the spring"], question_window=9, answer_window=9
    )
    for row, (question, answer) in enumerate([("Ada?", " Delft"), ("Who moved?", " Delft in the spring")]):
        wanted = texts.ids[row][texts.target_mask[row]].tolist()
        assert wanted == [*ids_of(base, answer), end]
        assert texts.ids[row][texts.mask[row].bool()].tolist() == ids_of(base, question) + wanted
    cut = base.prompt_tokenizer.question_answer_targets(["Ada?"], ["Delft in May"], question_window=9, answer_window=3)
    assert cut.ids[0, -3:].tolist() == [*ids_of(base, " Delft in May")[:2], end]


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
