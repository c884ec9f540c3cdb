"""What a base LM is asked alone: answers, closed book, BM25; what is read, what it costs, what it can answer."""

import itertools
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.datasets.examples import QAExample
from mbc_engine.evaluation.language_models import (
    MAX_NEW_TOKENS,
    BM25Index,
    BM25Reading,
    ClosedBook,
    OracleReading,
    answers,
)
from mbc_engine.evaluation.methods import Footprint, MethodAnswer
from mbc_engine.lm.base import load_base

DOCUMENTS = [
    "Ada moved to Aalen.",
    "Hugo moved to Haifa, and Ada to Haifa.",
    "The river rose in Haifa.",
    " \n",
    "Irène!",
]
QUESTIONS = ["Where does the river rise?", "Where is Hugo?", "Ada in Haifa?", "Quito?"]


@pytest.fixture
def parrot(tiny, monkeypatch):
    """A base LM that repeats what it reads."""
    base = load_base(str(tiny.bases["gpt2"]))
    monkeypatch.setattr(
        base, "generate", lambda prefix, questions, *, passages, **_: [f"read: {passage}" for passage in passages]
    )
    return base


def test_closed_book_reads_nothing(parrot):
    method = ClosedBook(parrot)
    method.adapt(DOCUMENTS)
    assert method.answer(QUESTIONS) == [MethodAnswer("read: ")] * 4
    assert method.footprint().on_disk == 0


def test_bm25_reads_the_best_document(parrot):
    method = BM25Reading(parrot)
    method.adapt(DOCUMENTS)
    assert method.answer(QUESTIONS) == [
        MethodAnswer(f"read: {DOCUMENTS[2]}", (2,)),
        MethodAnswer(f"read: {DOCUMENTS[1]}", (1,)),
        MethodAnswer(f"read: {DOCUMENTS[1]}", (1, 0, 2)),
        MethodAnswer("read: ", ()),  # no document has any of its words
    ]
    texts = len("".join(DOCUMENTS)) + 1  # è is two bytes
    assert method.footprint() == Footprint(texts + BM25Index(DOCUMENTS).size_on_disk())


def test_oracle_reads_each_questions_document(parrot):
    examples = [QAExample(str(number), DOCUMENTS[number], f"Question {number}?", ("A",)) for number in (1, 2)]
    examples.append(QAExample("3", DOCUMENTS[0], "Question 2?", ("A",)))  # asked about another document before
    method = OracleReading(parrot, examples)
    answered = [reply.text for reply in method.answer(["Question 2?", "Question 1?"])]
    assert answered == [f"read: {DOCUMENTS[2]}", f"read: {DOCUMENTS[1]}"]


def test_what_is_read_fits_the_context_uncut(tiny, monkeypatch):
    """The model itself gets the whole piece, its question and room for the answer."""
    base, prompts = load_base(str(tiny.bases["llama"])), []
    generate = base.model.generate
    monkeypatch.setattr(
        base.model, "generate", lambda input_ids, **rest: prompts.append(input_ids) or generate(input_ids, **rest)
    )
    method = BM25Reading(base)
    filler = "The river rose, the bridge held, and nobody was hurt. " * 60
    method.adapt([f"{filler}Irene moved to Izmir. {filler}"])  # some 2,000 tokens where 160 fit
    method.answer(["Where did Irene move?"])
    text = base.tokenizer.decode(prompts[0][0], skip_special_tokens=True)
    assert "Irene moved to Izmir." in text
    assert text.startswith("The river")
    assert text.endswith(".\nWhere did Irene move?")  # whole sentences, and the whole question
    assert 60 < prompts[0].shape[1] <= base.context - MAX_NEW_TOKENS


WORDS = ["ada", "hugo", "moved", "haifa", "river", "aalen", "x", "the"]
sentences = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


def bm25(texts, question, place):
    """Lucene's BM25 with k1 = 1.5 and b = 0.75, word by word."""

    def words(text):
        return [word for word in re.findall(r"\w\w+", text.lower()) if word not in ("the", "to", "and", "in")]

    documents = [words(text) for text in texts]
    average = sum(map(len, documents)) / len(documents)
    total = 0.0
    for word in words(question):
        having = sum(word in document for document in documents)
        rarity = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        count = documents[place].count(word)
        total += rarity * count / (count + 1.5 * (1 - 0.75 + 0.75 * len(documents[place]) / average)) if count else 0
    return total


@given(st.lists(sentences, min_size=1, max_size=8), sentences)
def test_ranking_follows_the_formula(texts, question):
    scores = [bm25(texts, question, place) for place in range(len(texts))]
    found = BM25Index(texts).ranking(question)
    assert sorted(found) == [place for place in range(len(texts)) if scores[place] > 0]
    for better, worse in itertools.pairwise(found):
        assert scores[better] > scores[worse] - 1e-5
        if texts[better] == texts[worse]:
            assert better < worse


NAMES = ("Adabo", "Brudine", "Claka", "Darimir", "Ediro", "Felibo", "Gredine", "Huka", "Iremir")
MOVES = [f"Where did {name} move{'? Say it again' * (index % 5)}?" for index, name in enumerate(NAMES)]
STORIES = ["" if index % 3 == 0 else f"{name} moved to Haifa.\n" * index for index, name in enumerate(NAMES)]


def test_answers_keep_order_in_any_batch_size(tiny):
    base = load_base(str(tiny.bases["gpt2"]))
    alone = [answers(base, [question], [passage])[0] for question, passage in zip(MOVES, STORIES, strict=True)]
    for batch_size in (1, 2, 32):
        assert answers(base, MOVES, STORIES, size=batch_size) == alone
    assert len(set(alone)) > 3  # a mix-up would show
