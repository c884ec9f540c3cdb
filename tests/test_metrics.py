"""Answers scored by hand, and against what the official SQuAD scripts compute."""
# ruff: noqa: RUF001

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mbc_engine.metrics import Match, compare, normalize, shortest

# What normalising can trip over: ASCII and other punctuation, articles, white space of all kinds, letters that change
# their length when lowered, accents as marks of their own, digits and signs that are words to a regex, and emoji.
NASTY = [
    *"aAnTthe bB.,'-_/$<\"()1 \t\n",
    *["the", "The", " a ", "an", "THE", "a-", "-an", "the."],
    *["“", "”", "’", "—", "…", "¿", "«", "。", "\u00a0", "\u2009", "\u200b", "\u3000", "\ufeff", "\x1c", "\x00"],
    *["İ", "ı", "ß", "ẞ", "ﬁ", "Σ", "ς", "Ǆ", "é", "\u0301", "a\u0301", "क", "्", "²", "٣", "日", "😀", "\ud800"],
]
texts = st.lists(st.sampled_from(NASTY), max_size=8).map("".join) | st.text(max_size=12)


def official_words(text: str) -> list[str]:
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


def official_f1(prediction: str, gold: str) -> float:
    """Precision and recall of words taken one by one, as the script for SQuAD 2.0 puts them together."""
    predicted, expected = official_words(prediction), official_words(gold)
    if not predicted or not expected:
        return 1.0 if predicted == expected else 0.0
    left, common = list(expected), 0
    for word in predicted:
        if word in left:
            left.remove(word)
            common += 1
    if common == 0:
        return 0.0
    precision, recall = common / len(predicted), common / len(expected)
    return 2 * precision * recall / (precision + recall)


def official_first_f1(prediction: str, gold: str) -> float:
    """The script for SQuAD 1.1 scores an empty prediction 0."""
    return official_f1(prediction, gold) if official_words(prediction) else 0.0


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
        ("the-a", "thea"),  # one word once the hyphen is gone
        ("the — a", "—"),
        ("the—a", "—"),  # a dash stays, and is no part of a word
        ("the’a", "’"),
        ("a_b", "ab"),
        ("a.m.", "am"),
        ("Vitamin A", "vitamin"),  # no article, but it goes
        ("O'Brien's", "obriens"),
        ("$5.50", "550"),
        ("3–1", "3–1"),
        ("İstanbul", "i\u0307stanbul"),
        ("STRASSE", "strasse"),
        ("Straße", "straße"),
        ("ΣΑΣ", "σας"),  # the last sigma is another one
        ("á", "á"),
        ("a\u0301", "\u0301"),  # to a regex a mark is no part of a word, so that an article stands before it
        ("e\u0301lan", "e\u0301lan"),
        ("zero\u200bwidth the\u200ba", "zero\u200bwidth \u200b"),
        ("tab\x1cseparated", "tab separated"),
        ("\ufeffthe end", "\ufeff end"),
        ("日本。", "日本。"),
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
        ("caf\u00e9", "cafe\u0301", False),  # the same letter, composed and not
        ("...", "!!!", True),
        ("Straße", "STRASSE", False),
        ("“Paris”", "Paris", False),
        ('"Paris"', "Paris", True),
        ("3\u20131", "3-1", False),
        ("3-1", "31", True),
        ("New\u00a0York", "New York", True),
        ("the-a", "thea", True),
    ],
)
def test_exact_match_by_hand(prediction: str, gold: str, expected: bool) -> None:
    assert compare(prediction, [gold]).exact_match is expected


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
        ("...", "!!!", 1.0),
        ("the-a team", "a team", 2 / 3),  # "thea team" and "team"
        ("“Paris”", "Paris", 0.0),
        ("tower the eiffel", "Eiffel Tower", 1.0),
    ],
)
def test_f1_by_hand(prediction: str, gold: str, expected: float) -> None:
    assert compare(prediction, [gold]).f1 == pytest.approx(expected)


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
    assert compare(prediction, [gold]).lenient_match is expected


@given(texts)
@example("the the-a a\u0301 İ “the”")
def test_normalisation_is_that_of_the_official_scripts(text: str) -> None:
    assert normalize(text).split() == official_words(text)
    assert normalize(text) == " ".join(official_words(text))


@given(texts, texts)
def test_scores_are_those_of_the_official_scripts(prediction: str, gold: str) -> None:
    assert compare(prediction, [gold]).exact_match == (official_words(prediction) == official_words(gold))
    assert compare(prediction, [gold]).f1 == pytest.approx(official_f1(prediction, gold))
    if official_words(prediction) or official_words(gold):
        assert compare(prediction, [gold]).f1 == pytest.approx(official_first_f1(prediction, gold))


@given(texts, st.lists(texts, min_size=1, max_size=4))
def test_several_golds_count_by_their_best(prediction: str, golds: list[str]) -> None:
    assert compare(prediction, golds, "any") == best_of_each(prediction, golds)
    assert compare(prediction, golds) == best_of_each(prediction, [shortest(golds)])


def best_of_each(prediction: str, golds: Sequence[str]) -> Match:
    return Match(
        exact_match=any(compare(prediction, [gold]).exact_match for gold in golds),
        f1=max(compare(prediction, [gold]).f1 for gold in golds),
        lenient_match=any(compare(prediction, [gold]).lenient_match for gold in golds),
    )


@pytest.mark.parametrize(
    ("answer", "shortest_gold", "any_gold"),
    [
        ("Denver Broncos", Match(False, 2 / 3, False), Match(True, 1.0, True)),
        ("Broncos", Match(True, 1.0, True), Match(True, 1.0, True)),
        ("The Broncos of Denver", Match(False, 1 / 2, True), Match(False, 4 / 5, True)),
        ("Denver", Match(False, 0.0, False), Match(False, 2 / 3, False)),
        ("", Match(False, 0.0, False), Match(False, 0.0, False)),
    ],
)
def test_the_shortest_gold_or_any_of_them(answer: str, shortest_gold: Match, any_gold: Match) -> None:
    answers = ("Denver Broncos", "Broncos", "The Denver Broncos")
    assert compare(answer, answers) == shortest_gold
    assert compare(answer, answers, "any") == any_gold


@given(texts, texts)
def test_f1_is_symmetric_and_one_for_exact_matches(one: str, other: str) -> None:
    assert compare(one, [other]).f1 == pytest.approx(compare(other, [one]).f1)
    assert 0 <= compare(one, [other]).f1 <= 1
    assert compare(one, [one]).f1 == 1
    if compare(one, [other]).exact_match:
        assert compare(one, [other]).f1 == 1
        assert compare(one, [other]).lenient_match


def test_the_shortest_answer_is_the_first_of_its_length() -> None:
    assert shortest(("the town of Bergen", "Oslo", "Bonn")) == "Oslo"
