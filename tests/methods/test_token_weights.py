"""Weights of tokens: TF-IDF by hand, salient spans by a stand-in of spaCy."""

import math
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mbc_engine.errors import ConfigError
from mbc_engine.lm.base import TokenisedText
from mbc_engine.methods.token_weights import over_characters, salient_spans, tf_idf


def stand_in(models: list[str]) -> ModuleType:
    """A spaCy that finds a place and a number."""
    spacy: Any = ModuleType("spacy")
    spacy.util = SimpleNamespace(get_installed_models=lambda: models)
    entities = [
        SimpleNamespace(start_char=0, end_char=3, label_="GPE"),
        SimpleNamespace(start_char=4, end_char=5, label_="CARDINAL"),
    ]
    spacy.load = lambda name, exclude: {"en_core_web_md": lambda text: SimpleNamespace(ents=entities)}[name]
    module: ModuleType = spacy
    return module


def test_spacy_is_used_where_it_has_an_english_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", stand_in(["de_core_news_sm", "en_core_web_sm", "en_core_web_md"]))
    piece = TokenisedText("ada 5 b", (1, 2, 3), ((0, 3), (3, 5), (5, 7)))
    assert salient_spans()(piece).tolist() == [1, 0, 0]


@pytest.mark.parametrize("spacy", [None, stand_in(["de_core_news_sm"])])
def test_without_spacy_s_english_salient_spans_cannot_be_found(spacy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    with pytest.raises(ConfigError, match="found by spaCy"):
        salient_spans()


CORPUS = ["The cat sat.", "the dog sat", "The the bird"]


def test_weights_by_hand() -> None:
    # "the" is in 3 of 3 texts, "cat" in 1, "zebra" in none.
    piece = TokenisedText("The cat, the zebra", (1,) * 6, ((0, 3), (3, 7), (7, 8), (8, 12), (12, 15), (15, 18)))
    rarity = {n: math.log(4 / (1 + n)) + 1 for n in (0, 1, 3)}
    raw = [2 * rarity[3], rarity[1], 0, 2 * rarity[3], rarity[0], rarity[0]]
    assert tf_idf(CORPUS)(piece).tolist() == pytest.approx([6 * value / sum(raw) for value in raw])


def test_the_mean_weight_is_one_whatever_the_piece() -> None:
    weights = tf_idf(CORPUS)
    for text in ("cat", "the cat. " * 50, "? cat !"):
        spans = tuple((place, place + 1) for place in range(len(text)))
        assert weights(TokenisedText(text, (0,) * len(text), spans)).mean().item() == pytest.approx(1)


def test_a_piece_without_words_weighs_nothing() -> None:
    assert tf_idf(CORPUS)(TokenisedText("?!", (1, 2), ((0, 1), (1, 2)))).tolist() == [0, 0]


def test_an_empty_corpus_counts_all_words_alike() -> None:
    assert tf_idf([])(TokenisedText("a b", (1, 2), ((0, 1), (1, 3)))).tolist() == [1, 1]


def test_a_token_weighs_as_the_heaviest_of_its_characters() -> None:
    piece = TokenisedText("abcd", (1, 2, 3), ((0, 2), (2, 4), (4, 4)))
    assert over_characters(piece, [(0, 1, 1.0), (1, 3, 5.0), (2, 3, 2.0)]).tolist() == [5, 5, 0]
