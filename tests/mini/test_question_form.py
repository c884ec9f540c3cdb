"""One form of a question, however it was typed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.text.language import canonical_question


@pytest.mark.parametrize(
    "typed",
    [
        "who's the CEO of AT&T?",
        "Who\u2019s the CEO of AT&T",
        "  Who's the\tCEO\n of\u00a0AT&T ?? ",
        "WHO'S THE CEO OF AT&T!?",
        "¿who's the ceo of at&t…",
        "who's the CEO of AT&T\uff1f",
    ],
)
def test_the_same_question_has_one_form(typed: str) -> None:
    assert canonical_question(typed) == "who's the ceo of at&t?"


def test_signs_within_a_question_stay() -> None:
    assert canonical_question("Is “v1.2” out? Since when") == 'is "v1.2" out? since when?'
    assert canonical_question("What is [SEP]?") == "what is [sep]?"
    assert canonical_question(" ?! ") == "?"


@given(st.text())
def test_a_form_has_itself_as_its_form(typed: str) -> None:
    form = canonical_question(typed)
    assert canonical_question(form) == form
    assert form.endswith("?")
