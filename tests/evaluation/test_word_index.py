"""BM25: against the formula written out, and what it makes of texts and questions without words."""

import itertools
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.evaluation.language_models import BM25Index

TEXTS = ["Ada moved to Aalen.", "Hugo moved to Haifa, and Ada to Haifa.", "The river rose in Haifa.", "Nobody moved."]
WORDS = ["ada", "hugo", "moved", "haifa", "river", "aalen", "x", "the"]
sentences = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


def score(texts: list[str], question: str, place: int) -> float:
    """Lucene's BM25 with k1 = 1.5 and b = 0.75, word by word."""

    def words(text: str) -> list[str]:
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
def test_ranking_follows_the_formula(texts: list[str], question: str) -> None:
    scores = [score(texts, question, place) for place in range(len(texts))]
    found = BM25Index(texts).ranking(question)
    assert sorted(found) == [place for place in range(len(texts)) if scores[place] > 0]
    for better, worse in itertools.pairwise(found):
        assert scores[better] > scores[worse] - 1e-5
        if texts[better] == texts[worse]:
            assert better < worse


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("Which river?", [2]),
        ("Where did HUGO move?", [1]),  # words are as they stand: "move" is not "moved"
        ("Ada in Haifa?", [1, 0, 2]),
        ("Who moved?", [3, 0, 1]),  # the shorter text says it with more weight
        ("Quito", []),
        ("the", []),
        ("a", []),
        ("?", []),
        ("", []),
    ],
)
def test_questions_by_hand(question: str, found: list[int]) -> None:
    assert BM25Index(TEXTS).ranking(question) == found


@pytest.mark.parametrize("texts", [[], [""], ["", "? !", "the", "a b c"]], ids=["none", "empty", "wordless"])
def test_texts_without_words_are_never_found(texts: list[str]) -> None:
    index = BM25Index(texts)
    assert index.ranking("Who moved to the a b?") == []
    assert index.size_on_disk() == 0
