"""TF-IDF weights of tokens, by hand."""

import math

import pytest

from mbc_engine.lm.texts import TokenisedText
from mbc_engine.methods.fine_tuned import TfIdf, over_characters

CORPUS = ["The cat sat.", "the dog sat", "The the bird"]


def test_weights_by_hand() -> None:
    # "the" is in 3 of 3 texts, "cat" in 1, "zebra" in none.
    piece = TokenisedText("The cat, the zebra", (1,) * 6, ((0, 3), (3, 7), (7, 8), (8, 12), (12, 15), (15, 18)))
    rarity = {n: math.log(4 / (1 + n)) + 1 for n in (0, 1, 3)}
    raw = [2 * rarity[3], rarity[1], 0, 2 * rarity[3], rarity[0], rarity[0]]
    assert TfIdf(CORPUS)(piece).tolist() == pytest.approx([6 * value / sum(raw) for value in raw])


def test_the_mean_weight_is_one_whatever_the_piece() -> None:
    weights = TfIdf(CORPUS)
    for text in ("cat", "the cat. " * 50, "? cat !"):
        spans = tuple((place, place + 1) for place in range(len(text)))
        assert weights(TokenisedText(text, (0,) * len(text), spans)).mean().item() == pytest.approx(1)


def test_a_piece_without_words_weighs_nothing() -> None:
    assert TfIdf(CORPUS)(TokenisedText("?!", (1, 2), ((0, 1), (1, 2)))).tolist() == [0, 0]


def test_an_empty_corpus_counts_all_words_alike() -> None:
    assert TfIdf([])(TokenisedText("a b", (1, 2), ((0, 1), (1, 3)))).tolist() == [1, 1]


def test_a_token_weighs_as_the_heaviest_of_its_characters() -> None:
    piece = TokenisedText("abcd", (1, 2, 3), ((0, 2), (2, 4), (4, 4)))
    assert over_characters(piece, [(0, 1, 1.0), (1, 3, 5.0), (2, 3, 2.0)]).tolist() == [5, 5, 0]
