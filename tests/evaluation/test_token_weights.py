"""Weights of tokens: TF-IDF by hand, salient spans by a regular expression and by a stand-in of spaCy."""

import math
import sys
from itertools import groupby
from types import ModuleType, SimpleNamespace

import pytest

from mbc_engine.evaluation.token_weights import salient_spans, tf_idf
from mbc_engine.lm.base import TokenisedText


@pytest.fixture
def no_spacy(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)


def found(text):
    """The spans of a text with any weight, where each character is a token."""
    weights = salient_spans()(TokenisedText(text, (0,) * len(text), tuple((at, at + 1) for at in range(len(text)))))
    runs = groupby(zip(text, weights.tolist(), strict=True), key=lambda marked: marked[1])
    return ["".join(character for character, _ in run) for weight, run in runs if weight]


@pytest.mark.usefixtures("no_spacy")
@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("The crowd met Angela Merkel in Berlin.", ["Angela Merkel", "Berlin"]),
        ("The White House spoke.", ["White House"]),
        ("Cats like milk. However, Google bought it.", ["Google"]),
        ("Spoke he? People spoke to Obama\u2019s friends.", ["Obama\u2019s"]),
        ("Milk is white.\nCats like it.", []),
        ("We saw NATO and McDonald's.", ["NATO", "McDonald's"]),
        ("I think I'm the one who saw it.", []),
        ("Mr. Smith flew to St. Petersburg.", ["Mr. Smith", "St. Petersburg"]),
        ("It was J. K. Rowling. In Paris he won.", ["J. K. Rowling", "Paris"]),
        ("He likes Ludwig van Beethoven and the University of California, Berkeley.",
         ["Ludwig van Beethoven", "University of California", "Berkeley"]),
        ("The U.S. Senate and AT&T met.", ["U.S. Senate", "AT&T"]),
        ("We met Élodie Ngô in Zürich.", ["Élodie Ngô", "Zürich"]),
        ('"We like Rome," he said. "They like Rome too."', ["Rome", "Rome"]),
        ("May I come? March on!", []),
        ("He came in May and left in March.", ["May", "March"]),
        # dates
        ("it was on Tuesday, March 3, 2015.", ["Tuesday", "March 3", "2015"]),
        ("it was wet in May 2012, and on 3rd May", ["May", "2012", "3rd May"]),
        ("in Jan. 1999, and on Nov. 3", ["Jan", "1999", "Nov. 3"]),
        ("from 2020-03-01 on", ["2020-03-01"]),
        ("on Sundays in the 1990s, or 1066", ["Sundays", "1990s", "1066"]),
        ("marching in august company", []),
        # other numbers
        ("it cost $1.65 billion, or £5m, up 3.5% to 20,000 tonnes", []),
        ("they won 51-49, worth 1999.5 or 1,999, and two of 7", []),
    ],
)  # fmt: skip
def test_names_and_dates_are_found(text, spans):
    assert found(text) == spans


def test_tf_idf_by_hand():
    # "the" is in 3 of 3 texts, "cat" in 1, "zebra" in none.
    piece = TokenisedText("The cat, the zebra", (1,) * 6, ((0, 3), (3, 7), (7, 8), (8, 12), (12, 15), (15, 18)))
    rarity = {n: math.log(4 / (1 + n)) + 1 for n in (0, 1, 3)}
    raw = [2 * rarity[3], rarity[1], 0, 2 * rarity[3], rarity[0], rarity[0]]
    weights = tf_idf(["The cat sat.", "the dog sat", "The the bird"])
    assert weights(piece).tolist() == pytest.approx([6 * value / sum(raw) for value in raw])
    assert weights(TokenisedText("?!", (1, 2), ((0, 1), (1, 2)))).tolist() == [0, 0]


def stand_in(models):
    """A spaCy that finds a place and a number."""
    spacy = ModuleType("spacy")
    spacy.util = SimpleNamespace(get_installed_models=lambda: models)
    entities = [
        SimpleNamespace(start_char=0, end_char=3, label_="GPE"),
        SimpleNamespace(start_char=4, end_char=5, label_="CARDINAL"),
    ]
    spacy.load = lambda name, exclude: {"en_core_web_md": lambda text: SimpleNamespace(ents=entities)}[name]
    return spacy


def test_spacy_is_used_where_it_has_an_english_model(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", stand_in(["de_core_news_sm", "en_core_web_sm", "en_core_web_md"]))
    piece = TokenisedText("ada 5 b", (1, 2, 3), ((0, 3), (3, 5), (5, 7)))
    assert salient_spans()(piece).tolist() == [1, 0, 0]
