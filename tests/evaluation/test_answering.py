"""Answers of a base LM alone: in order, whatever the batches, as the model itself continues the text."""

from typing import Any

import pytest
import torch

from mbc_engine.evaluation import language_models
from mbc_engine.evaluation.language_models import MAX_NEW_TOKENS, answers
from mbc_engine.lm.base import BaseLM, first_line, load_base

NAMES = ("Adabo", "Brudine", "Claka", "Darimir", "Ediro", "Felibo", "Gredine", "Huka", "Iremir")
QUESTIONS = [f"Where did {name} move{'? Say it again' * (index % 5)}?" for index, name in enumerate(NAMES)]
PASSAGES = ["" if index % 3 == 0 else f"{name} moved to Haifa.\n" * index for index, name in enumerate(NAMES)]


def by_hand(base: BaseLM, text: str) -> str:
    """The obvious loop: the whole text once more for every token."""
    ids = base.tokenizer(text, return_tensors="pt")["input_ids"]
    start = ids.shape[1]
    for _ in range(MAX_NEW_TOKENS):
        token = base.model(input_ids=ids).logits[0, -1].argmax()
        if int(token) == base.tokenizer.eos_token_id:
            break
        ids = torch.cat([ids, token.view(1, 1)], dim=1)
    return first_line(base.tokenizer.decode(ids[0, start:]))


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_question_is_continued_by_the_model_alone(tiny: Any, family: str) -> None:
    base = load_base(str(tiny.bases[family]))
    assert answers(base, QUESTIONS[:3]) == [by_hand(base, question) for question in QUESTIONS[:3]]


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_passage_precedes_the_question(tiny: Any, family: str) -> None:
    base = load_base(str(tiny.bases[family]))
    passages = ["Ada moved to Aalen.", "Hugo moved.", ""]
    texts = [
        f"{passage}\n{question}" if passage else question
        for passage, question in zip(passages, QUESTIONS[:3], strict=True)
    ]
    assert answers(base, QUESTIONS[:3], passages) == [by_hand(base, text) for text in texts]


@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_answers_keep_order_in_any_batch_size(tiny: Any, batch_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    base = load_base(str(tiny.bases["gpt2"]))
    alone = [answers(base, [question], [passage])[0] for question, passage in zip(QUESTIONS, PASSAGES, strict=True)]
    monkeypatch.setattr(language_models, "_BATCH", batch_size)
    assert answers(base, QUESTIONS, PASSAGES) == alone
    assert len(set(alone)) > 3  # a mix-up would show
