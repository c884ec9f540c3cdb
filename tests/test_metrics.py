"""Answers scored by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.metrics import exact_match, f1, lenient_match, normalize, shortest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Eiffel\tTower!", "eiffel tower"),
        ("a.b,c", "abc"),  # punctuation goes first and leaves no space, so that "a" is no word here
        ("U.S.A.", "usa"),
        ("an apple a day", "apple day"),
        ("theatre another banana", "theatre another banana"),
        ("A the an", ""),
        ("...!?", ""),
        ("", ""),
        ("It's", "its"),
        ("  Zürich\n", "zürich"),
        ("ÉLAN", "élan"),
        ("“Paris”", "“paris”"),  # as SQuAD: only ASCII punctuation counts
        ("well-known", "wellknown"),
        ("non\u00a0breaking", "non breaking"),
    ],
)
def test_normalisation_by_hand(text: str, expected: str) -> None:
    assert normalize(text) == expected


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        ("the Eiffel Tower.", "Eiffel tower", True),
        ("Paris, France", "Paris", False),
        ("Parisian suburbs", "Paris", False),
        ("", "Paris", False),
        ("Paris", "", False),
        ("", "", True),
        ("the", "", True),  # nothing is left of either
        ("1,000", "1000", True),
        ("café", "cafe", False),
    ],
)
def test_exact_match_by_hand(prediction: str, gold: str, expected: bool) -> None:
    assert exact_match(prediction, gold) is expected


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        ("Paris France", "Paris", 2 / 3),  # precision 1/2, recall 1
        ("in the city of Paris", "Paris", 2 / 5),  # "the" is no token
        ("to be to be", "to be or not to be", 2 * 4 / (4 + 6)),
        ("to to to", "to be", 2 * 1 / (3 + 2)),  # a word counts as often as both have it
        ("London", "Paris", 0.0),
        ("", "Paris", 0.0),
        ("Paris", "the", 0.0),
        ("", "the", 1.0),
        ("tower the eiffel", "Eiffel Tower", 1.0),
    ],
)
def test_f1_by_hand(prediction: str, gold: str, expected: float) -> None:
    assert f1(prediction, gold) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        ("Paris, the capital of France", "Paris", True),
        ("the Paris suburbs", "Paris", True),
        ("Parisian suburbs", "Paris", False),  # cut by words, not letters
        ("in Paris", "Paris", False),
        ("Paris", "Paris France", False),
        ("anything", "", True),
        ("", "Paris", False),
    ],
)
def test_lenient_match_cuts_the_prediction_to_the_golds_length(prediction: str, gold: str, expected: bool) -> None:
    assert lenient_match(prediction, gold) is expected


@given(st.text(max_size=20), st.text(max_size=20))
def test_f1_is_symmetric_and_one_for_exact_matches(one: str, other: str) -> None:
    assert f1(one, other) == pytest.approx(f1(other, one))
    assert 0 <= f1(one, other) <= 1
    assert f1(one, one) == 1
    if exact_match(one, other):
        assert f1(one, other) == 1
        assert lenient_match(one, other)


def test_the_shortest_answer_is_the_first_of_its_length() -> None:
    assert shortest(("the town of Bergen", "Oslo", "Bonn")) == "Oslo"
