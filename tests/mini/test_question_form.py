"""Questions in one form, however they were typed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.text.language import canonical_question


@pytest.mark.parametrize(
    ("typed", "form"),
    [
        ("Who\u2019s the CEO of AT&T", "who's the ceo of at&t?"),
        ("  Who's the\tCEO\n of\u00a0AT&T ?? ", "who's the ceo of at&t?"),
        ("¿WHO'S the CEO of AT&T!?…", "who's the ceo of at&t?"),
        ("who's the CEO of AT&T\uff1f", "who's the ceo of at&t?"),
        ("Is “v1.2” out? Since when", 'is "v1.2" out? since when?'),
        ("What is [SEP]?", "what is [sep]?"),
        ("Whats the rent", "what's the rent?"),
        (" ?! ", "?"),
    ],
)
def test_canonical_question(typed, form):
    assert canonical_question(typed) == form


@given(st.text())
def test_canonical_question_is_idempotent(typed):
    form = canonical_question(typed)
    assert canonical_question(form) == form
    assert form.endswith("?")
