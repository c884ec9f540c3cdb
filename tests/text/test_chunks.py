"""Chunks fit the window and lose nothing."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine import text as documents
from mbc_engine.text.document import Section
from tests.text.conftest import words


class LetterTokens:
    """A tokenizer of three letters a token, words apart; it records how often it was asked."""

    def __init__(self):
        self.calls = 0

    def __call__(self, texts):
        self.calls += 1
        return [sum(-(-len(word) // 3) for word in text.split()) for text in texts]


def chunk(text, count_tokens, max_tokens):
    chunks = documents.chunk(text, count_tokens, max_tokens)
    assert all(text[own.start : own.start + len(own.text)] == own.text for own in chunks)
    return [own.text for own in chunks]


def test_sentences_are_packed():
    text = "  One two three. Four five.\n\nSix seven. Eight nine ten. "
    assert chunk(text, words, 7) == ["One two three. Four five.\n\nSix seven.", "Eight nine ten."]
    assert chunk(text, words, 5) == ["One two three. Four five.", "Six seven. Eight nine ten."]
    assert chunk(text, words, 3) == ["One two three.", "Four five.", "Six seven.", "Eight nine ten."]


def test_rows_of_a_table_are_apart():
    rows = ["Town: Vik; Boats: 3", "Town: Moss; Boats: 5. Rented.", "Town: Bodø; Boats: none"]
    text = "\n".join(["Boats by town", *rows, "As of May."])
    assert chunk(text, words, 50) == [f"Boats by town\n{rows[0]}", rows[1], f"{rows[2]}\nAs of May."]
    assert chunk(text.replace("\nAs of", "\n\nAs of"), words, 50)[2:] == [rows[2], "As of May."]
    last = Section(text.index("As of"), "Source")
    assert [own.text for own in documents.chunk(text, words, 50, [last])][2:] == [rows[2], "As of May."]
    small = [row.lower() for row in rows]
    assert chunk("\n".join(["Boats", *small]), words, 50) == [f"Boats\n{small[0]}", *small[1:]]


@pytest.mark.parametrize(
    "rows",
    [
        ["Curlew; length: 7.1 m; skipper: Tomas", "plover; length: 9 m; skipper: Hana"],
        ["Life jacket; euros: 79.90", "Anchor, large; euros: 118.00"],
        ["Curlew; 7.1 m; Tomas Lind", "plover; 9 m; Hana Sato"],
        ["Curlew    7.1 m   3", "plover    9 m     12"],
        ["Curlew\t7.1 m\t3", "plover\t9 m\t12"],
        # Narrow gaps that stand below each other.
        [
            "Curlew, the old one of the harbour club  berth seven   Tomas Lind",
            "Plover, a gift of the fishing company    berth twelve  Hana Sato",
        ],
    ],
)
def test_rows_without_names_of_columns_are_apart(rows):
    assert chunk("\n".join(rows), words, 50) == rows


def test_names_stay_with_what_is_said_of_them():
    text = "Options\n  -a\n    Show all.\n  -l\n  --long\n    Show the owner.\n  -x\nAs of May."
    owner = "-l\n  --long\n    Show the owner.\n  -x"
    assert chunk(text, words, 8) == ["Options\n  -a\n    Show all.", owner, "As of May."]
    assert chunk(text.replace("\n    ", "\n  "), words, 8)[1] == "Show the owner.\n  -x\nAs of May."


@pytest.mark.parametrize(
    "text",
    [
        "On the first day nobody was there,\nShe said no.  He left.  Then\nit rained.",
        "On the first day nobody was there,\nin 1915; toilets, hotels, and a bar in 1928; and a bus stop\nin 1950.",
        "On the first day nobody was there,\nHe came back; she said: stay until\nthe end of the week.",
        (
            "    The  mill  of  the  valley  was  built when the river had been\n"
            "    dammed,  and  its  wheel  turned four stones from spring until\n"
            "    the  first frost.\tThe miller  lived  above  it, and  his  two\n"
            "    sons slept in the loft."
        ),
    ],
)
def test_prose_is_no_row(text):
    assert chunk(text, words, 60) == [text.strip()]


@pytest.mark.parametrize(
    ("text", "count_tokens", "max_tokens", "chunks"),
    [
        ("a b c d e. Fine.", words, 2, ["a b", "c d", "e. Fine."]),
        ("abcdefghijkl mn", LetterTokens(), 2, ["abcdef", "ghijkl", "mn"]),
        ("ab", lambda texts: [5 * len(text) for text in texts], 2, ["a", "b"]),  # of characters that do not fit
        (" \n ", words, 2, []),
    ],
)
def test_long_sentences_are_cut_between_words_and_long_words_between_characters(text, count_tokens, max_tokens, chunks):
    assert chunk(text, count_tokens, max_tokens) == chunks


def test_one_count_if_sentences_fit():
    count_tokens = LetterTokens()
    chunk("One two. Three four. Five six.", count_tokens, 4)
    assert count_tokens.calls == 1


def test_window_must_hold_a_token():
    with pytest.raises(ValueError, match="max_tokens"):
        chunk("a", words, 0)


@given(
    text=st.text(alphabet=st.sampled_from("aB1.!? \n") | st.characters(), max_size=300),
    max_tokens=st.integers(1, 12),
)
def test_chunks_lose_nothing(text, max_tokens):
    chunks = chunk(text, LetterTokens(), max_tokens)
    assert all(tokens <= max_tokens for tokens in LetterTokens()(chunks))
    assert re.sub(r"\s", "", "".join(chunks)) == re.sub(r"\s", "", text)
    assert all(piece.strip() == piece and piece for piece in chunks)
    assert chunks == chunk(text, LetterTokens(), max_tokens)
