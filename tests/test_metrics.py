"""Answers scored by hand, and against what the official SQuAD scripts compute."""
# ruff: noqa: RUF001

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mbc_engine.metrics import Match, compare, normalize, shortest

# Punctuation, articles, white space of all kinds, letters that change their length when lowered, accents as marks of
# their own, digits and signs that are words to a regex, and emoji.
NASTY = [
    *"aAnTthe bB.,'-_/$<\"()1 \t\n",
    *["the", "The", " a ", "an", "THE", "a-", "-an", "the."],
    *["“", "”", "’", "—", "…", "¿", "«", "。", "\u00a0", "\u2009", "\u200b", "\u3000", "\ufeff", "\x1c", "\x00"],
    *["İ", "ı", "ß", "ẞ", "ﬁ", "Σ", "ς", "Ǆ", "é", "\u0301", "a\u0301", "क", "्", "²", "٣", "日", "😀", "\ud800"],
]
texts = st.lists(st.sampled_from(NASTY), max_size=8).map("".join) | st.text(max_size=12)


def official_words(text):
    """What both SQuAD scripts make of an answer, character by character."""
    kept = [letter for letter in text.lower() if letter.isalnum() or not "!" <= letter <= "~"]
    words, word = [], ""
    for letter in [*kept, " "]:
        if letter.isalnum() or letter == "_":
            word += letter
            continue
        words += [" " if word in ("a", "an", "the") else word, letter]
        word = ""
    return "".join(words).split()


def official_f1(prediction, gold):
    """Precision and recall of words taken one by one, as the script for SQuAD 2.0 combines them."""
    predicted, expected = official_words(prediction), official_words(gold)
    if not predicted or not expected:
        return 1.0 if predicted == expected else 0.0
    left, common = list(expected), 0
    for word in predicted:
        if word in left:
            left.remove(word)
            common += 1
    return 2 * common / (len(predicted) + len(expected))


@pytest.mark.parametrize(
    ("prediction", "gold", "is_exact", "f1", "is_lenient"),
    [
        ("the Eiffel Tower.", "Eiffel tower", True, 1.0, True),
        ("tower the eiffel", "Eiffel Tower", False, 1.0, False),
        ("Paris France", "Paris", False, 2 / 3, True),  # precision 1/2, recall 1
        ("in the city of Paris", "Paris", False, 2 / 5, False),
        ("Parisian suburbs", "Paris", False, 0.0, True),  # cut by letters, as in the released code
        ("Paris", "Paris France", False, 2 / 3, False),
        ("to be to be", "to be or not to be", False, 2 * 4 / (4 + 6), False),
        ("to to to", "to be", False, 2 * 1 / (3 + 2), False),  # a word counts as often as both have it
        ("", "Paris", False, 0.0, False),
        ("Paris", "", False, 0.0, True),
        ("the", "", True, 1.0, True),  # nothing is left of either
        ("1,000", "1000", True, 1.0, True),
        ("caf\u00e9", "cafe\u0301", False, 0.0, False),  # the same letter, composed and not
        ("“Paris”", "Paris", False, 0.0, False),
        ("the-a team", "a team", False, 2 / 3, False),  # "thea team" and "team"
    ],
)
def test_scores_by_hand(prediction, gold, is_exact, f1, is_lenient):
    assert compare(prediction, [gold]) == Match(is_exact, pytest.approx(f1), is_lenient)


@given(texts)
@example("the the-a a\u0301 İ “the”")
def test_normalisation_is_that_of_the_official_scripts(text):
    assert normalize(text) == " ".join(official_words(text))


@given(texts, texts)
def test_scores_are_those_of_the_official_scripts(prediction, gold):
    match = compare(prediction, [gold])
    assert match.exact_match == (official_words(prediction) == official_words(gold))
    assert match.f1 == pytest.approx(official_f1(prediction, gold))
    assert match.f1 == pytest.approx(compare(gold, [prediction]).f1)
    assert match.lenient_match or not match.exact_match


@given(texts, st.lists(texts, min_size=1, max_size=4))
def test_several_golds_count_by_their_best(prediction, golds):
    each = [compare(prediction, [gold]) for gold in golds]
    best = Match(
        any(match.exact_match for match in each),
        max(match.f1 for match in each),
        any(match.lenient_match for match in each),
    )
    assert compare(prediction, golds, "any") == best
    assert compare(prediction, golds) == compare(prediction, [shortest(golds)])


def test_the_first_of_the_shortest_golds_counts():
    assert shortest(("the town of Bergen", "Oslo", "Bonn")) == "Oslo"
