"""Weights of tokens: salient spans by a stand-in of spaCy."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mbc_engine.errors import ConfigError
from mbc_engine.lm.base import TokenisedText
from mbc_engine.methods.token_weights import over_characters, salient_spans


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


def test_a_token_weighs_as_the_heaviest_of_its_characters() -> None:
    piece = TokenisedText("abcd", (1, 2, 3), ((0, 2), (2, 4), (4, 4)))
    assert over_characters(piece, [(0, 1, 1.0), (1, 3, 5.0), (2, 3, 2.0)]).tolist() == [5, 5, 0]
